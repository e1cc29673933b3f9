// Tables that are searched, sorted, and walked through by keys. Rows appear as they are scrolled to.
const PORTION = 150;

// columns: {title, value(row), text(row), numeric, link(row), first: "down"}; options: {rows, open(row),
// searched(row), noun, sort: column number, id}.
function makeTable(columns, options) {
  let order = options.sort ?? -1;
  let down = order >= 0;
  let matching = options.rows;
  let visible = 0;
  const texts = columns.map((column) => {
    const all = options.rows.map((row) => (column.text ? column.text(row) : column.value(row)));
    const shown = column.numeric ? alike(all) : all;
    return new Map(options.rows.map((row, at) => [row, shown[at]]));
  });
  const body = element("tbody");
  const status = element("span", { class: "quiet", role: "status" });
  const search = element("input", {
    type: "search", placeholder: `Search ${options.noun}s`, "aria-label": `Search ${options.noun}s`,
    oninput: () => fill(), onkeydown: (event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") {
        event.preventDefault();
        body.firstElementChild?.focus();
      }
      if (event.key === "Escape" && search.value) {
        event.stopPropagation();
        search.value = "";
        fill();
      }
    },
  });
  const heads = columns.map((column, number) => element("th", {
    scope: "col", class: column.numeric ? "number" : "",
  }, element("button", { type: "button", onclick: () => sortBy(number) }, column.title)));
  const more = element("button", { type: "button", onclick: () => append() }, "More rows");

  function sortBy(number) {
    down = order === number ? !down : Boolean(columns[number].numeric);
    order = number;
    fill();
  }

  function compare(one, other) {
    const { value } = columns[order];
    const [a, b] = [value(one), value(other)];
    const found = columns[order].numeric ? size(a) - size(b) : String(a).localeCompare(String(b));
    const ascending = Number.isNaN(found) ? 0 : found;
    return down ? -ascending : ascending;
  }

  function fill() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    matching = options.rows.filter((row) => {
      const text = options.searched(row).toLowerCase();
      return words.every((word) => text.includes(word));
    });
    if (order >= 0) matching = [...matching].sort(compare);
    heads.forEach((head, number) => {
      if (number === order) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
      head.firstChild.textContent = columns[number].title + (number === order ? (down ? " ▼" : " ▲") : "");
    });
    body.replaceChildren();
    visible = 0;
    append();
    const left = options.of > options.rows.length;
    const all = left ? `${digits(options.rows.length)} of ${plural(options.of, options.noun)}, the hottest`
      : plural(options.rows.length, options.noun);
    status.textContent = words.length ? `${digits(matching.length)} of ${all}` : all;
  }

  function append() {
    const next = matching.slice(visible, visible + PORTION);
    body.append(...next.map(rowOf));
    visible += next.length;
    more.hidden = visible >= matching.length;
  }

  function rowOf(row) {
    const cells = columns.map((column, number) => {
      const shown = texts[number].get(row);
      const inner = column.link ? element("a", { href: column.link(row), tabindex: "-1" }, shown) : shown;
      return element("td", { class: column.numeric ? "number" : column.kind ?? "", "data-title": column.title }, inner);
    });
    return element("tr", { tabindex: "0", onkeydown: (event) => walk(event, row) }, cells);
  }

  function walk(event, row) {
    const at = event.currentTarget;
    if (event.key === "ArrowDown" || event.key === "j") {
      if (!at.nextElementSibling && !more.hidden) append();
      at.nextElementSibling?.focus();
    } else if (event.key === "ArrowUp" || event.key === "k") {
      (at.previousElementSibling ?? search).focus();
    } else if (event.key === "Enter" && options.open) {
      options.open(row);
    } else return;
    event.preventDefault();
  }

  if ("IntersectionObserver" in window) {
    new IntersectionObserver((seen) => {
      if (seen.some((each) => each.isIntersecting) && !more.hidden) append();
    }, { rootMargin: "400px" }).observe(more);
  }
  fill();
  return element("div", { class: "wrapping" },
    element("div", { class: "search" }, search, status),
    element("div", { class: "wide" }, element("table", { class: "grid", id: options.id },
      element("thead", {}, element("tr", {}, heads)), body)),
    more);
}
