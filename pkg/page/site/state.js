// What is shown, and what becomes of it: patch.go says how a patch is read.

export function apply(state, patch) {
  const now = { ...state };
  for (const field of ['at', 'source', 'for', 'layers', 'problem']) {
    if (patch[field] !== undefined) now[field] = patch[field];
  }
  for (const list of ['nodes', 'gangs', 'waiting']) {
    if (patch[list]) now[list] = edit(state[list], patch[list]);
  }
  return now;
}

function edit(old, { gone = [], came = [], changed = [] }) {
  let now;
  if (gone.length === 0 && came.length === 0) {
    now = old.slice();
  } else {
    now = [];
    let g = 0, c = 0;
    old.forEach((entry, i) => {
      if (gone[g] === i) {
        g++;
        return;
      }
      while (c < came.length && came[c].at === now.length) now.push(came[c++].is);
      now.push(entry);
    });
    while (c < came.length) now.push(came[c++].is);
  }
  for (const { at, is } of changed) now[at] = is;
  return now;
}

// sameTree says whether a patch leaves all nodes where they are.
export function sameTree(patch) {
  return patch.layers === undefined && !(patch.nodes && (patch.nodes.gone || patch.nodes.came));
}

// Domain is a box: the nodes from lo up to hi, without hi.
function domain(path, name, layer, parent, lo) {
  return { path, name, layer, parent, lo, hi: lo, children: [], free: 0, used: 0, reserved: 0, broken: 0 };
}

// buildTree makes domains of the paths of nodes, which come in the order of the tree.
export function buildTree(state) {
  const depth = Math.max(1, state.layers.length - 1);
  const root = domain('', '', 0, null, 0);
  const byPath = new Map([['', root]]), leafOf = [];
  let last = null, prefix = '';
  state.nodes.forEach((node, i) => {
    const end = node.path.lastIndexOf('/') + 1;
    if (last && prefix.length === end && node.path.startsWith(prefix)) { // beside the one before
      leafOf.push(last);
      for (let d = last; d; d = d.parent) d.hi = i + 1;
      return;
    }
    const names = node.path.split('/');
    let at = root, path = '';
    for (let layer = 1; layer < depth; layer++) {
      path = layer === 1 ? names[0] : path + '/' + names[layer - 1];
      let d = byPath.get(path);
      if (!d) {
        d = domain(path, names[layer - 1], layer, at, i);
        at.children.push(d);
        byPath.set(path, d);
      }
      at = d;
    }
    last = at;
    prefix = node.path.slice(0, end);
    leafOf.push(at);
    for (let d = at; d; d = d.parent) d.hi = i + 1;
  });
  return { root, byPath, leafOf, depth };
}

// count adds up what is in each domain.
export function count(tree, nodes) {
  for (const d of tree.byPath.values()) d.free = d.used = d.reserved = d.broken = 0;
  nodes.forEach((node, i) => {
    let used = 0, reserved = 0;
    for (const p of node.places || []) {
      if (p.kind === 'reserved') reserved += p.pods;
      else used += p.pods;
    }
    for (let d = tree.leafOf[i]; d; d = d.parent) {
      d.free += node.free;
      d.used += used;
      d.reserved += reserved;
      if (node.broken) d.broken++;
    }
  });
}

export const nameOf = (path) => path.slice(path.lastIndexOf('/') + 1);

export function plural(n, one, many = one + 's') {
  return n === 1 ? `${n} ${one}` : `${n.toLocaleString('en')} ${many}`;
}
