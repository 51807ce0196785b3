// The page: what comes from the server, where it is drawn, and what keys and clicks do.

import { apply, sameTree, buildTree, count, nameOf, plural } from './state.js';
import { layout } from './layout.js';
import { drawNodes, swatch, colours, colourOf } from './draw.js';
import { el, age, explanation, inDomain, onNode, fitting, who, domainName, startWords } from './details.js';

const $ = (id) => document.getElementById(id);
const map = $('map'), space = $('space'), canvas = $('canvas'), treeEl = $('tree');

let state = null, tree = null, gangs = new Map(), plan = null;
let shown = '';                      // path of the domain that is shown
let chosen = { kind: '', name: '' }; // what is looked at: a gang, a domain, a node
let focused = '';                    // path of the tree item that Tab comes to
let opened = '';                     // path of the domain whose nodes are tree items, too
let marked = new Set();              // names of nodes on which the chosen gang would start
let theme = {}, printing = false;
const timings = { arrived: 0, script: 0, first: 0, updates: [], scripts: [] }; // milliseconds

// ---- what comes

const source = new EventSource('/events');
source.addEventListener('open', () => live('on', 'Live'));
source.addEventListener('error', () => live('off', 'Connection lost, trying again'));
source.addEventListener('state', (event) => come(() => [JSON.parse(event.data), false]));
source.addEventListener('patch', (event) => come(() => {
  const patch = JSON.parse(event.data);
  return [apply(state, patch), sameTree(patch)];
}));

function live(kind, words) {
  $('live').dataset.state = kind;
  $('live').textContent = words;
}

function come(read) {
  const began = performance.now(), first = !state;
  const [now, same] = read();
  const before = state;
  state = now;
  gangs = new Map(state.gangs.map((g) => [g.name, g]));
  if (!same || !tree) {
    tree = buildTree(state);
    plan = null;
    if (first) fromHash();
    if (!tree.byPath.has(shown)) shown = '';
  }
  count(tree, state.nodes);
  if (most(state.nodes) !== most(before ? before.nodes : [])) plan = null;
  render();
  if (!first) say(before);
  if (first || changedFor(before)) choose(chosen, { ask: true });
  if (first) Object.assign(timings, { arrived: began, script: performance.now() - began });
  else timings.scripts.push(performance.now() - began);
  // After the next frame it is on the screen.
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      if (first) timings.first = performance.now();
      else {
        timings.updates.push(performance.now() - began);
        if (timings.updates.length > 1000) timings.updates.shift(), timings.scripts.shift();
      }
      document.documentElement.dataset.shown = String(++drawn); // how many States were drawn
    };
    channel.port2.postMessage(0);
  });
}

let drawn = 0;

const counted = new WeakMap();
function most(nodes) {
  if (!counted.has(nodes)) {
    let n = 1;
    for (const node of nodes) {
      let all = node.free;
      for (const p of node.places || []) all += p.pods;
      if (all > n) n = all;
    }
    counted.set(nodes, Math.min(n, 15));
  }
  return counted.get(nodes);
}

// changedFor says whether what is looked at may be another now. That time passes changes nothing.
function changedFor(before) {
  if (chosen.kind === 'gang') {
    const one = (s) => JSON.stringify([s.waiting.find((w) => w.gang === chosen.name), s.gangs.find((g) => g.name === chosen.name)], (key, value) => (key === 'start' ? undefined : value));
    return one(before) !== one(state);
  }
  if (chosen.kind === 'node') return before.nodes !== state.nodes;
  const d = chosen.kind === 'domain' && tree.byPath.get(chosen.name);
  if (!d) return chosen.kind !== '';
  if (before.nodes.length !== state.nodes.length || before.waiting.length !== state.waiting.length) return true;
  for (let i = d.lo; i < d.hi; i++) {
    if (before.nodes[i] !== state.nodes[i]) return true;
  }
  return false;
}

function say(before) {
  const was = new Set(before.waiting.map((w) => w.gang)), is = new Set(state.waiting.map((w) => w.gang));
  const words = [];
  const came = state.waiting.filter((w) => !was.has(w.gang)), went = before.waiting.filter((w) => !is.has(w.gang));
  if (came.length) words.push(came.length > 3 ? `${came.length} more gangs wait` : came.map((w) => `${w.gang} waits: ${w.reason}`).join(' '));
  if (went.length) words.push(went.length > 3 ? `${went.length} gangs wait no more` : went.map((w) => `${w.gang} waits no more.`).join(' '));
  if (words.length) $('said').textContent = words.join(' ');
}

// ---- how it is shown

const frame = { asked: false };
function redraw() {
  if (frame.asked) return;
  frame.asked = true;
  requestAnimationFrame(() => {
    frame.asked = false;
    paint();
  });
}

function render() {
  texts();
  place();
  paint(); // in the same frame as the lists
  lists();
}

function texts() {
  const put = (id, words) => {
    if ($(id).textContent !== words) $(id).textContent = words;
  };
  put('source', state.source);
  put('for', state.for ? `Slots: ${state.for}` : '');
  put('summary', `${plural(state.nodes.length, 'node')}, ${plural(tree.root.free, 'free slot')}, ${plural(state.waiting.length, 'gang waits', 'gangs wait')} · ${new Date(state.at).toLocaleTimeString('en-GB')}`);
  put('problem', state.problem);
  $('problem').hidden = !state.problem;
  $('empty').hidden = state.nodes.length > 0;
  document.title = state.source ? `Muster: ${state.source}` : 'Muster';
}

const printed = 700; // CSS pixels of paper

function place() {
  const root = tree.byPath.get(shown);
  const width = printing ? printed : map.clientWidth - 16, height = printing ? 900 : map.clientHeight - 16;
  if (plan && plan.root === root && plan.for === width * 10000 + height) return boxes();
  plan = layout(root, width, height, most(state.nodes));
  plan.root = root;
  plan.for = width * 10000 + height;
  space.style.width = plan.width + 'px';
  space.style.height = plan.height + 'px';
  boxes(true);
  crumbs();
}

let items = new Map(); // by path

function boxes(fresh) {
  if (fresh) {
    const had = document.activeElement && treeEl.contains(document.activeElement);
    items = new Map();
    treeEl.replaceChildren(...plan.boxes.map(({ d, x, y, w, h }) => box(d, x, y, w, h)));
    opened = '';
    if (!items.has(focused)) focused = plan.boxes[0].d.path;
    const item = items.get(focused);
    item.e.tabIndex = 0;
    if (had) item.e.focus();
  }
  for (const item of items.values()) {
    if (!item.d) continue;
    const { d } = item, words = sums(d, item.narrow), all = words + d.used + d.reserved + d.broken;
    if (item.all === all) continue;
    item.all = all;
    if (item.sums.textContent !== words) item.sums.textContent = words;
    item.e.setAttribute('aria-label', `${state.layers[d.layer] || 'Domain'} ${domainName(d.path)}: ${plural(d.hi - d.lo, 'node')}, ${d.free} free, ${d.used} used, ${d.reserved} reserved${d.broken ? `, ${d.broken} broken` : ''}`);
  }
}

function sums(d, narrow) {
  if (narrow) return `${d.free} free`;
  return [`${d.free} free`, d.reserved ? `${d.reserved} reserved` : '', d.broken ? `${d.broken} broken` : ''].filter(Boolean).join(', ');
}

function box(d, x, y, w, h) {
  const words = el('span', { class: 'sums' });
  const siblings = d.parent ? d.parent.children : [d];
  const e = el('div', {
    role: 'treeitem', class: `box${d.layer % 2 ? ' odd' : ''}`, tabindex: '-1', 'data-path': d.path,
    'aria-level': String(d.layer + 1), 'aria-setsize': String(siblings.length), 'aria-posinset': String(siblings.indexOf(d) + 1),
    'aria-selected': String(chosen.kind === 'domain' && chosen.name === d.path),
  }, el('span', { class: 'name' }, d.path ? d.name : 'Cluster'), words);
  Object.assign(e.style, { left: x + 'px', top: y + 'px', width: w + 'px', height: h + 'px' });
  items.set(d.path, { e, d, sums: words, narrow: w < 170 });
  return e;
}

// open makes tree items of the nodes of a domain: only of one at a time.
function open(d) {
  if (opened === d.path) return;
  shut();
  opened = d.path;
  const { xs, ys, cell, lo } = plan, made = [];
  for (let i = d.lo; i < d.hi; i++) {
    const node = state.nodes[i];
    const e = el('div', {
      role: 'treeitem', class: 'box node', tabindex: '-1', 'data-path': node.path, 'aria-level': String(d.layer + 2), 'aria-setsize': String(d.hi - d.lo),
      'aria-posinset': String(i - d.lo + 1), 'aria-label': `${nameOf(node.path)}: ${who(node)}, ${node.free} free`, 'aria-selected': 'false',
    });
    Object.assign(e.style, { left: xs[i - lo] + 'px', top: ys[i - lo] + 'px', width: cell.w + 'px', height: cell.h + 'px' });
    items.set(node.path, { e, node: i });
    made.push(e);
  }
  items.get(d.path).e.after(...made);
}

function shut() {
  const d = tree.byPath.get(opened);
  if (opened === '' || !d) return;
  for (let i = d.lo; i < d.hi; i++) {
    const item = items.get(state.nodes[i].path);
    if (item && item.node !== undefined) {
      item.e.remove();
      items.delete(state.nodes[i].path);
    }
  }
  opened = '';
}

function paint() {
  if (!plan) return;
  const top = printing ? 0 : map.scrollTop, width = Math.ceil(plan.width);
  const height = Math.ceil(printing ? Math.min(plan.height, 30000) : Math.min(plan.height, map.clientHeight));
  const scale = printing ? (plan.height > 6000 ? 1 : 2) : window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = width + 'px';
    canvas.style.height = height + 'px';
  }
  const from = printing ? 0 : Math.min(Math.max(0, top - 8), Math.max(0, plan.height - height));
  canvas.style.top = from + 'px';
  const ctx = canvas.getContext('2d');
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.clearRect(0, 0, canvas.width, canvas.height);
  ctx.setTransform(scale, 0, 0, scale, 0, -from * scale);
  drawNodes(ctx, { nodes: state.nodes, gangs, theme, marked, chosen: placed() ? chosen.name : '' }, plan, from, from + height);
  if (chosen.kind === 'node') {
    const i = state.nodes.findIndex((n) => n.path === chosen.name) - plan.lo;
    if (i >= 0 && i < plan.xs.length) {
      ctx.strokeStyle = theme.accent;
      ctx.lineWidth = 3;
      ctx.strokeRect(plan.xs[i], plan.ys[i], plan.cell.w, plan.cell.h);
    }
  }
}

// placed says whether the gang that is looked at has places.
function placed() {
  if (chosen.kind !== 'gang') return false;
  return gangs.get(chosen.name)?.pods > 0 || state.nodes.some((n) => (n.places || []).some((p) => p.gang === chosen.name));
}

function crumbs() {
  const names = shown ? shown.split('/') : [];
  const step = (path, words, last) => el('li', {}, last
    ? el('span', { 'aria-current': 'location' }, words)
    : el('button', { type: 'button', class: 'link', onclick: () => zoom(path) }, words));
  $('crumbs').replaceChildren(step('', 'Cluster', names.length === 0), ...names.map((n, i) => step(names.slice(0, i + 1).join('/'), n, i === names.length - 1)));
}

const listed = 300; // rows of a list

function lists() {
  fill($('waiting'), state.waiting.slice(0, listed), (w) => w.gang, (w) => [gangs.get(w.gang)?.letter, gangs.get(w.gang)?.number, w, age(w.since || state.at, state.at)], waiter);
  if (state.waiting.length === 0) $('waiting').replaceChildren(el('li', { class: 'quiet' }, 'No gang waits.'));
  const find = $('find').value.trim().toLowerCase();
  $('find-label').hidden = state.gangs.length < 12;
  const on = state.gangs.filter((g) => g.pods > 0 && (!find || g.name.toLowerCase().includes(find)));
  fill($('gangs'), on.slice(0, listed), (g) => g.name, (g) => g, running);
  if (on.length === 0) $('gangs').replaceChildren(el('li', { class: 'quiet' }, find ? 'None of that name.' : 'No gang is on a node.'));
  $('more').hidden = on.length <= listed;
  $('more').textContent = on.length > listed ? `and ${plural(on.length - listed, 'gang')} more: find them by name` : '';
}

// fill makes a list, and only those rows again that say something else.
function fill(list, entries, key, what, make) {
  const had = new Map([...list.children].filter((li) => li.dataset.gang).map((li) => [li.dataset.gang, li]));
  const rows = entries.map((entry) => {
    const says = JSON.stringify(what(entry)), old = had.get(key(entry));
    if (old && old.says === says) return old;
    const row = make(entry);
    row.dataset.gang = key(entry);
    row.says = says;
    if (old && old.contains(document.activeElement)) queueMicrotask(() => row.firstElementChild.focus());
    return row;
  });
  if (rows.length !== list.children.length || rows.some((row, i) => row !== list.children[i])) list.replaceChildren(...rows);
  press(list);
}

function press(list) {
  let any = false;
  for (const b of list.querySelectorAll('button.gang')) {
    const is = chosen.kind === 'gang' && chosen.name === b.parentElement.dataset.gang;
    b.setAttribute('aria-pressed', String(is));
    b.tabIndex = is && !any ? 0 : -1;
    any ||= is;
  }
  const first = list.querySelector('button.gang');
  if (!any && first) first.tabIndex = 0;
}

function mark(gang, kind) {
  const c = el('canvas', { class: 'swatch', 'aria-hidden': 'true' });
  swatch(c, gang, kind, theme);
  return c;
}

function waiter(w) {
  const since = w.since ? `, for ${age(w.since, state.at)}` : '';
  return el('li', {}, el('button', { type: 'button', class: 'gang', onclick: () => choose({ kind: 'gang', name: w.gang }, { ask: true, focus: true }) },
    mark(gangs.get(w.gang), 'reserved'),
    el('span', { class: 'what' },
      el('span', { class: 'name' }, w.gang), ' ',
      el('span', { class: 'state' }, w.state), ' ',
      el('span', { class: 'quiet' }, `${w.bound}/${w.min} bound, priority ${w.priority}${since}`),
      el('span', { class: 'reason' }, w.reason + (w.start ? ` Start ${startWords(w.start)}.` : '')))));
}

function running(g) {
  return el('li', {}, el('button', { type: 'button', class: 'gang', onclick: () => choose({ kind: 'gang', name: g.name }, { ask: true, focus: true }) },
    mark(g, 'runs'),
    el('span', { class: 'what' }, el('span', { class: 'name' }, g.name), ' ', el('span', { class: 'quiet' }, `${plural(g.pods, 'pod')} in ${domainName(g.domain)}`))));
}

function legend() {
  const rows = [
    [{ number: 0, letter: 'a' }, 'runs', 'a pod of gang a'], [{ number: 0, letter: 'a' }, 'leaves', 'it was asked to leave'],
    [{ number: 0, letter: 'a' }, 'reserved', 'a place that is reserved for it'], [null, 'runs', 'a pod of no gang'], [null, 'free', 'a free slot'], [null, 'broken', 'a node that takes nobody: cordoned, or not ready'],
  ];
  $('legend').replaceChildren(...rows.map(([gang, kind, words]) => el('li', {}, mark(gang, kind), words)));
}

// ---- what is looked at

let asked = 0;

function choose(what, { ask = false, focus = false } = {}) {
  const before = chosen;
  chosen = what;
  if (before.kind !== what.kind || before.name !== what.name) marked = new Set();
  for (const item of items.values()) {
    const path = item.d ? item.d.path : state.nodes[item.node]?.path;
    item.e.setAttribute('aria-selected', String((what.kind === 'domain' && item.d && path === what.name) || (what.kind === 'node' && !item.d && path === what.name)));
  }
  press($('waiting'));
  press($('gangs'));
  redraw();
  if (ask) toHash();
  const body = $('details-body'), d = what.kind === 'domain' ? tree.byPath.get(what.name) : null;
  const node = what.kind === 'node' ? state.nodes.find((n) => n.path === what.name) : null;
  const known = what.kind === 'gang' || d || node;
  $('details').hidden = !known;
  if (!known) {
    asked++;
    return;
  }
  const same = before.kind === what.kind && before.name === what.name;
  $('details-title').textContent = what.kind === 'gang' ? what.name : what.kind === 'node' ? nameOf(what.name) : what.name || 'Cluster';
  $('zoom').hidden = !d || d.path === shown;
  const show = (name) => choose({ kind: 'gang', name }, { ask: true, focus: true });
  const go = (path) => choose({ kind: 'domain', name: path }, { ask: true, focus: true });
  const mine = ++asked;
  if (what.kind === 'gang') {
    const w = state.waiting.find((one) => one.gang === what.name), g = gangs.get(what.name);
    if (!same) answer(body, ...(w ? [el('p', { class: 'first' }, w.reason)] : []), ...(g && g.pods ? [el('p', {}, `${plural(g.pods, 'pod')} in ${domainName(g.domain)}.`)] : []), el('p', { class: 'quiet' }, 'Asking'));
    get(`/explain?gang=${encodeURIComponent(what.name)}`).then((e) => {
      if (mine !== asked) return;
      answer(body, ...explanation(e, go, show));
      marked = new Set(e.next?.nodes || []);
      redraw();
    }, (err) => mine === asked && answer(body, ...(w ? [el('p', { class: 'first' }, w.reason)] : []), el('p', { class: 'wrong' }, err.message)));
  } else if (d) {
    const old = same ? $('fits') : null;
    answer(body, ...inDomain(d, state.nodes, state.layers, show, (path) => choose({ kind: 'node', name: path }, { ask: true, focus: true })));
    if (old) $('fits').replaceWith(old);
    get(`/fits?domain=${encodeURIComponent(d.path)}`).then((fits) => mine === asked && answer($('fits'), ...fitting(fits, show)), (err) => mine === asked && answer($('fits'), el('p', { class: 'wrong' }, err.message)));
  } else {
    answer(body, ...onNode(node, show, go));
  }
  if (focus) {
    $('side').scrollTop = 0;
    $('details-title').focus();
  }
}

// answer shows what has been answered, and keeps the focus nearby if it was on what goes.
function answer(place, ...what) {
  const had = place.contains(document.activeElement);
  place.replaceChildren(...what);
  if (had) $('details-title').focus();
}

async function get(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.json();
}

function zoom(path) {
  shown = path;
  plan = null;
  focused = path;
  toHash();
  place();
  map.scrollTop = 0;
  paint();
  $('zoom').hidden = chosen.kind !== 'domain' || chosen.name === shown;
}

// ---- the address says what is looked at, so that it can be sent to somebody

function toHash() {
  const words = new URLSearchParams();
  if (shown) words.set('in', shown);
  if (chosen.kind) words.set(chosen.kind, chosen.name);
  const hash = words.size ? '#' + words : '';
  if (hash !== location.hash) history.replaceState(null, '', hash || location.pathname);
}

function fromHash() {
  const words = new URLSearchParams(location.hash.slice(1));
  shown = tree.byPath.has(words.get('in')) ? words.get('in') : '';
  chosen = { kind: '', name: '' };
  for (const kind of ['gang', 'domain', 'node']) {
    if (words.has(kind)) chosen = { kind, name: words.get(kind) };
  }
}

addEventListener('hashchange', () => {
  if (!state) return;
  const was = shown;
  fromHash();
  if (shown !== was) zoom(shown);
  choose(chosen, { ask: true });
});

// ---- keys and clicks

function focus(path) {
  const item = items.get(path);
  if (!item) return;
  const old = items.get(focused);
  if (old) old.e.tabIndex = -1;
  focused = path;
  item.e.tabIndex = 0;
  item.e.focus({ preventScroll: true });
  const top = parseFloat(item.e.style.top), h = parseFloat(item.e.style.height);
  if (top < map.scrollTop) map.scrollTop = top - 8;
  else if (top + Math.min(h, 60) > map.scrollTop + map.clientHeight - 16) map.scrollTop = top + Math.min(h, map.clientHeight - 24) - map.clientHeight + 24;
}

treeEl.addEventListener('keydown', (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const item = items.get(focused);
  if (!item) return;
  const all = [...treeEl.children], at = all.indexOf(item.e), to = (e) => e && focus(e.dataset.path);
  switch (event.key) {
    case 'ArrowDown': to(all[at + 1]); break;
    case 'ArrowUp': to(all[at - 1]); break;
    case 'Home': to(all[0]); break;
    case 'End': to(all[all.length - 1]); break;
    case 'ArrowRight':
      if (item.d && item.d.children.length > 0) focus(item.d.children[0].path);
      else if (item.d && item.d.hi > item.d.lo) {
        open(item.d);
        focus(state.nodes[item.d.lo].path);
      }
      break;
    case 'ArrowLeft':
      if (item.d) {
        if (item.d.parent && items.has(item.d.parent.path)) focus(item.d.parent.path);
      } else {
        const up = opened;
        focus(up);
        shut();
      }
      break;
    case 'Enter': case ' ':
      choose(item.d ? { kind: 'domain', name: item.d.path } : { kind: 'node', name: state.nodes[item.node].path }, { ask: true });
      break;
    case 'z': case 'Z':
      if (item.d) {
        zoom(item.d.path);
        focus(item.d.path);
      }
      break;
    default: return;
  }
  event.preventDefault();
});

treeEl.addEventListener('focusin', (event) => {
  const path = event.target.dataset.path;
  if (path === undefined) return;
  const old = items.get(focused);
  if (old && old.e !== event.target) old.e.tabIndex = -1;
  focused = path;
  event.target.tabIndex = 0;
});

function under(event) {
  const r = space.getBoundingClientRect(), x = event.clientX - r.left, y = event.clientY - r.top;
  const { xs, ys, cell, lo } = plan, e = event.target.closest('.box');
  const d = e && tree.byPath.get(e.dataset.path);
  if (!d || d.children.length > 0) return -1;
  for (let i = d.lo; i < d.hi; i++) {
    const k = i - lo;
    if (x >= xs[k] && x < xs[k] + cell.w && y >= ys[k] && y < ys[k] + cell.h) return i;
  }
  return -1;
}

treeEl.addEventListener('click', (event) => {
  const e = event.target.closest('.box');
  if (!e) return;
  const i = under(event), item = items.get(e.dataset.path);
  focus(e.dataset.path);
  if (i >= 0) choose({ kind: 'node', name: state.nodes[i].path }, { ask: true });
  else if (item.d) choose({ kind: 'domain', name: item.d.path }, { ask: true });
  else choose({ kind: 'node', name: state.nodes[item.node].path }, { ask: true });
});

treeEl.addEventListener('dblclick', (event) => {
  const e = event.target.closest('.box'), d = e && tree.byPath.get(e.dataset.path);
  if (d) zoom(d.path);
});

treeEl.addEventListener('pointermove', (event) => {
  const i = under(event), tip = $('tip');
  tip.hidden = i < 0;
  if (i < 0) return;
  const node = state.nodes[i], words = `${nameOf(node.path)}: ${who(node)}, ${node.free} free`;
  if (tip.textContent !== words) tip.textContent = words;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + 'px';
  tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8) + 'px';
});
treeEl.addEventListener('pointerleave', () => { $('tip').hidden = true; });

// In a list the arrow keys go from one gang to the next.
for (const list of [$('waiting'), $('gangs')]) {
  list.addEventListener('keydown', (event) => {
    const all = [...list.querySelectorAll('button.gang')], at = all.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    if (!all[to]) return;
    all[at].tabIndex = -1;
    all[to].tabIndex = 0;
    all[to].focus();
  });
}

let came = null; // where the focus was before something was looked at
document.addEventListener('focusin', (event) => {
  if (!$('details').contains(event.target)) came = event.target;
});

document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || !state) return;
  if (event.target === $('find') && $('find').value) return;
  if (chosen.kind) leave();
  else if (shown) {
    const from = shown;
    zoom(tree.byPath.get(shown).parent?.path ?? '');
    focus(from);
  } else if (opened) {
    const up = opened;
    focus(up);
    shut();
  } else return;
  event.preventDefault();
});

function leave() {
  const inside = $('details').contains(document.activeElement), was = chosen;
  choose({ kind: '', name: '' }, { ask: true });
  if (!inside) return;
  const row = was.kind === 'gang' && [...document.querySelectorAll('button.gang')].find((b) => b.parentElement.dataset.gang === was.name);
  const back = came && came.isConnected ? came : row || items.get(focused)?.e;
  if (back) back.focus();
}

$('close').addEventListener('click', leave);
$('zoom').addEventListener('click', () => zoom(chosen.name));
$('find').addEventListener('input', lists);
$('print').addEventListener('click', () => window.print());
map.addEventListener('scroll', redraw, { passive: true });
new ResizeObserver(() => {
  if (!state) return;
  place();
  redraw();
}).observe(map);

// ---- dark and light, and paper

const themes = ['auto', 'light', 'dark'];
const dark = matchMedia('(prefers-color-scheme: dark)');

function kept(value) {
  try {
    if (value !== undefined) localStorage.setItem('theme', value);
    return localStorage.getItem('theme') || 'auto';
  } catch {
    return value || 'auto'; // a browser may forbid it
  }
}

function dress(choice) {
  document.documentElement.dataset.theme = printing ? 'light' : choice === 'auto' ? (dark.matches ? 'dark' : 'light') : choice;
  $('theme').textContent = { auto: 'Colours: as the system', light: 'Colours: light', dark: 'Colours: dark' }[choice];
  const style = getComputedStyle(document.documentElement);
  theme = Object.fromEntries(['text', 'muted', 'line', 'cell', 'accent'].map((name) => [name, style.getPropertyValue('--' + name).trim()]));
  legend();
  if (!state) return;
  for (const list of [$('waiting'), $('gangs')]) list.replaceChildren(); // their swatches
  lists();
  redraw();
}

$('theme').addEventListener('click', () => dress(kept(themes[(themes.indexOf(kept()) + 1) % themes.length])));
dark.addEventListener('change', () => dress(kept()));

function paper(is) {
  if (printing === is || !state) return;
  printing = is;
  document.documentElement.classList.toggle('paper', is);
  dress(kept());
  plan = null;
  place();
  paint();
}
addEventListener('beforeprint', () => paper(true));
addEventListener('afterprint', () => paper(false));
matchMedia('print').addEventListener('change', (event) => paper(event.matches));

dress(kept());

// For tests, and for who wants to know: what is shown, and how long it took.
window.muster = {
  state: () => state,
  timings: () => structuredClone(timings),
  colours: () => structuredClone(colours.concat([[colourOf(null).fill, colourOf(null).ink]])),
  plan: () => plan && { width: plan.width, height: plan.height, cell: plan.cell.w, boxes: plan.boxes.length },
};
