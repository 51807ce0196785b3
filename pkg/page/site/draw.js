// Nodes are drawn on a canvas: a letter and a colour for each gang, and a sign for what else there
// is, so that nothing depends on the colour.

// The colours that Okabe and Ito chose so that people who are colour-blind tell them apart, each
// with that of the letter on it; gray is left for pods of no gang.
export const colours = [
  ['#56B4E9', '#000000'], ['#E69F00', '#000000'], ['#009E73', '#000000'], ['#F0E442', '#000000'],
  ['#0072B2', '#ffffff'], ['#D55E00', '#000000'], ['#CC79A7', '#000000'],
];
const other = ['#767676', '#ffffff'];

// colourOf gives gangs beyond the seventh a bar, too: below, above, both.
export function colourOf(gang) {
  if (!gang) return { fill: other[0], ink: other[1], bars: 0, letter: '#' };
  const [fill, ink] = colours[gang.number % colours.length];
  return { fill, ink, bars: Math.floor(gang.number / colours.length) % 4, letter: gang.letter };
}

// swatch draws one place: what the lists and the legend show.
export function swatch(canvas, gang, kind, theme) {
  const scale = window.devicePixelRatio || 1, size = 20;
  canvas.width = canvas.height = size * scale;
  const ctx = canvas.getContext('2d');
  ctx.scale(scale, scale);
  if (kind === 'free' || kind === 'broken') {
    ctx.fillStyle = theme.cell;
    ctx.fillRect(0.5, 0.5, size - 1, size - 1);
    if (kind === 'free') dot(ctx, 0, 0, size, size, theme);
    outline(ctx, 0, 0, size, size, theme);
    if (kind === 'broken') cross(ctx, 0, 0, size, size, theme);
    return;
  }
  place(ctx, 0, 0, size, size, colourOf(gang), kind, theme);
}

// place draws pods of one gang.
function place(ctx, x, y, w, h, { fill, ink, bars, letter }, kind, theme) {
  if (kind === 'reserved') {
    ctx.fillStyle = theme.cell;
    ctx.fillRect(x, y, w, h);
    ctx.fillStyle = fill;
    ctx.fillRect(x, y + h - Math.max(3, h / 6), w, Math.max(3, h / 6));
    ctx.strokeStyle = theme.text;
    ctx.lineWidth = 1.5;
    ctx.setLineDash([3, 2]);
    ctx.strokeRect(x + 1, y + 1, w - 2, h - 2);
    ctx.setLineDash([]);
    text(ctx, letter, x, y, w, h, theme.text);
    return;
  }
  ctx.fillStyle = fill;
  ctx.fillRect(x, y, w, h);
  ctx.fillStyle = ink;
  if (bars & 1) ctx.fillRect(x, y + h - 3, w, 2);
  if (bars & 2) ctx.fillRect(x, y + 1, w, 2);
  if (kind === 'leaves') {
    ctx.strokeStyle = ink;
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.moveTo(x + 1, y + h - 1);
    ctx.lineTo(x + w - 1, y + 1);
    ctx.stroke();
    // The letter goes into the corner that the stroke leaves free.
    text(ctx, letter, x, y, w * 0.62, h * 0.68, ink);
    return;
  }
  text(ctx, letter, x, y, w, h, ink);
}

function text(ctx, letter, x, y, w, h, ink) {
  const size = Math.min(h * 0.72, (w * 1.5) / letter.length, 18);
  if (size < 6.5) return;
  ctx.fillStyle = ink;
  ctx.font = `600 ${size}px system-ui, sans-serif`;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  ctx.fillText(letter, x + w / 2, y + h / 2 + 0.5);
}

function dot(ctx, x, y, w, h, theme) {
  ctx.fillStyle = theme.muted;
  ctx.beginPath();
  ctx.arc(x + w / 2, y + h / 2, Math.max(1.2, Math.min(w, h) / 12), 0, 7);
  ctx.fill();
}

function outline(ctx, x, y, w, h, theme) {
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1;
  ctx.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
}

// cross marks a node that takes nobody.
function cross(ctx, x, y, w, h, theme) {
  for (const [style, width] of [[theme.cell, 4], [theme.text, 1.8]]) {
    ctx.strokeStyle = style;
    ctx.lineWidth = width;
    ctx.beginPath();
    ctx.moveTo(x + 2, y + 2);
    ctx.lineTo(x + w - 2, y + h - 2);
    ctx.moveTo(x + w - 2, y + 2);
    ctx.lineTo(x + 2, y + h - 2);
    ctx.stroke();
  }
}

// drawNodes draws the nodes of a layout between top and bottom. view has the nodes, the gangs by
// name, the theme, and whom it is about: chosen is a gang that has places, or "", and marked the
// names of nodes on which it would start.
export function drawNodes(ctx, view, plan, top, bottom) {
  const { cell, xs, ys, lo } = plan;
  for (let k = 0; k < xs.length; k++) {
    if (ys[k] + cell.h < top || ys[k] > bottom) continue;
    const node = view.nodes[lo + k];
    ctx.globalAlpha = view.chosen && !(node.places || []).some((p) => p.gang === view.chosen) ? 0.3 : 1;
    if (cell.unit) named(ctx, view, node, xs[k], ys[k], cell);
    else plain(ctx, view, node, xs[k], ys[k], cell);
    if (view.marked.size && view.marked.has(node.path.slice(node.path.lastIndexOf('/') + 1))) {
      ctx.globalAlpha = 1;
      ctx.strokeStyle = view.theme.accent;
      ctx.lineWidth = 3;
      ctx.strokeRect(xs[k] + 1, ys[k] + 1, cell.w - 2, cell.h - 2);
    }
  }
  ctx.globalAlpha = 1;
}

// Most nodes have one place or are free: what these look like is drawn once and copied.
const stamps = new Map();

function stamp(ctx, view, node, x, y, w, h) {
  const p = node.places && node.places[0], gang = p && view.gangs.get(p.gang), scale = ctx.getTransform().a;
  const key = [p ? p.kind : '', gang ? gang.number : '', w, h, scale, view.theme.cell].join();
  let made = stamps.get(key);
  if (!made) {
    if (stamps.size > 2000) stamps.clear();
    made = new OffscreenCanvas(Math.ceil(w * scale), Math.ceil(h * scale));
    const own = made.getContext('2d');
    own.scale(scale, scale);
    shared(own, view, node, 0, 0, w, h);
    stamps.set(key, made);
  }
  ctx.drawImage(made, x, y, made.width / scale, made.height / scale);
}

function plain(ctx, view, node, x, y, { w, h }) {
  const n = node.places ? node.places.length : 0;
  if (!node.broken && (n === 0 ? node.free > 0 : n === 1 && node.free === 0)) stamp(ctx, view, node, x, y, w, h);
  else shared(ctx, view, node, x, y, w, h);
}

// shared divides a node among who is on it.
function shared(ctx, view, node, x, y, w, h) {
  const { theme } = view, places = node.places || [];
  ctx.fillStyle = theme.cell;
  ctx.fillRect(x, y, w, h);
  let all = node.free;
  for (const p of places) all += p.pods;
  let left = x;
  for (const p of places) {
    const share = (w * p.pods) / all;
    place(ctx, left, y, share, h, colourOf(view.gangs.get(p.gang)), p.kind, theme);
    left += share;
  }
  if (node.free > 0) dot(ctx, left, y, x + w - left, h, theme);
  outline(ctx, x, y, w, h, theme);
  if (node.broken) cross(ctx, x, y, w, h, theme);
}

// named writes the node's name, and draws a square for each place.
function named(ctx, view, node, x, y, { w, h, unit, rows }) {
  const { theme } = view, pad = unit / 3, step = (w - 2 * pad - unit) / 4, title = unit * 1.4;
  ctx.fillStyle = theme.cell;
  ctx.fillRect(x, y, w, h);
  outline(ctx, x, y, w, h, theme);
  ctx.fillStyle = theme.text;
  ctx.font = `${Math.round(unit * 0.4 + 5)}px system-ui, sans-serif`;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'middle';
  let name = node.path.slice(node.path.lastIndexOf('/') + 1);
  const room = w - 2 * pad - (node.broken ? unit : 0);
  while (name.length > 2 && ctx.measureText(name).width > room) name = '…' + name.slice(name.startsWith('…') ? 2 : 1);
  ctx.fillText(name, x + pad, y + title / 2 + 1);
  const most = 5 * rows;
  let k = 0;
  const next = () => [x + pad + (k % 5) * step, y + title + Math.floor(k++ / 5) * (unit + 4)];
  let beyond = 0;
  for (const p of node.places || []) {
    for (let i = 0; i < p.pods; i++) {
      if (k >= most) {
        beyond++;
        continue;
      }
      const [left, top] = next();
      place(ctx, left, top, unit, unit, colourOf(view.gangs.get(p.gang)), p.kind, theme);
    }
  }
  for (let i = 0; i < node.free && k < most; i++) {
    const [left, top] = next();
    outline(ctx, left, top, unit, unit, theme);
    dot(ctx, left, top, unit, unit, theme);
  }
  if (beyond > 0) {
    ctx.fillStyle = theme.cell;
    ctx.fillRect(x + w - 34, y + h - 18, 32, 16);
    text(ctx, `+${beyond}`, x + w - 34, y + h - 18, 32, 16, theme.text);
  }
  if (node.broken) cross(ctx, x + w - unit, y + 4, unit - 4, unit - 4, theme);
}
