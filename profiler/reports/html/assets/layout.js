// From a routine's graph to places on the drawing, by dagre.
const BLOCK = 0, SLOT = 1, ENTRY = 2, EXIT = 3;
const LETTER = 6.7;
const MOST_DRAWN = 220;

// How many of these nodes are blocks, and not ENTRY or EXIT.
function blocksIn(found, nodes) {
  return [...nodes].filter((node) => found.nodes[node][0] < ENTRY).length;
}

// How often each node was executed; of ENTRY and EXIT, the counts of their edges.
function executions(found) {
  const counts = found.nodes.map((node) => size(node[3]));
  for (const [source, target, , count] of found.edges) {
    if (found.nodes[source][0] === ENTRY) counts[source] += size(count);
    if (found.nodes[target][0] === EXIT) counts[target] += size(count);
  }
  return counts;
}

// The choices of what is drawn of a graph: [title, set of nodes], the largest first.
function portions(found, counts) {
  const all = new Set(found.nodes.keys());
  const executed = new Set([...all].filter((node) => counts[node] > 0));
  const hot = new Set();
  for (const path of found.paths) {
    const more = path[5].filter((node) => node >= 0 && !hot.has(node));
    if (hot.size + more.length > MOST_DRAWN) break;
    more.forEach((node) => hot.add(node));
  }
  const ranked = [...executed].sort((a, b) => counts[b] - counts[a]);
  ranked.slice(0, Math.max(0, Math.min(60, MOST_DRAWN - hot.size))).forEach((node) => hot.add(node));
  const made = [["all blocks", all]];
  if (executed.size < all.size) made.push(["executed blocks", executed]);
  if (hot.size < executed.size) made.push(["hottest blocks", hot]);
  return made;
}

function actionOf(found, number) {
  return found.snippets?.[`e${number}`]?.does ?? "";
}

function placed(found, counts, chosen, names) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  const ways = new Map();
  for (const [source] of found.edges) ways.set(source, (ways.get(source) ?? 0) + 1);
  // Below a switch, lines to many blocks need more height to part before their labels.
  const ranksep = Math.min(100, 30 + 4 * Math.max(1, ...ways.values()));
  graph.setGraph({ rankdir: "TB", nodesep: 26, ranksep, edgesep: 14, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  const first = [...chosen].sort((a, b) => (found.nodes[b][0] === ENTRY) - (found.nodes[a][0] === ENTRY));
  for (const node of first) {
    const lines = names(node);
    const longest = Math.max(...lines.map((line) => line.length));
    graph.setNode(String(node), { width: Math.max(64, longest * LETTER + 14), height: 12 + 14 * lines.length });
  }
  found.edges.forEach(([source, target, , count], number) => {
    if (!chosen.has(source) || !chosen.has(target)) return;
    const does = actionOf(found, number);
    const shown = [...labelLines(does).map(short), ...edgeNumbers(found, number)];
    graph.setEdge(String(source), String(target), {
      width: shown.length ? Math.max(...shown.map((each) => each.length)) * 6.3 : 0,
      height: 12 * shown.length, labelpos: "r", labeloffset: 8, weight: 1 + Math.log10(1 + size(count)),
    }, String(number));
  });
  laidOut(graph);
  return graph;
}

function short(text) { return text.length > 40 ? `${text.slice(0, 39)}…` : text; }
