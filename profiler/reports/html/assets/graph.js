// A control-flow graph as a drawing: heat by count, code on its edges, one path in colour.
class Drawing {
  constructor(found, pick) {
    this.found = found;
    this.pick = pick;
    this.counts = executions(found);
    this.most = Math.max(1, ...this.counts);
    this.choices = portions(found, this.counts);
    const fitting = this.choices.findIndex(([, nodes]) => nodes.size <= MOST_DRAWN);
    this.choice = fitting < 0 ? this.choices.length - 1 : fitting;
    this.zoom = 1;
    this.path = null;
    this.box = element("div", { class: "drawing", tabindex: "0", role: "group", "aria-label": "Control-flow graph" });
    this.note = element("span", { class: "quiet" });
    this.draw();
  }

  names(node) {
    const [kind, start, length] = this.found.nodes[node];
    if (kind === ENTRY || kind === EXIT) return [start];
    const lines = [kind === SLOT ? `slot ${start}` : start];
    lines.push(length < 0 ? digits(this.counts[node]) : `${digits(this.counts[node])} × ${length}`);
    const place = this.found.code?.[node]?.[0]?.[2] ?? -1;
    if (place >= 0) {
      const [file, line] = this.found.lines[place];
      lines.push(`${file.split("/").pop()}:${line}`.slice(-24));
    }
    return lines;
  }

  draw() {
    const chosen = this.choices[this.choice][1];
    this.graph = placed(this.found, this.counts, chosen, (node) => this.names(node));
    const { width, height } = this.graph.graph();
    this.width = width || 100;
    this.height = height || 100;
    this.edges = new Map();
    this.nodes = new Map();
    this.svg = drawn("svg", { viewBox: `0 0 ${this.width} ${this.height}`, role: "img", "aria-label": "Graph" });
    for (const each of this.graph.edges()) this.svg.append(this.edge(Number(each.name), this.graph.edge(each)));
    for (const node of chosen) this.svg.append(this.node(node, this.graph.node(String(node))));
    const left = blocksIn(this.found, this.found.nodes.keys()) - blocksIn(this.found, chosen);
    this.note.textContent = left ? `${plural(left, "block")} not drawn` : "";
    this.box.replaceChildren(this.svg);
    this.scale(this.zoom);
    this.light(this.path);
  }

  node(node, { x, y, width, height }) {
    const [kind] = this.found.nodes[node];
    const count = this.counts[node];
    const heat = count ? 0.08 + (0.6 * Math.log(1 + count)) / Math.log(1 + this.most) : 0;
    const round = kind === ENTRY || kind === EXIT ? height / 2 : 4;
    const area = { x: x - width / 2, y: y - height / 2, width, height, rx: round };
    const lines = this.names(node);
    const made = drawn("g", {
      class: `node${count ? "" : " cold"}${kind === SLOT ? " slot" : ""}`, tabindex: "0",
      role: "button", "data-node": node, ...this.acts("node", node),
    }, drawn("title", {}, lines.join(", ")),
    drawn("rect", { class: "box", ...area }), drawn("rect", { class: "heat", "fill-opacity": heat, ...area }),
    lines.map((line, at) => drawn("text", {
      x, y: y + 4 + 14 * (at - (lines.length - 1) / 2), class: at === 2 ? "small" : "",
    }, line)));
    this.nodes.set(node, made);
    return made;
  }

  edge(number, { points, x, y }) {
    const [, , kind, count] = this.found.edges[number];
    const carries = this.found.carry.has(number);
    const does = actionOf(this.found, number);
    const line = curve(points);
    const thick = 1 + (2.2 * Math.log(1 + size(count))) / Math.log(1 + this.most);
    const labels = [];
    labelLines(does).forEach((part) => labels.push(drawn("text", { class: "does" }, short(part))));
    edgeNumbers(this.found, number).forEach((part) => labels.push(drawn("text", {}, part)));
    labels.forEach((label, at) => {
      label.setAttribute("x", x);
      label.setAttribute("y", y + 4 + 12 * (at - (labels.length - 1) / 2));
    });
    const kinds = `edge ${kind}${size(count) ? "" : " cold"}${carries ? " chord" : ""}`;
    const made = drawn("g", {
      class: kinds, tabindex: carries ? "0" : "-1", role: "button", "data-edge": number,
      ...this.acts("edge", number),
    }, drawn("title", {}, [kind, `${digits(count)} times`, does].filter(Boolean).join(", ")),
    drawn("path", { class: "line", d: line, "stroke-width": thick }), arrow(points),
    drawn("path", { class: "hit", d: line }), labels);
    this.edges.set(number, made);
    return made;
  }

  acts(what, number) {
    const act = () => { this.mark(what, number); this.pick(what, number); };
    return {
      onclick: act,
      onkeydown: (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); }
      },
    };
  }

  mark(what, number) {
    this.svg.querySelectorAll(".picked").forEach((each) => each.classList.remove("picked"));
    (what === "node" ? this.nodes : this.edges).get(number)?.classList.add("picked");
  }

  // Show one path of the routine in colour; null: none.
  light(path) {
    this.path = path;
    this.svg.querySelectorAll(".on").forEach((each) => each.classList.remove("on"));
    this.svg.classList.toggle("lit", path !== null);
    if (path === null) return;
    const [, , , , edges, nodes] = this.found.paths[path];
    nodes.forEach((node) => this.nodes.get(node)?.classList.add("on"));
    edges.forEach((edge) => {
      const made = this.edges.get(edge);
      made?.classList.add("on");
      for (const end of this.found.edges[edge].slice(0, 2)) {
        if (this.found.nodes[end][0] >= ENTRY) this.nodes.get(end)?.classList.add("on");
      }
    });
    endings(this.found, path).forEach((edge) => this.edges.get(edge)?.classList.add("on", "ending"));
    this.show(nodes);
  }

  // Scroll so that what is in colour is seen.
  show(nodes) {
    const seen = nodes.map((node) => this.graph.node(String(node))).filter(Boolean);
    if (!seen.length) return;
    const top = Math.min(...seen.map((each) => each.y - each.height));
    const left = Math.min(...seen.map((each) => each.x - each.width / 2));
    this.box.scrollTo(Math.max(0, left * this.zoom - 40), Math.max(0, top * this.zoom - 30));
  }

  scale(zoom) {
    this.zoom = Math.min(3, Math.max(0.08, zoom));
    this.svg.setAttribute("width", this.width * this.zoom);
    this.svg.setAttribute("height", this.height * this.zoom);
  }

  fit() {
    const wide = (this.box.clientWidth - 4) / this.width;
    const high = (this.box.clientHeight - 4) / this.height;
    this.scale(Math.min(1.2, wide, high));
  }

  // As large as can be read, and no wider than the frame where that is possible.
  begin() {
    const wide = (this.box.clientWidth - 4) / this.width;
    this.scale(Math.min(1, Math.max(0.8, wide)));
  }
}
