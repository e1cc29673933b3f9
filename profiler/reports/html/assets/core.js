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

// A self-loop: out of the block's right side, to the label that dagre has made room for, and back.
function loopPoints(block, label) {
  const side = block.x + block.width / 2;
  const far = label.x - label.width / 2;
  const half = Math.min(12, block.height / 3);
  return [[side, -half], [far, -half], [far, half], [side, half]].map(([x, y]) => ({ x, y: block.y + y }));
}
