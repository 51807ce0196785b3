// Where boxes and nodes are drawn. Sizes are CSS pixels.

const pad = 6, gap = 6, head = 22, narrowest = 112;

// sizes of a node, from the largest: the first is taken with which all is seen at once.
function sizes(most) {
  const rows = Math.ceil(Math.max(1, most) / 5);
  // named has its name above squares of that size, five in a row.
  const named = (w, unit, gap) => ({ w, h: Math.round(unit * 1.4) + rows * (unit + 4) + 4, gap, unit, rows });
  return [
    named(168, 28, 8),
    named(112, 18, 6),
    { w: 44, h: 44, gap: 3 },
    { w: 32, h: 32, gap: 2 },
    { w: 24, h: 24, gap: 2 },
    { w: 18, h: 18, gap: 1 },
  ];
}

// layout places what is in a domain; most is how many places a node has at most.
export function layout(root, width, height, most) {
  const all = sizes(most), area = root.hi - root.lo;
  for (const cell of all) {
    const last = cell === all[all.length - 1];
    // Far too many need not be tried.
    if (!last && (cell.w + 4 * pad > width || area * cell.w * cell.h > width * height)) continue;
    const measured = new Map();
    measure(root, width, cell, measured, true);
    const { w, h } = measured.get(root);
    if (last || (h <= height && w <= width)) return arrange(root, cell, measured);
  }
}

function arrange(root, cell, measured) {
  const boxes = [], xs = new Float32Array(root.hi - root.lo), ys = new Float32Array(root.hi - root.lo);
  set(root, 0, 0, measured.get(root).w, measured.get(root).h);
  return { boxes, xs, ys, cell, lo: root.lo, width: measured.get(root).w, height: measured.get(root).h };

  function set(d, x, y, w, h) {
    const m = measured.get(d);
    boxes.push({ d, x, y, w, h });
    if (d.children.length === 0) {
      for (let i = d.lo; i < d.hi; i++) {
        const k = i - d.lo;
        xs[i - root.lo] = x + pad + (k % m.columns) * (cell.w + cell.gap);
        ys[i - root.lo] = y + head + Math.floor(k / m.columns) * (cell.h + cell.gap);
      }
      return;
    }
    let top = y + head;
    for (const row of m.rows) {
      let left = x + pad;
      for (const c of row.children) {
        set(c, left, top, measured.get(c).w, row.h);
        left += measured.get(c).w + gap;
      }
      top += row.h + gap;
    }
  }
}

// measure says how large a box is that is as wide as it is told at most, and rather wide than high.
function measure(d, width, cell, out, whole) {
  if (d.children.length === 0) {
    const n = d.hi - d.lo, w = cell.w + cell.gap;
    const fit = Math.max(1, Math.floor((width - 2 * pad + cell.gap) / w));
    let columns = whole ? fit : Math.ceil(Math.sqrt(n * 2 * (cell.h + cell.gap) / w));
    columns = Math.max(1, Math.min(n, fit, columns));
    const rows = Math.ceil(n / columns);
    columns = Math.ceil(n / rows) || 1; // as even as can be
    out.set(d, {
      columns,
      w: Math.min(width, Math.max(narrowest, columns * w - cell.gap + 2 * pad)),
      h: head + rows * (cell.h + cell.gap) - cell.gap + pad,
    });
    return;
  }
  const inner = width - 2 * pad;
  let area = 0;
  for (const c of d.children) {
    measure(c, inner, cell, out, false);
    const m = out.get(c);
    area += (m.w + gap) * (m.h + gap);
  }
  let target = Math.max(Math.sqrt(area * 1.8), ...d.children.map((c) => out.get(c).w));
  // Where no second one has room beside it, it takes the whole row.
  if (whole || 2 * (target + 2 * pad) + gap > width) target = inner;
  const rows = [];
  let row = null, used = 0, widest = 0;
  for (const c of d.children) {
    const m = out.get(c);
    if (!row || used + gap + m.w > target + 0.5) {
      row = { children: [], h: 0 };
      rows.push(row);
      used = -gap;
    }
    row.children.push(c);
    row.h = Math.max(row.h, m.h);
    used += gap + m.w;
    widest = Math.max(widest, used);
  }
  let h = head + pad - gap;
  for (const r of rows) h += r.h + gap;
  out.set(d, { rows, w: Math.max(narrowest, widest + 2 * pad), h });
}
