// The tables: routines, hot paths, hot edges, a comparison of two profiles.
function routineLink(row, path = null) {
  return path === null ? `#routine/${row}` : `#routine/${row}/${path}`;
}

function goTo(link) { location.hash = link; }

function cellsOf(row, run = state.run) { return state.index.routines[row][2][run]; }

function nameColumn(rowOf, link) {
  return { title: "routine", kind: "name", value: (row) => state.index.routines[rowOf(row)][0], link };
}

function routinesTable() {
  const rows = [...state.index.routines.keys()].filter((row) => cellsOf(row));
  const number = (title, at) => ({ title, numeric: true, value: (row) => cellsOf(row)[at] });
  const columns = [
    nameColumn((row) => row, (row) => routineLink(row)),
    number("instructions", 1),
    { title: "share", numeric: true, value: (row) => size(cellsOf(row)[1]), text: (row) => share(cellsOf(row)[1], run().base) },
    ...(run().instruments ? [number("added", 2),
      { title: "overhead", numeric: true, value: (row) => size(cellsOf(row)[2]) / (size(cellsOf(row)[1]) || 1),
        text: (row) => share(cellsOf(row)[2], cellsOf(row)[1]) }] : []),
    number("entered", 0), number("blocks", 3), number("paths", 5),
    { title: "counters", value: (row) => cellsOf(row)[6] },
    { title: "address", value: (row) => cellsOf(row)[9], kind: "code" },
  ];
  return makeTable(columns, { rows, noun: "routine", id: "routines-table", sort: 1,
    searched: (row) => `${state.index.routines[row][0]} ${cellsOf(row)[9]}`,
    open: (row) => goTo(routineLink(row)) });
}

// What paths executed of this run; of those whose count is of another run that is not known.
function pathShare([, , , count, length, , , elsewhere], base) {
  return elsewhere ? "-" : share(size(count) * length, base);
}

function pathsTable() {
  const columns = [
    { title: "share", numeric: true, value: (row) => (row[7] ? -1 : size(row[3]) * row[4]), text: (row) => pathShare(row, run().base) },
    { title: "executions", numeric: true, value: (row) => row[3] },
    { title: "instructions per path", numeric: true, value: (row) => row[4] },
    { title: "blocks", numeric: true, value: (row) => row[5] },
    { title: "path", value: (row) => row[2] },
    nameColumn((row) => row[0], (row) => routineLink(row[0], row[1])),
    ...(run().paths.some((row) => row[6]) ? [{ title: "source lines", value: (row) => row[6], kind: "code" }] : []),
  ];
  return makeTable(columns, { rows: run().paths, of: run().pathCount, noun: "path", id: "paths-table", sort: 0,
    searched: (row) => `${state.index.routines[row[0]][0]} ${row[2]} ${row[6]}`,
    open: (row) => goTo(routineLink(row[0], row[1])) });
}

function edgesTable() {
  const columns = [
    { title: "executions", numeric: true, value: (row) => row[5] },
    nameColumn((row) => row[0], (row) => routineLink(row[0])),
    { title: "edge", value: (row) => `${row[2]} → ${row[3]}`, kind: "code" },
    { title: "kind", value: (row) => row[4] },
    { title: "carries code", value: (row) => (row[6] ? "yes" : "-") },
  ];
  return makeTable(columns, { rows: run().edges, of: run().edgeCount, noun: "edge", id: "edges-table", sort: 0,
    searched: (row) => `${state.index.routines[row[0]][0]} ${row[2]} ${row[3]} ${row[4]}`,
    open: (row) => goTo(routineLink(row[0])) });
}

// The call tree as a picture: a frame a context, as wide as its share, callees below; a click magnifies.
const FRAME = 22; // Pixels from one depth to the next

function flameGraph(rows, total) {
  const parents = []; // of each row, by position
  const starts = []; // where it begins, of the whole
  const widths = rows.map((row) => size(row[2]) / total);
  const own = widths.slice(); // without callees
  const next = []; // by depth: where the next row begins
  const open = []; // by depth: the last row
  rows.forEach(([depth], at) => {
    parents.push(depth ? open[depth - 1] : null);
    starts.push(depth ? next[depth] : next[0] ?? 0);
    next[depth] = starts[at] + widths[at];
    next[depth + 1] = starts[at];
    if (depth) own[parents[at]] -= widths[at];
    open[depth] = at;
  });
  const words = rows.map(([, name, base, added, calls], at) => `${name}: ${digits(base)} instructions (${share(base, total)}), `
    + `${(100 * Math.max(own[at], 0)).toFixed(2)} % without callees; ${digits(added)} added; ${plural(calls, "call")}`);
  const most = Math.max(...own);
  const frames = rows.map(([depth, name], at) => {
    const frame = element("button", { type: "button", class: "frame", "aria-label": words[at], onclick: () => magnify(at) }, name);
    frame.style.top = `${depth * FRAME}px`;
    frame.style.setProperty("--own", `${((60 * Math.max(own[at], 0)) / most).toFixed(1)}%`);
    return frame;
  });
  const numbers = element("p", { class: "numbers", "aria-live": "polite" });
  const whole = element("button", { type: "button", onclick: () => magnify(null) }, "Whole graph");
  const graph = element("div", { class: "flame", id: "flame-graph" }, frames);
  graph.style.height = `${(1 + Math.max(...rows.map(([depth]) => depth))) * FRAME}px`;
  const say = (at) => { numbers.textContent = at < 0 ? "Point at a frame for its numbers, click to magnify it. Its colour shows the share without callees." : words[at]; };
  for (const kind of ["mouseover", "focusin"]) graph.addEventListener(kind, (event) => say(frames.indexOf(event.target)));

  // Show a frame and its callees in the whole width, below its callers.
  function magnify(chosen) {
    const [from, width] = chosen === null ? [0, 1] : [starts[chosen], widths[chosen]];
    const callers = new Set();
    for (let at = chosen; at !== null; at = parents[at]) callers.add(at);
    frames.forEach((frame, at) => {
      const inside = starts[at] >= from - 1e-12 && starts[at] + widths[at] <= from + width + 1e-12;
      const below = inside && (chosen === null || rows[at][0] >= rows[chosen][0]);
      frame.hidden = !widths[at] || !(callers.has(at) || below);
      frame.style.left = callers.has(at) ? "0" : `${(100 * (starts[at] - from)) / width}%`;
      frame.style.width = callers.has(at) ? "100%" : `${(100 * widths[at]) / width}%`;
    });
    whole.hidden = chosen === null;
    say(chosen ?? -1);
  }

  magnify(null);
  return element("div", {}, graph, numbers, whole);
}

// The call tree: every routine below its caller, with all that it called; rows fold.
function showCalls(view) {
  const { calls } = run();
  const title = element("h2", {}, "Calls");
  if (!calls) {
    view.replaceChildren(title, element("p", { class: "quiet" }, "This profile has no call tree (--call-tree)."));
    return;
  }
  const total = calls.rows.reduce((sum, [depth, , base]) => (depth ? sum : sum + size(base)), 0);
  const columns = [2, 3, 4].map((at) => alike(calls.rows.map((row) => row[at])));
  const closed = new Set();
  const lines = calls.rows.map(([depth, name, base], at) => {
    const holds = calls.rows[at + 1]?.[0] > depth;
    const toggle = holds ? element("button", { type: "button", class: "fold", "aria-expanded": "true",
      onclick: () => { if (!closed.delete(at)) closed.add(at); fold(); } }, "▾") : element("span", { class: "fold" }, "");
    const label = element("td", { class: "name", "data-title": "" }, toggle, ` ${name}`);
    label.style.paddingLeft = `${Math.min(depth, 24) * 0.9}rem`;
    return element("tr", {}, label, element("td", { class: "number", "data-title": "share" }, share(base, total)),
      columns.map((column, number) => element("td", { class: "number", "data-title": ["base", "added", "calls"][number] }, column[at])));
  });

  function fold() {
    let hiddenBelow = Infinity;
    calls.rows.forEach(([depth], at) => {
      if (depth <= hiddenBelow) hiddenBelow = Infinity;
      lines[at].hidden = depth > hiddenBelow;
      if (closed.has(at) && hiddenBelow === Infinity) hiddenBelow = depth;
      const button = lines[at].querySelector("button");
      button?.setAttribute("aria-expanded", String(!closed.has(at)));
      if (button) button.textContent = closed.has(at) ? "▸" : "▾";
    });
  }

  const heads = ["routine", "share", "base", "added", "calls"];
  view.replaceChildren(title, element("p", { class: "quiet" },
    `Instructions of each routine with all that it calls, by caller. ${calls.note}`),
  ...(total ? [flameGraph(calls.rows, total)] : []),
  element("div", { class: "wrapping" }, element("div", { class: "wide" }, element("table", { class: "grid", id: "calls-table" },
    element("thead", {}, element("tr", {}, heads.map((head, at) => element("th", { class: at ? "number" : "" }, head)))),
    element("tbody", {}, lines)))));
}

// Two profiles side by side, routine by routine.
function showComparison(view) {
  const { runs } = state.index;
  const chosen = { one: 0, other: Math.min(1, runs.length - 1) };
  const place = element("div");
  const choice = (name, label) => element("label", {}, `${label} `, element("select", {
    id: `compare-${name}`, onchange: (event) => { chosen[name] = Number(event.target.value); fill(); },
  }, runs.map((each, number) => element("option", { value: number, selected: number === chosen[name] }, each.name))));

  function fill() {
    const { one, other } = chosen;
    const [first, second] = [runs[one], runs[other]];
    const rows = [...state.index.routines.keys()].filter((row) => cellsOf(row, one) || cellsOf(row, other));
    const at = (row, which, cell) => cellsOf(row, which)?.[cell] ?? null;
    const side = (title, which, cell) => ({ title, numeric: true, value: (row) => at(row, which, cell),
      text: (row) => at(row, which, cell) ?? "-" });
    const difference = (title, cell) => {
      const value = (row) => size(at(row, other, cell) ?? 0) - size(at(row, one, cell) ?? 0);
      return { title, numeric: true, value: (row) => Math.abs(value(row)), text: (row) => signed(value(row)) };
    };
    const columns = [
      nameColumn((row) => row, (row) => routineLink(row)),
      side("added A", one, 2), side("added B", other, 2), difference("B − A", 2),
      side("instructions A", one, 1), side("instructions B", other, 1), difference("B − A ", 1),
    ];
    const table = makeTable(columns, { rows, noun: "routine", id: "compare-table", sort: 3,
      searched: (row) => state.index.routines[row][0], open: (row) => goTo(routineLink(row)) });
    const line = (name, each) => `${name}: ${each.name}, ${digits(each.added)} added to ${digits(each.base)} (${share(each.added, each.base)})`;
    place.replaceChildren(element("p", {}, line("A", first), element("br"), line("B", second)), table);
  }

  view.replaceChildren(element("h2", {}, "Compare"), element("div", { class: "search" },
    choice("one", "A"), choice("other", "B")), place);
  fill();
}

function signed(value) {
  return value > 0 ? `+${digits(value)}` : value < 0 ? `−${digits(-value)}` : "0";
}
