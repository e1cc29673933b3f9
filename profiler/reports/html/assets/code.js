// Instructions, source lines and snippets as listings.
function listing(rows) { return element("table", { class: "listing" }, element("tbody", {}, rows)); }

function listed(kind, first, second, text) {
  return element("tr", { class: kind }, element("td", { class: "number" }, first),
    element("td", { class: "address" }, second), element("td", {}, text));
}

// The rows of one block, each source line before its instructions.
function blockRows(found, node, count, last = { line: -1 }) {
  const [kind, start] = found.nodes[node];
  const name = kind === SLOT ? `slot ${start}` : start;
  const cold = size(count) ? "" : " cold";
  const rows = [listed(`block${cold}`, digits(count), "", kind >= ENTRY ? start : `block ${name}`)];
  for (const [address, text, line] of found.code?.[node] ?? []) {
    if (line >= 0 && line !== last.line) {
      rows.push(sourceRow(found, line));
      last.line = line;
    }
    rows.push(listed(cold.trim(), digits(count), address, text));
  }
  return rows;
}

function sourceRow(found, number) {
  const [file, line, text] = found.lines[number];
  return listed("source", "", "", text === null ? `${file}:${line}` : `${file.split("/").pop()}:${line}  ${text.trim()}`);
}

function snippetRows(snippet, count, where) {
  if (!snippet) return [];
  const rows = [listed("added", digits(count), "+", `${where}: ${snippet.does}`)];
  if (snippet.cost !== undefined) rows.push(listed("added", "", "+", costText(snippet)));
  for (const text of snippet.code ?? []) rows.push(listed("added", digits(count), "+", `    ${text}`));
  return rows;
}

function costText(snippet) {
  const jump = snippet.jump ? ` (${snippet.jump} for the jump)` : "";
  const hash = snippet.hashes ? ", and those of the hashing routine" : "";
  return `${plural(snippet.cost, "instruction")} each time${jump}${hash}, ${snippet.where}`;
}

function edgeName(found, number) {
  const [source, target] = found.edges[number];
  const name = (node) => (found.nodes[node][0] === SLOT ? "slot " : "") + found.nodes[node][1];
  return `${name(source)} → ${name(target)}`;
}

// The back edges with which a path may end: those that leave its last block, unless it ends at EXIT.
function endings(found, number) {
  const [, , , partial, edges, nodes, , leaves] = found.paths[number];
  const last = nodes[nodes.length - 1];
  const exits = edges.some((edge) => found.nodes[found.edges[edge][1]][0] === EXIT);
  return partial || exits || leaves ? [] : (found.backs ?? []).filter((edge) => found.edges[edge][0] === last);
}

// A path from its first block to its last, with what is added on the way and on the edge that ends it.
function pathListing(found, number) {
  const [, count, , , edges, nodes, loops] = found.paths[number];
  const rows = [];
  const last = { line: -1 };
  const left = [...edges];
  const crossed = (from) => {
    if (!left.length || found.edges[left[0]][0] !== from) return;
    const edge = left.shift();
    rows.push(...snippetRows(found.snippets?.[`e${edge}`], count, edgeName(found, edge)));
  };
  if (left.length && found.nodes[found.edges[left[0]][0]][0] === ENTRY) crossed(found.edges[left[0]][0]);
  for (const [at, node] of nodes.entries()) {
    if (loops.includes(at)) {  // The edge out of it may be of any of its blocks
      rows.push(listed("block", digits(count), "", `the loop at ${found.nodes[node]?.[1] ?? "its head"}: its iterations are other paths`));
      if (left.length) crossed(found.edges[left[0]][0]);
      continue;
    }
    if (node < 0) continue;
    rows.push(...snippetRows(found.snippets?.[`b${node}`], count, "at the top of the block"));
    rows.push(...blockRows(found, node, count, last));
    rows.push(...snippetRows(found.snippets?.[`t${node}`], count, "at the end of the block"));
    crossed(node);
  }
  const ends = endings(found, number);
  if (ends.length) {
    const text = ends.length > 1 ? "It ends with one of these back edges:" : "It ends with the back edge";
    rows.push(listed("block", "", "", `${text} ${ends.map((edge) => edgeName(found, edge)).join(", ")}`));
  }
  for (const edge of ends) {
    const times = ends.length > 1 ? "" : count;
    rows.push(...snippetRows(found.snippets?.[`e${edge}`], times, edgeName(found, edge)));
  }
  return listing(rows);
}

// The whole routine in the order of its addresses.
function routineListing(found, counts) {
  const order = [...found.nodes.keys()].filter((node) => found.nodes[node][0] < ENTRY);
  order.sort((a, b) => parseInt(found.nodes[a][1], 16) - parseInt(found.nodes[b][1], 16) || a - b);
  const leaving = new Map();
  found.edges.forEach(([source], number) => {
    leaving.set(source, [...(leaving.get(source) ?? []), number]);
  });
  const rows = [];
  const last = { line: -1 };
  const edgesOf = (node) => (leaving.get(node) ?? []).flatMap((edge) => (
    snippetRows(found.snippets?.[`e${edge}`], found.edges[edge][3], edgeName(found, edge))));
  found.nodes.forEach(([kind], node) => { if (kind === ENTRY) rows.push(...edgesOf(node)); });
  for (const node of order) {
    rows.push(...snippetRows(found.snippets?.[`b${node}`], counts[node], "at the top of the block"));
    rows.push(...blockRows(found, node, counts[node], last));
    rows.push(...snippetRows(found.snippets?.[`t${node}`], counts[node], "at the end of the block"), ...edgesOf(node));
  }
  return listing(rows);
}

// Source lines with the instructions executed for each, file by file.
function sourceListing(found, counts) {
  const executed = new Map();
  for (const [node, instructions] of Object.entries(found.code ?? {})) {
    for (const [, , line] of instructions) {
      if (line >= 0) executed.set(line, (executed.get(line) ?? 0) + counts[node]);
    }
  }
  if (!executed.size) return element("p", { class: "quiet" }, "The program has no line information here.");
  const order = [...executed.keys()].sort((a, b) => {
    const [one, other] = [found.lines[a], found.lines[b]];
    return one[0].localeCompare(other[0]) || one[1] - other[1];
  });
  const line4 = (kind, times, count, line, text) => element("tr", { class: kind },
    element("td", { class: "number" }, times), element("td", { class: "number" }, count),
    element("td", { class: "address" }, line), element("td", {}, text));
  const rows = [line4("block", "executed", "instructions", "line", "")];
  let file = null;
  for (const number of order) {
    const [name, line, text, times] = found.lines[number];
    if (name !== file) rows.push(line4("block", "", "", "", name));
    file = name;
    const count = executed.get(number);
    rows.push(line4(size(times) ? "" : "cold", digits(times), digits(count), line, text ?? ""));
  }
  const missing = order.every((number) => found.lines[number][2] === null);
  const note = missing ? element("p", { class: "quiet" }, "The source files were not found: lines have numbers only.") : null;
  return element("div", {}, note, listing(rows));
}
