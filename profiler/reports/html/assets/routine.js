// The page of one routine.
const PANES = [["paths", "Paths"], ["code", "Code"], ["source", "Source"], ["picked", "Selected"]];
let opened = null;

async function showRoutine(view, row, path) {
  const routine = state.index.routines[row];
  const head = element("div", {});
  view.replaceChildren(head);
  if (!routine) { head.append(element("p", { class: "warning" }, "There is no such routine.")); return; }
  const cells = routine[2][state.run];
  head.append(element("h2", {}, routine[0]), factsLine(routine, cells));
  const found = cells && await details(row, state.run);
  if (!found) {
    opened = null;
    head.append(element("p", { class: "warning" }, `It did not run in ${run().name}.`));
    return;
  }
  opened = new RoutinePage(found, row, cells);
  view.append(opened.made);
  opened.drawing.begin();
  opened.choose(path);
}

function factsLine(routine, cells) {
  if (!cells) return element("p", { class: "quiet" }, `at ${routine[1]}`);
  const [entered, base, added, blocks, edges, paths, counters, register, , address] = cells;
  return element("p", { class: "quiet" }, `at ${address}, entered ${digits(entered)} time${entered === 1 ? "" : "s"}. `
    + `${digits(base)} instructions, ${digits(added)} added (${share(added, base)}). `
    + `${digits(blocks)} blocks, ${digits(edges)} edges, ${digits(paths)} potential paths; counters: ${counters}${register === "-" ? "" : `, path register: ${register}`}.`);
}

class RoutinePage {
  constructor(found, row, cells) {
    this.found = found;
    this.row = row;
    this.path = null;
    this.drawing = new Drawing(found, (what, number) => this.picked(what, number));
    const { counts } = this.drawing;
    this.buttons = found.paths.map((path, number) => this.pathButton(path, number, cells[1]));
    this.shown = element("div", { id: "path-code" });
    const hint = found.paths.length ? "Times executed × its instructions, share of the routine. Choose one to see it in the graph (keys n, p)." : "This profile has no paths here.";
    this.panes = {
      paths: () => [element("p", { class: "quiet" }, hint), element("ol", { class: "pathlist" },
        this.buttons.map((button) => element("li", {}, button))), this.shown],
      code: () => [found.code.length ? routineListing(found, counts) : absent()],
      source: () => [found.code.length ? sourceListing(found, counts) : absent()],
      picked: () => [element("p", { class: "quiet" }, "Choose a block or an edge of the graph.")],
    };
    this.tabs = PANES.map(([name, title]) => element("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "pane", onclick: () => this.open(name),
    }, title));
    this.pane = element("div", { class: "pane", id: "pane", role: "tabpanel", tabindex: "0" });
    this.made = element("div", { class: "split" }, element("div", {}, this.controls(), this.drawing.box, legend(found)),
      element("div", { class: "side" }, element("div", { class: "tabs", role: "tablist" }, this.tabs), this.pane));
    this.open("paths");
  }

  controls() {
    const act = (title, label, does) => element("button", { type: "button", "aria-label": label, onclick: does }, title);
    const { drawing, found } = this;
    const choose = element("select", { "aria-label": "Blocks drawn", onchange: (event) => {
      drawing.choice = Number(event.target.value);
      drawing.draw();
    } }, drawing.choices.map(([title, nodes], number) => element("option", {
      value: number, selected: number === drawing.choice,
    }, `${title} (${digits(blocksIn(found, nodes))})`)));
    return element("div", { class: "controls" },
      act("+", "Larger", () => drawing.scale(drawing.zoom * 1.25)),
      act("−", "Smaller", () => drawing.scale(drawing.zoom / 1.25)),
      act("whole", "Whole graph", () => drawing.fit()), choose, drawing.note);
  }

  pathButton([name, count, length, partial, , , , , elsewhere], number, base) {
    return element("button", { type: "button", "aria-pressed": "false", "data-path": number,
      onclick: () => this.choose(this.path === number ? null : number) },
    element("strong", {}, partial ? name : `path ${name}`),
    element("span", {}, `${digits(count)} × ${length}`),
    element("span", { class: "quiet" }, elsewhere ? "in another run" : share(size(count) * length, base)));
  }

  open(name) {
    PANES.forEach(([each], at) => this.tabs[at].setAttribute("aria-selected", String(each === name)));
    this.pane.replaceChildren(...this.panes[name]());
  }

  // Light up a path in the graph and list its code; null: none.
  choose(number) {
    if (number !== null && !this.found.paths[number]) return;
    this.path = number;
    this.buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(at === number)));
    this.drawing.light(number);
    this.shown.replaceChildren();
    if (number === null) return;
    this.open("paths");
    this.shown.append(element("h3", {}, "The path, with what is added"), pathListing(this.found, number));
  }

  step(by) {
    const count = this.found.paths.length;
    if (!count) return;
    const from = this.path === null ? (by > 0 ? -1 : count) : this.path;
    this.choose((from + by + count) % count);
    this.buttons[this.path].scrollIntoView({ block: "nearest" });
  }

  picked(what, number) {
    const { found, drawing } = this;
    const rows = what === "node"
      ? [...snippetRows(found.snippets?.[`b${number}`], drawing.counts[number], "at the top of the block"),
        ...blockRows(found, number, drawing.counts[number]),
        ...snippetRows(found.snippets?.[`t${number}`], drawing.counts[number], "at the end of the block")]
      : this.edgeRows(number);
    this.open("picked");
    this.pane.replaceChildren(listing(rows));
  }

  edgeRows(number) {
    const [, , kind, count] = this.found.edges[number];
    const carries = this.found.carry.has(number);
    const added = this.found.added.get(number) ?? 0;
    const rows = [listed("block", digits(count), "", `edge ${edgeName(this.found, number)} (${kind})`)];
    if (added) rows.push(listed("added", digits(added), "+", "instructions added here in all"));
    const snippet = this.found.snippets?.[`e${number}`];
    if (snippet) rows.push(...snippetRows(snippet, count, "code on this edge"));
    else rows.push(listed("", "", "", carries ? "It carries code, which is not known here." : "It carries no code."));
    return rows;
  }
}

function absent() {
  return element("p", { class: "quiet" }, run().notes.join(" ") || "The code of this routine is not known.");
}

function legend(found) {
  const planned = found.snippets ? "carries code: what it does" : "carries code";
  return element("p", { class: "quiet" }, "Warm colours: executed often.", element("span", { class: "key chord" }),
    planned, element("span", { class: "key lit" }), "the chosen path");
}
