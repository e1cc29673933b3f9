// A lesson: a drawing for each step, with what the step writes on edges and below blocks.
const WIDE_LETTER = 7.9; // style.css: 13 pixels

function stepDrawing(blocks, step) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 40, ranksep: 38, edgesep: 18, marginx: 14, marginy: 14 });
  const text = (name) => [name, ...labelLines(step.notes[name])];
  const longestOf = (lines) => Math.max(0, ...lines.map((line) => line.length));
  for (const name of ["ENTRY", ...blocks, "EXIT"]) {
    const lines = text(name);
    graph.setNode(name, { width: Math.max(46, longestOf(lines) * WIDE_LETTER + 16), height: 14 + 15 * lines.length });
  }
  step.lines.forEach((line, number) => {
    const lines = labelLines(line.label);
    graph.setEdge(line.source, line.target, {
      width: longestOf(lines) * WIDE_LETTER, height: 15 * lines.length, labelpos: "r", labeloffset: 8,
      weight: line.kind === "dummy" || line.kind === "back" ? 1 : 3,
    }, String(number));
  });
  laidOut(graph);
  const { width, height } = graph.graph();
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": step.title });
  for (const each of graph.edges()) {
    const { points, x, y } = graph.edge(each);
    const { label, kind } = step.lines[Number(each.name)];
    svg.append(drawn("g", { class: `way ${kind}`, "data-line": each.name },
      drawn("path", { class: "line", d: curve(points) }), arrow(points),
      labelLines(label).map((line, at, all) => drawn("text", { x, y: y + 4 + 15 * (at - (all.length - 1) / 2) }, line))));
  }
  for (const name of graph.nodes()) {
    const { x, y, width: wide, height: high } = graph.node(name);
    const round = name === "ENTRY" || name === "EXIT" ? high / 2 : 4;
    svg.append(drawn("g", { class: "stop" },
      drawn("rect", { x: x - wide / 2, y: y - high / 2, width: wide, height: high, rx: round }),
      text(name).map((line, at, all) => drawn("text", {
        x, y: y + 4 + 15 * (at - (all.length - 1) / 2), class: at ? "does" : "",
      }, line))));
  }
  return svg;
}

function show(lessons, number) {
  lessons.forEach((lesson, at) => {
    const section = byId(`lesson-${at}`);
    section.hidden = at !== number;
    byId(`tab-${at}`).toggleAttribute("aria-current", at === number);
    if (at !== number || section.dataset.drawn) return;
    section.dataset.drawn = "yes";
    lesson.steps.forEach((step, place) => fill(byId(`step-${number}-${place}`), lesson, step));
  });
}

function fill(article, lesson, step) {
  const svg = stepDrawing(lesson.blocks, step);
  article.querySelector(".picture").replaceChildren(svg);
  for (const row of article.querySelectorAll("tr[data-row]")) {
    const light = () => {
      article.querySelectorAll(".on").forEach((each) => each.classList.remove("on"));
      row.classList.add("on");
      const marked = step.marks[Number(row.dataset.row)] ?? [];
      marked.forEach((line) => svg.querySelector(`[data-line="${line}"]`)?.classList.add("on"));
    };
    row.addEventListener("click", light);
    row.addEventListener("focus", light);
  }
}

function move(by) {
  const steps = [...document.querySelectorAll(".lesson:not([hidden]) .step")];
  const at = steps.findLastIndex((step) => step.getBoundingClientRect().top < 20);
  steps[Math.max(0, Math.min(steps.length - 1, at + by))]?.scrollIntoView();
}

async function begin() {
  const lessons = await unpacked("data");
  const chosen = () => {
    const found = /^#lesson-(\d+)$/.exec(location.hash);
    show(lessons, found && lessons[Number(found[1])] ? Number(found[1]) : 0);
  };
  addEventListener("hashchange", chosen);
  addEventListener("keydown", (event) => {
    if (event.key === "j") move(1);
    if (event.key === "k") move(-1);
  });
  chosen();
}

begin();
