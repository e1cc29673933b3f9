// The data of the page, and making elements. Text from programs only ever becomes text nodes.
const SVG = "http://www.w3.org/2000/svg";
const state = { run: 0, index: null, groups: new Map() };

function byId(id) { return document.getElementById(id); }

// An element with attributes and children; a child that is no node becomes text.
function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick" || name === "oninput" || name === "onkeydown" || name === "onchange") {
      made.addEventListener(name.slice(2), value);
    } else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? "" : value);
    }
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) {
      made.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
  }
  return made;
}

async function unpacked(id) {
  const letters = atob(byId(id).textContent.trim());
  const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// What is known of a routine in one run; null where it did not run there.
async function details(row, run) {
  const group = Math.floor(row / state.index.group);
  if (!state.groups.has(group)) state.groups.set(group, unpacked(`group-${group}`));
  const { graphs, runs } = (await state.groups.get(group))[row % state.index.group];
  if (!runs[run]) return null;
  const [number, scheme] = runs[run];
  return { ...graphs[number], ...scheme, carry: new Set(scheme.carry), added: new Map(scheme.added) };
}

// Large integers come as text: all digits, or "1.23e45" where nobody could read them.
function size(value) {
  if (typeof value === "number") return value;
  if (value === null || value === undefined) return -Infinity;
  return Number(String(value).replaceAll(",", ""));
}

function digits(value) {
  return typeof value === "number" ? value.toLocaleString("en-US") : String(value);
}

// The numbers of a column in one notation, as reports.numbers.column has them: a short form
// beside others' digits would look smaller. What is no number stays.
function alike(values) {
  const isShort = (value) => typeof value === "string" && /^-?\d\.\d\de\d+$/.test(value);
  if (!values.some(isShort)) return values.map(digits);
  return values.map((value) => {
    const plain = digits(value).replaceAll(",", "");
    const found = /^(-?)(\d{7,})$/.exec(plain);
    if (!found) return digits(value);
    const [, sign, all] = found;
    return `${sign}${all[0]}.${all.slice(1, 3)}e${all.length - 1}`;
  });
}

function share(part, whole) {
  const all = size(whole);
  return all ? `${((100 * size(part)) / all).toFixed(2)} %` : "-";
}

function run() { return state.index.runs[state.run]; }

function plural(count, noun) { return `${digits(count)} ${noun}${count === 1 ? "" : "s"}`; }

function curve(points) {
  const at = (point) => `${point.x.toFixed(1)} ${point.y.toFixed(1)}`;
  let text = `M${at(points[0])}`;
  for (let i = 1; i < points.length - 1; i += 1) {
    const next = points[i + 1];
    const last = i === points.length - 2;
    const end = last ? next : { x: (points[i].x + next.x) / 2, y: (points[i].y + next.y) / 2 };
    text += `Q${at(points[i])} ${at(end)}`;
  }
  return points.length === 2 ? `${text}L${at(points[1])}` : text;
}

function arrow(points) {
  const end = points[points.length - 1];
  const before = points[points.length - 2];
  const angle = Math.atan2(end.y - before.y, end.x - before.x);
  const corner = (turn) => `${(end.x - 8 * Math.cos(angle + turn)).toFixed(1)},${(end.y - 8 * Math.sin(angle + turn)).toFixed(1)}`;
  return drawn("polygon", { points: `${end.x.toFixed(1)},${end.y.toFixed(1)} ${corner(0.4)} ${corner(-0.4)}` });
}

// Lay a graph out by dagre, which leaves two things to us: the points of self-loops, and a frame
// in which all edges lie, too.
function laidOut(graph) {
  dagre.layout(graph);
  const nodes = graph.nodes().map((name) => graph.node(name));
  const edges = graph.edges().map((each) => graph.edge(each));
  graph.edges().forEach(({ v, w }, at) => {
    if (v === w) edges[at].points = loopPoints(graph.node(v), edges[at]);
  });
  const labels = edges.filter(({ x }) => x !== undefined);
  besideLines(nodes, edges, labels);
  const parts = [...nodes, ...labels, ...edges.flatMap(({ points }) => points)];
  const range = (place, extent) => [
    Math.min(...parts.map((each) => each[place] - (each[extent] ?? 0) / 2)),
    Math.max(...parts.map((each) => each[place] + (each[extent] ?? 0) / 2)),
  ];
  const frame = graph.graph();
  const [left, right] = range("x", "width");
  const [top, bottom] = range("y", "height");
  const tenths = (length) => Math.round(10 * length) / 10;
  for (const each of parts) {
    each.x += tenths(frame.marginx - left);
    each.y += tenths(frame.marginy - top);
  }
  frame.width = tenths(right - left + 2 * frame.marginx);
  frame.height = tenths(bottom - top + 2 * frame.marginy);
}

// Move labels beside their edges: off all lines, blocks and other labels, where there is room.
const CELL = 24; // Pixels: lines are looked for by cells of a grid.
const CLEAR = 3; // Pixels between a label and a line

function besideLines(nodes, edges, labels) {
  const grid = new Map();
  const cells = function* (left, top, right, bottom) {
    for (let x = Math.floor(left / CELL); x <= right / CELL; x += 1) {
      for (let y = Math.floor(top / CELL); y <= bottom / CELL; y += 1) yield `${x} ${y}`;
    }
  };
  const taken = (left, top, right, bottom) => {
    for (const cell of cells(left, top, right, bottom)) {
      if (!grid.has(cell)) grid.set(cell, []);
      grid.get(cell).push([left, top, right, bottom]);
    }
  };
  const hits = (left, top, right, bottom) => {
    let count = 0;
    for (const cell of cells(left, top, right, bottom)) {
      for (const [l, t, r, b] of grid.get(cell) ?? []) {
        if (l < right && r > left && t < bottom && b > top) count += 1;
      }
    }
    return count;
  };
  const boxed = ({ x, y, width, height }, more) => [
    x - width / 2 - more, y - height / 2 - more, x + width / 2 + more, y + height / 2 + more];
  for (const node of nodes) taken(...boxed(node, CLEAR));
  const lines = new Map(edges.map((edge) => [edge, onCurve(edge.points)]));
  for (const line of lines.values()) {
    line.forEach(({ x, y }, at) => {
      const near = at >= line.length - 3 ? CLEAR + 3 : CLEAR; // the arrow
      taken(x - near, y - near, x + near, y + near);
    });
  }
  for (const label of labels.filter(({ width, height }) => width && height)) {
    const line = lines.get(label);
    // Nearest to where dagre has made room, then along the line.
    const off = ({ y }) => Math.abs(y - label.y);
    const places = [...line].sort((a, b) => off(a) - off(b));
    let best = null;
    search: for (const gap of [1, 5, 10, 18, 28, 40, 60, 90]) {
      for (const { x, y } of places) {
        for (const side of [1, -1]) {
          const place = { ...label, x: x + side * (label.width / 2 + CLEAR + gap), y };
          const count = hits(...boxed(place, 0));
          if (best === null || count < best.count) best = { count, x: place.x, y };
          if (!count) break search;
        }
      }
    }
    if (best === null) continue;
    label.x = best.x;
    label.y = best.y;
    taken(...boxed(label, 1));
  }
}

// Points of an edge's curve, a few pixels from one to the next.
function onCurve(points) {
  const found = [];
  const between = (a, b, share) => ({ x: a.x + (b.x - a.x) * share, y: a.y + (b.y - a.y) * share });
  const add = (from, control, to) => {
    const length = Math.hypot(control.x - from.x, control.y - from.y) + Math.hypot(to.x - control.x, to.y - control.y);
    const steps = Math.max(2, Math.ceil(length / 4));
    for (let at = 0; at <= steps; at += 1) {
      found.push(between(between(from, control, at / steps), between(control, to, at / steps), at / steps));
    }
  };
  if (points.length === 2) add(points[0], between(points[0], points[1], 0.5), points[1]);
  for (let i = 1, from = points[0]; i < points.length - 1; i += 1) {
    const last = i === points.length - 2;
    const to = last ? points[i + 1] : between(points[i], points[i + 1], 0.5);
    add(from, points[i], to);
    from = to;
  }
  return found;
}

// The lines of a label: one for each action, and for what is counted otherwise.
function labelLines(text) {
  return text ? text.split(/(?<=;) | (?=else )/) : [];
}

// What stands below: how often the edge was crossed, and the instructions that its code added.
function edgeNumbers(found, number) {
  const count = found.edges[number][3];
  const added = found.added.get(number) ?? 0;
  return [size(count) ? digits(count) : "", size(added) ? `+${digits(added)}` : ""].filter(Boolean);
}

// A self-loop: out of the block's right side, to the label that dagre has made room for, and back.
function loopPoints(block, label) {
  const side = block.x + block.width / 2;
  const far = label.x - label.width / 2;
  const half = Math.min(12, block.height / 3);
  return [[side, -half], [far, -half], [far, half], [side, half]].map(([x, y]) => ({ x, y: block.y + y }));
}
