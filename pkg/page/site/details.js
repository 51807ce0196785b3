// What is said of one gang, one domain or one node.

import { plural, nameOf } from './state.js';

// el makes an element; text is text, never markup.
export function el(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else e.setAttribute(key, value === true ? '' : value);
  }
  e.append(...children.filter((c) => c !== undefined && c !== null && c !== ''));
  return e;
}

export function age(since, at) {
  const s = Math.max(0, Math.round((new Date(at) - new Date(since)) / 1000));
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} days`;
}

export const domainName = (path) => path || 'the cluster';

// startWords says when a waiting gang starts.
export function startWords(s) {
  return s.time ? `${s.kind} for ${new Date(s.time).toLocaleString('en-GB')} in ${domainName(s.domain)}` : s.kind;
}

function table(head, rows, label) {
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label },
    el('table', {},
      el('thead', {}, el('tr', {}, ...head.map((h) => el('th', { scope: 'col' }, h)))),
      el('tbody', {}, ...rows.map((cells) => el('tr', {}, ...cells.map((c, i) => el(i === 0 ? 'th' : 'td', i === 0 ? { scope: 'row' } : {}, c)))))));
}

// most bounds what is listed: who needs more has a terminal.
const most = 100;

function cut(rows, what) {
  return rows.length > most ? el('p', { class: 'quiet' }, `and ${plural(rows.length - most, what)} more`) : '';
}

const facts = (...pairs) => el('dl', {}, ...pairs.filter(([, value]) => value !== undefined && value !== '').flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));

function eviction(e) {
  if (!e) return '–';
  if (e.part) return `${plural(e.slots, 'slot')} at most`;
  if (e.untried) return 'not tried';
  if (!e.possible) return `no, ${plural(e.slots, 'slot')} at most`;
  const parts = [];
  if (e.pods !== undefined) parts.push(plural(e.pods, 'pod'));
  if (e.pods) parts.push(`priority ${e.highestPriority} at most`);
  if (e.violations) parts.push(`${e.violations} against a budget`);
  return parts.join(', ') || 'possible';
}

// explanation shows what was answered for a gang. go shows a domain, show a gang.
export function explanation(e, go, show) {
  const out = [];
  if (e.waitsFor) out.push(el('p', { class: 'first' }, e.waitsFor));
  if (e.why) out.push(el('p', {}, e.why));
  if (e.cure) out.push(el('p', {}, el('strong', {}, 'What would help: '), e.cure.words + '.'));
  const queue = e.queue && (e.queue.position ? `${e.queue.position} of ${e.queue.of}` : 'no scheduler tries it now');
  out.push(facts(
    ['State', e.state], ['Members', e.members && `${e.members.bound} of ${e.members.min} bound, ${plural(e.members.exist, 'exists', 'exist')}`],
    ['Queue', queue], ['Start', e.start && startWords(e.start)], ['Runs in', e.where && link(e.where.domain, go)], ['Starts in', e.next && link(e.next.domain, go)],
    ['On', e.next && e.next.nodes && e.next.nodes.slice(0, 12).join(', ') + (e.next.nodes.length > 12 ? ', …' : '')],
    ['Leave anyway', e.next && e.next.leave && e.next.leave.slice(0, 12).join(', ') + (e.next.leave.length > 12 ? ', …' : '')],
    ['Evicts', e.next && e.next.evicts && e.next.evicts.slice(0, 12).join(', ') + (e.next.evicts.length > 12 ? ', …' : '')],
  ));
  if (e.queue && e.queue.ahead && e.queue.ahead.length) {
    out.push(el('h3', {}, 'Before it'), el('p', {}, ...e.queue.ahead.slice(0, 20).flatMap((g, i) => [i ? ' ' : '', button(g, () => show(g))]), e.queue.ahead.length > 20 ? ' …' : ''));
  }
  for (const h of e.holders || []) out.push(el('p', {}, `Reserved for ${h.gang} (priority ${h.priority}): ${h.nodes.slice(0, 12).join(', ')}${h.nodes.length > 12 ? ', …' : ''}`));
  if (e.domains && e.domains.length) {
    const costs = e.domains.some((d) => d.eviction);
    out.push(el('h3', {}, `Each ${e.layer || 'domain'}`), table(['Domain', 'Slots', 'Nodes', ...(costs ? ['Eviction'] : [])],
      e.domains.slice(0, most).map((d) => [link(d.path, go), d.freeNow === undefined ? String(d.slots) : `${d.slots} at its turn, ${d.freeNow} now`, String(d.nodes), ...(costs ? [eviction(d.eviction)] : [])]), 'Domains'), cut(e.domains, 'domain'));
    for (const d of e.domains.slice(0, 10)) {
      const lacks = Object.entries(d.lacks || {}).sort((a, b) => b[1] - a[1]).map(([why, n]) => `${plural(n, 'node')}: ${why}`);
      if (lacks.length) out.push(el('p', { class: 'quiet' }, `${domainName(d.path)} – ${lacks.join('; ')}`));
    }
  }
  if (e.where && e.where.touched) {
    const least = Object.fromEntries((e.where.leastPossible || []).map((l) => [l.layer, l.domains]));
    out.push(el('h3', {}, 'How near'), table(['Layer', 'Domains', 'Least possible'], e.where.touched.map((l) => [l.layer, String(l.domains), String(least[l.layer] ?? '–')]), 'How near'));
  }
  return out;
}

export function link(path, go) {
  return button(domainName(path), () => go(path));
}

export function button(words, onclick) {
  return el('button', { type: 'button', class: 'link', onclick }, words);
}

// inDomain says who is in a domain.
export function inDomain(d, nodes, layers, show, goNode) {
  const gangs = new Map();
  for (let i = d.lo; i < d.hi; i++) {
    for (const p of nodes[i].places || []) {
      const key = p.gang || '';
      const sum = gangs.get(key) || { runs: 0, leaves: 0, reserved: 0 };
      sum[p.kind] += p.pods;
      gangs.set(key, sum);
    }
  }
  const rows = [...gangs].sort((a, b) => total(b[1]) - total(a[1]));
  const out = [facts(
    ['Layer', layers[d.layer]], ['Nodes', String(d.hi - d.lo) + (d.broken ? `, ${d.broken} broken` : '')],
    ['Free slots', String(d.free)], ['Reserved', String(d.reserved)], ['Pods', String(d.used)])];
  out.push(el('h3', {}, 'Who is in it'));
  if (rows.length === 0) out.push(el('p', {}, 'Nobody.'));
  else {
    out.push(table(['Gang', 'Run', 'Leave', 'Reserved'], rows.slice(0, most).map(([name, n]) => [name ? button(name, () => show(name)) : 'no gang', String(n.runs), String(n.leaves), String(n.reserved)]), 'Gangs in it'), cut(rows, 'gang'));
  }
  out.push(el('h3', {}, 'What fits'), el('div', { id: 'fits' }, el('p', { class: 'quiet' }, 'Counting')));
  if (d.children.length === 0) {
    const list = nodes.slice(d.lo, Math.min(d.hi, d.lo + most));
    out.push(el('h3', {}, 'Nodes'), table(['Node', 'Free', 'Who'], list.map((n) => [button(nameOf(n.path), () => goNode(n.path)), String(n.free), who(n)]), 'Nodes'), d.hi - d.lo > most ? el('p', { class: 'quiet' }, `and ${d.hi - d.lo - most} more`) : '');
  }
  return out;
}

const total = (n) => n.runs + n.leaves + n.reserved;

// who says in words what is on a node.
export function who(node) {
  const words = (node.places || []).map((p) => `${p.gang || 'no gang'} × ${p.pods}${{ leaves: ' leaving', reserved: ' reserved' }[p.kind] || ''}`);
  if (node.broken) words.unshift('broken');
  return words.join(', ') || 'nobody';
}

export function onNode(node, show, go) {
  const parent = node.path.slice(0, node.path.lastIndexOf('/') < 0 ? 0 : node.path.lastIndexOf('/'));
  return [
    facts(['In', link(parent, go)], ['Free slots', String(node.free)], ['Takes new pods', node.broken ? 'no: it is cordoned, or not ready' : 'yes']),
    node.places && node.places.length
      ? table(['Gang', 'Pods', 'They'], node.places.map((p) => [p.gang ? button(p.gang, () => show(p.gang)) : 'no gang', String(p.pods), { runs: 'run', leaves: 'leave', reserved: 'have a place reserved' }[p.kind]]), 'Pods')
      : el('p', {}, 'Nobody is on it.'),
  ];
}

export function fitting(fits, show) {
  if (fits.length === 0) return [el('p', {}, 'No gang waits.')];
  return [table(['Gang that waits', 'Needs', 'Free for it', 'Fits'], fits.map((f) => [button(f.gang, () => show(f.gang)), String(f.needs), String(f.slots), f.fits ? 'yes' : 'no']), 'What fits')];
}
