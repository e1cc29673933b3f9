// What is shown follows the address behind "#": summary, routines, routine/ROW[/PATH], paths, ...
const VIEWS = ["summary", "routines", "paths", "edges", "compare", "calls"];
const THEMES = ["system", "light", "dark"];
let view = null;

async function show() {
  const [name, row, path] = location.hash.slice(1).split("/");
  view = name === "routine" || VIEWS.includes(name) ? name : "summary";
  for (const each of [...VIEWS, "routine"]) byId(`view-${each}`).hidden = each !== view;
  document.querySelectorAll("nav a").forEach((link) => {
    const current = link.dataset.view === (view === "routine" ? "routines" : view);
    if (current) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  });
  const place = byId(`view-${view}`);
  const title = { routines: "Routines", paths: "Hot paths", edges: "Hot edges" }[view];
  if (view !== "routine") opened = null;
  if (view === "summary") showHottest();
  else if (view === "routine") await showRoutine(place, Number(row), path === undefined ? null : Number(path));
  else if (view === "compare") showComparison(place);
  else if (view === "calls") showCalls(place);
  else {
    const table = { routines: routinesTable, paths: pathsTable, edges: edgesTable }[view]();
    const none = view === "paths" && !run().paths.length
      ? element("p", { class: "quiet" }, `This mode collects ${run().collects}, no paths.`) : null;
    place.replaceChildren(element("h2", {}, title), ...(none ? [none] : []), table);
  }
  document.documentElement.dataset.shown = location.hash || "#";
}

// The first screen's short lists.
function showHottest() {
  const rows = state.index.routines.map((_, row) => row).filter((row) => cellsOf(row));
  // The routines with the greatest of some number, and its share of the run's.
  const routines = (at, whole) => {
    const ranked = rows.filter((row) => size(cellsOf(row)[at])).sort((a, b) => size(cellsOf(b)[at]) - size(cellsOf(a)[at]));
    const shown = ranked.slice(0, 8);
    const numbers = alike(shown.map((row) => cellsOf(row)[at]));
    return shown.map((row, place) => element("tr", {},
      element("td", { class: "number" }, numbers[place]),
      element("td", { class: "number" }, share(cellsOf(row)[at], whole)),
      element("td", { class: "name" }, element("a", { href: routineLink(row) }, state.index.routines[row][0]))));
  };
  const hot = run().paths.filter((path) => !path[7]).slice(0, 8);
  const counts = alike(hot.map((path) => path[3]));
  const paths = hot.map((path, at) => element("tr", {},
    element("td", { class: "number" }, counts[at]),
    element("td", { class: "number" }, share(size(path[3]) * path[4], run().base)),
    element("td", { class: "name" }, element("a", { href: routineLink(path[0], path[1]) },
      `${state.index.routines[path[0]][0]}, ${path[2] === "partial" ? "partial path" : `path ${path[2]}`}`))));
  const list = (title, heads, lines) => (lines.length ? element("div", {}, element("h3", {}, title),
    element("table", { class: "grid" }, element("thead", {}, element("tr", {}, heads.map((head, at) => element("th", {
      class: at < 2 ? "number" : "" }, head)))), element("tbody", {}, lines))) : null);
  byId("hottest").replaceChildren(element("div", { class: "columns lists" },
    list("Where instructions were executed", ["instructions", "of base", "routine"], routines(1, run().base)),
    list("Where the added instructions come from", ["added", "of added", "routine"], routines(2, run().added)),
    list("Hot paths", ["executed", "of the run", "path"], paths)));
}

function chooseRun(number) {
  const count = state.index.runs.length;
  state.run = (number + count) % count;
  byId("run").value = String(state.run);
  show();
}

function chooseTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  byId("theme").textContent = `Theme: ${name}`;
  try { localStorage.setItem("simprof-theme", name); } catch { /* not allowed here: not remembered */ }
}

function nextTheme() {
  const now = document.documentElement.dataset.theme ?? "system";
  chooseTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
}

function onKey(event) {
  const typing = event.target.closest("input, select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey || typing || byId("help").open) return;
  const { key } = event;
  if (key === "?") byId("help").showModal();
  else if (key === "/") focusSearch();
  else if (key === "t") nextTheme();
  else if (key === "[") chooseRun(state.run - 1);
  else if (key === "]") chooseRun(state.run + 1);
  else if (key >= "1" && key <= "6") {
    const name = VIEWS[Number(key) - 1];
    if (document.querySelector(`nav a[data-view=${name}]`)) goTo(`#${name}`);
  } else if (!opened || !onRoutineKey(key)) return;
  event.preventDefault();
}

function onRoutineKey(key) {
  const { drawing } = opened;
  if (key === "n") opened.step(1);
  else if (key === "p") opened.step(-1);
  else if (key === "+" || key === "=") drawing.scale(drawing.zoom * 1.25);
  else if (key === "-") drawing.scale(drawing.zoom / 1.25);
  else if (key === "0") drawing.fit();
  else if (key === "Escape" && opened.path !== null) opened.choose(null);
  else if (key === "Escape") goTo("#routines");
  else return false;
  return true;
}

async function focusSearch() {
  const search = byId(`view-${view}`).querySelector("input[type=search]");
  if (search) { search.focus(); return; }
  goTo("#routines");
  window.addEventListener("hashchange", () => byId("view-routines").querySelector("input[type=search]")?.focus(), { once: true });
}

async function start() {
  state.index = await unpacked("index");
  try { chooseTheme(localStorage.getItem("simprof-theme") ?? "system"); } catch { chooseTheme("system"); }
  byId("theme").addEventListener("click", nextTheme);
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  byId("run").addEventListener("change", (event) => chooseRun(Number(event.target.value)));
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", show);
  await show();
  document.documentElement.dataset.ready = "yes";
}

start();
