"""The page of `simprof show --html`, used in Chromium as people use it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, expect

from simprof.profiler.cli import run
from simprof.profiler.experiments.reports.pages import render_suite_page
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.profiles.storage import save
from simprof.profiler.schemes import registry
from tests.support.browser import chromium, contrasts, covered, cut_off, opened, self_loop, wait
from tests.support.hostile_profile import hostile_measurement
from tests.support.profiled import measure_all
from tests.support.report_tables import document_of
from tests.support.samples import measurement, routine

pytestmark = pytest.mark.browser
BENCH = Path(__file__).resolve().parents[2] / "fixtures" / "bin" / "v9" / "bench.elf"
SOURCES = f"./src={BENCH.parents[2] / 'src'}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page about one program under two modes."""
    directory = tmp_path_factory.mktemp("report")
    output = directory / "page.html"
    for measured in measure_all(BENCH, ("pp", "tpp")):
        save(measured, directory / measured.mode)
    profiles = [str(directory / "pp"), str(directory / "tpp")]
    assert run(["show", *profiles, "--html", str(output), "--source-dir", SOURCES]) == 0
    return output


def column(page: Page, table: str, number: int) -> list[str]:
    """The texts of a column of a table."""
    return page.locator(f"#{table} tbody td:nth-child({number})").all_inner_texts()


def numbers(texts: list[str]) -> list[float]:
    return [float(text.replace(",", "").removesuffix(" %")) for text in texts]


@pytest.mark.long
def test_summary(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        wait(page)
        assert page.title() == f"simprof: {BENCH}"
        rows = page.locator("#overheads tbody tr").all_inner_texts()
        assert [re.split(r"\s+", row)[:2] for row in rows] == [["pp", "47.51"], ["tpp", "12.99"]]
        widths = [
            float(bar.get_attribute("width") or 0)
            for bar in page.locator("#overheads rect.fill").all()
        ]
        assert widths[0] == 100 and widths[1] == pytest.approx(100 * 12.99 / 47.51, abs=0.1)
        page.get_by_role("link", name="common_length, path 3").click()
        expect(page.locator("h2", has_text="common_length")).to_be_visible()
        expect(page.locator("[data-path='0'][aria-pressed=true]")).to_be_visible()


@pytest.mark.long
def test_routines_are_searched_and_sorted(browser: Browser, report: Path) -> None:
    with opened(browser, report, "#routines") as page:
        wait(page)
        shown = numbers(column(page, "routines-table", 2))
        assert len(shown) == 25 and shown == sorted(shown, reverse=True)
        page.get_by_role("button", name="overhead").click()
        shown = numbers(column(page, "routines-table", 5))
        assert shown == sorted(shown, reverse=True) and shown[0] == 200
        page.get_by_role("button", name="overhead").click()
        assert numbers(column(page, "routines-table", 5)) == shown[::-1]
        page.get_by_role("button", name="routine", exact=True).click()
        names = column(page, "routines-table", 1)
        assert names == sorted(names, key=str.lower) or names[0] == "_start"
        page.get_by_role("searchbox").fill("SORT")
        assert sorted(column(page, "routines-table", 1)) == ["insertion_sort", "quick_sort"]
        expect(page.get_by_role("status")).to_have_text("2 of 25 routines")
        page.get_by_role("searchbox").fill("no such thing")
        assert column(page, "routines-table", 1) == []


@pytest.mark.long
def test_everything_by_keyboard(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        wait(page)
        page.keyboard.press("?")
        expect(page.locator("#help")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("2")
        wait(page)
        page.keyboard.press("/")
        page.keyboard.type("quick")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_selector(".drawing svg")
        expect(page.locator("h2", has_text="quick_sort")).to_be_visible()
        wait(page)
        for key, path in (("n", 0), ("n", 1), ("p", 0)):
            page.keyboard.press(key)
            expect(page.locator("[data-path][aria-pressed=true]")).to_have_attribute(
                "data-path", str(path)
            )
        width = float(page.locator(".drawing svg").get_attribute("width") or 0)
        page.keyboard.press("+")
        assert float(page.locator(".drawing svg").get_attribute("width") or 0) > width
        page.keyboard.press("Escape")
        assert page.locator("[data-path][aria-pressed=true]").count() == 0
        page.keyboard.press("]")
        wait(page)
        expect(page.locator("#run")).to_have_value("1")
        page.keyboard.press("Escape")
        page.wait_for_selector("#routines-table")
        page.locator("#routines-table tbody tr").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("5")
        page.wait_for_selector("#compare-table")


@pytest.mark.long
def test_a_path_is_lit_with_its_code(browser: Browser, report: Path) -> None:
    with opened(browser, report, "#routine/0") as page:
        wait(page)
        assert page.locator(".node").count() == 18 and page.locator(".on").count() == 0
        page.locator("[data-path='0']").click()
        lit = page.locator(".node.on title").all_text_contents()
        assert [text.split(",")[0] for text in lit] == ["0x100690", "0x1006b8", "slot 0x1006c4"]
        assert page.locator(".edge.on:not(.ending)").count() == 2
        listing = page.locator("#path-code").inner_text()
        assert "ldsb [%g2], %g3" in listing and "bench.c:211" in listing
        assert "0x100690 → 0x1006b8: count[r+3]++; r=0" in listing  # on the back edge that ends it
        page.locator("[data-path='1']").click()
        assert page.locator("[data-path][aria-pressed=true]").count() == 1
        page.locator("[data-path='1']").click()
        assert page.locator(".on").count() == 0


@pytest.mark.long
def test_paths_around_loops_do_not_list_what_is_inside(browser: Browser, tmp_path: Path) -> None:
    profile, output = tmp_path / "outer", tmp_path / "page.html"
    program = str(BENCH.with_name("loops.elf"))
    measured = ["--mode", "kiter:outer", "-o", str(profile), "--report", os.devnull]
    run(["run", *measured, program])
    assert run(["show", str(profile), "--html", str(output)]) == 0
    with opened(browser, output, "#routine/0") as page:
        wait(page)
        expect(page.locator("h2", has_text="nest")).to_be_visible()
        page.locator("[data-path]", has_text="(around loops)").first.click()
        listing = page.locator("#path-code").inner_text()
        assert listing.count("the loop at 0x1001dc: its iterations are other paths") == 2
        assert "slot 0x1001f0" not in listing
        # Code on the edges behind the loop is listed, too: of the back edge at the end.
        assert "It ends with the back edge" in listing
        assert listing.count(" → ") > 2
        page.locator("[data-path]", has_text="(loop exit)").first.click()
        assert "It ends with" not in page.locator("#path-code").inner_text()


@pytest.mark.long
def test_self_loops_begin_and_end_at_their_block(browser: Browser, report: Path) -> None:
    with opened(browser, report, "#routine/1") as page:
        wait(page)
        expect(page.locator("h2", has_text="multiply_matrices")).to_be_visible()
        loop = page.locator(".edge").filter(has=page.get_by_text("1,872,000", exact=True))
        found = self_loop(loop, page.locator(".node", has_text="100200"))
        assert found["begin"][0] == found["end"][0] == found["tip"][0]
        for end in ("begin", "end", "tip"):
            assert abs(found[end][0]) < 0.2 and abs(found[end][1]) < found["size"][1] / 2, found
        assert found["far"][0] > 10
        for row in range(25):
            page.evaluate(f"location.hash = '#routine/{row}'")
            wait(page)
            assert cut_off(page.locator(".drawing svg")) == [], row


ENOUGH = 4.5  # Contrast of text (WCAG 1.4.3, level AA)


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True])
def test_what_graphs_say_can_be_read(dark: bool, browser: Browser, report: Path) -> None:
    """Labels are beside lines, not on them, and none is pale, on the chosen path or not."""
    with opened(browser, report, "#routine/0/0", dark=dark) as page:
        wait(page)
        for row, path in [(0, "/0"), *((row, "") for row in range(24))]:
            page.evaluate(f"location.hash = '#routine/{row}{path}'")
            svg = wait(page).locator(".drawing svg")
            assert covered(svg) == [], row
            assert min(contrasts(page.locator(".drawing"))) >= ENOUGH, row
        page.evaluate("location.hash = '#routine/0/0'")
        assert wait(page).locator(".drawing .on").count() > 0


@pytest.mark.long
def test_edges_show_what_they_carry(browser: Browser, report: Path) -> None:
    with opened(browser, report, "#routine/0") as page:
        wait(page)
        chord = page.locator(".edge.chord", has_text="r+=5")
        chord.focus()
        page.keyboard.press("Enter")
        picked = page.locator("#pane").inner_text()
        assert "0x100690 → 0x1006e4 (taken)" in picked and "2 instructions each time" in picked
        assert "add %l1, 20, %l1" in picked
        page.locator(".edge:not(.chord) path.hit").first.click(force=True)
        assert "It carries no code." in page.locator("#pane").inner_text()
        page.locator(".node", has_text="1006c8").click()
        assert "block 0x1006c8" in page.locator("#pane").inner_text()
        page.get_by_role("tab", name="Code").click()
        code = page.locator("#pane").inner_text()
        blocks = [code.index(f"block {start}") for start in ("0x10062c", "0x1006c8", "0x1006f8")]
        assert blocks == sorted(blocks)
        page.get_by_role("tab", name="Source").click()
        assert re.search(r"1,452,000\s+\S+\s+211\s", page.locator("#pane").inner_text())


@pytest.mark.long
def test_every_mode_has_its_page(browser: Browser, tmp_path: Path) -> None:
    measured = measure_all(
        BENCH.with_name("switches.elf"), [scheme.mode for scheme in registry.OWN]
    )
    for each in measured:
        save(each, tmp_path / each.mode)
    page_file = tmp_path / "page.html"
    profiles = [str(tmp_path / each.mode) for each in measured]
    assert run(["show", *profiles, "--html", str(page_file)]) == 0
    with opened(browser, page_file, "#routine/0") as page:
        for number, each in enumerate(measured):
            wait(page)
            expect(page.locator("#run")).to_have_value(str(number))
            hottest = max(each.routines, key=lambda routine: routine.instructions)
            carry = sum(edge.instrumented for edge in hottest.edge_counts)
            assert page.locator(".edge.chord").count() == carry, each.mode
            labels = page.locator(".edge text").all_text_contents()
            said = sorted(int(label.replace(",", "")) for label in labels if label.startswith("+"))
            assert said == sorted(e.added for e in hottest.edge_counts if e.added), each.mode
            page.get_by_role("tab", name="Code").click()
            assert (page.locator("#pane tr.added").count() > 0) == (hottest.added > 0), each.mode
            page.keyboard.press("n")
            page.keyboard.press("]")
            expect(page.locator("#run")).not_to_have_value(str(number))


def test_profiles_side_by_side(browser: Browser, report: Path) -> None:
    with opened(browser, report, "#compare") as page:
        wait(page)
        rows = page.locator("#compare-table tbody tr").all_inner_texts()
        assert rows[0].split("\t")[:4] == ["multiply_matrices", "7,777,230", "0", "\u22127,777,230"]
        page.locator("#compare-one").select_option("1")
        assert set(column(page, "compare-table", 4)) == {"0"}


TOO_WIDE = """[...document.querySelectorAll(".wrapping .wide, .wrapping td")]
    .filter((each) => each.scrollWidth > each.clientWidth + 1).length"""


@pytest.mark.long
def test_narrow_screens_cut_nothing_off(browser: Browser, report: Path) -> None:
    for view in ("", "#routines", "#routine/0/0", "#paths", "#edges", "#compare"):
        with opened(browser, report, view, width=400, height=800) as page:
            wait(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= 400, view
            assert page.evaluate(TOO_WIDE) == 0, view


@pytest.mark.long
def test_the_call_tree_is_shown_where_it_was_counted(
    browser: Browser, report: Path, tmp_path: Path
) -> None:
    profile, page_file = tmp_path / "calls.profile", tmp_path / "calls.html"
    said = ["--report", str(tmp_path / "said"), "-o", str(profile)]
    assert run(["run", "--mode", "edges", "--call-tree", *said, str(BENCH)]) == 0
    assert run(["show", str(profile), "--html", str(page_file)]) == 0
    with opened(browser, page_file, "#calls", width=400, height=800) as page:
        wait(page)
        rows = page.locator("#calls-table tbody tr")
        names = [name.strip("▾ ") for name in rows.locator("td.name").all_inner_texts()]
        assert names[:5] == ["_start", "runtime_main", "main", "one_round", "common_length"]
        shown = rows.first.locator("td.number").all_inner_texts()
        assert shown == ["100.00 %", "67,762,255", "0", "1"]
        assert page.evaluate(TOO_WIDE) == 0
        frames = page.locator("#flame-graph button")
        assert frames.all_inner_texts()[:5] == names[:5]
        frame, numbers = frames.nth(4), page.locator("p.numbers")
        whole = frame.bounding_box()
        assert whole is not None and whole["width"] < 120
        frame.hover()
        shares = "common_length: 19,466,840 instructions (28.73 %), 28.65 % without callees"
        expect(numbers).to_have_text(f"{shares}; 0 added; 30 calls")
        frame.click()  # magnified: as wide as its callers, and its siblings are gone
        large, caller = frame.bounding_box(), frames.first.bounding_box()
        assert large is not None and caller is not None and large["width"] == caller["width"]
        expect(frames.filter(has_text="multiply_matrices")).to_be_hidden()
        page.get_by_role("button", name="Whole graph").click()
        assert frame.bounding_box() == whole
        assert page.evaluate(TOO_WIDE) == 0
        rows.nth(2).get_by_role("button").click()
        expect(rows.nth(2)).to_be_visible()
        expect(rows.nth(3)).to_be_hidden()
        page.keyboard.press("4")
        wait(page)
        expect(page.get_by_role("status")).to_have_text("200 of 438 edges, the hottest")
    with opened(browser, report) as page:
        wait(page)
        assert page.locator("nav a[data-view=calls]").count() == 0


def test_pages_of_tables_and_suites_say_nothing(browser: Browser, tmp_path: Path) -> None:
    suite = load_suite("micro")
    results = [document_of(base=10**15, added=10**14), document_of(error="<img src=x onerror=a()>")]
    rows = [(benchmark, results) for benchmark in suite.benchmarks]
    page_file = tmp_path / "suite.html"
    page_file.write_text(render_suite_page(suite, rows, ["pp", "qpt2"], "Input ref"))
    for width in (400, 1280):
        with opened(browser, page_file, width=width, dark=True) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert sum(colours(page)[1]) < 150
            assert page.locator("img").count() == 0
            assert page.locator("svg.bar").count() == len(rows)


def colours(page: Page) -> list[tuple[int, ...]]:
    found = page.evaluate(
        "['color', 'backgroundColor'].map((name) => getComputedStyle(document.body)[name])"
    )
    return [tuple(map(int, re.findall(r"\d+", each)[:3])) for each in found]


@pytest.mark.long
def test_light_and_dark(browser: Browser, report: Path) -> None:
    for dark in (False, True):
        with opened(browser, report, dark=dark) as page:
            wait(page)
            text, back = colours(page)
            assert (sum(text) > sum(back)) == dark
            page.keyboard.press("t")  # light
            assert sum(colours(page)[1]) > 600
            page.keyboard.press("t")  # dark
            assert sum(colours(page)[1]) < 150


@pytest.mark.long
def test_the_facts_of_a_routine_agree_with_its_graph(browser: Browser, tmp_path: Path) -> None:
    profile, page_file = tmp_path / "profile", tmp_path / "page.html"
    save(measure_all(BENCH, ("qpt2",))[0], profile)
    assert run(["show", str(profile), "--html", str(page_file)]) == 0
    with opened(browser, page_file, "#routine/0") as page:
        wait(page)
        facts = page.locator("h2 + p").inner_text()
        assert "16 blocks, 24 edges" in facts
        assert "register" not in facts, facts  # this mode has none
        choices = page.get_by_label("Blocks drawn").locator("option").all_inner_texts()
        assert choices == ["all blocks (16)", "executed blocks (14)"]
        page.get_by_label("Blocks drawn").select_option("1")
        assert page.get_by_text("2 blocks not drawn").count() == 1


@pytest.mark.long
def test_a_column_has_one_notation(browser: Browser, tmp_path: Path) -> None:
    """A short form beside all digits of a smaller number would look smaller."""
    first = routine(instructions=8_660_000_000_000_000, potential_paths=10**20)
    second = replace(first, name="other", address=0x9000, instructions=418_000_000_000_000)
    third = replace(first, name="third", address=0xA000, instructions=7, potential_paths=81)
    whole = (first, replace(second, potential_paths=3_427_344), third)
    profile, page_file = tmp_path / "profile", tmp_path / "page.html"
    save(measurement(routines=whole, base=9 * 10**15), profile)
    assert run(["show", str(profile), "--html", str(page_file)]) == 0
    with opened(browser, page_file, "#routines") as page:
        wait(page)
        counts = ["8,660,000,000,000,000", "418,000,000,000,000", "7"]
        assert column(page, "routines-table", 2) == counts
        assert column(page, "routines-table", 8) == ["1.00e20", "3.42e6", "81"]


@pytest.mark.long
def test_nothing_from_a_program_is_markup(browser: Browser, tmp_path: Path) -> None:
    hostile, page_file = tmp_path / "<img src=x onerror=alert(1)>", tmp_path / "page.html"
    bad = hostile_measurement()
    said = replace(bad.program, file="<script>alert(1)</script>", arguments=("</script>", "\udcff"))
    save(replace(bad, program=said, warnings=("<img src=x onerror=alert(2)>",)), hostile)
    other = tmp_path / "other"
    other.write_bytes(hostile.read_bytes())
    assert run(["show", str(hostile), str(other), "--html", str(page_file)]) == 0
    with opened(browser, page_file, "#routines") as page:
        wait(page)
        names = column(page, "routines-table", 1)
        assert "</script><!--" in names and '<b>&amp;"quoted"\'</b>' in names
        assert page.locator("b, img").count() == 0
        for view in ("#summary", "#paths", "#edges", "#compare", "#routine/0/0"):
            page.evaluate(f"location.hash = '{view}'")
            wait(page)
        assert page.locator("b, img").count() == 0
        for pane in ("Code", "Source", "Selected"):
            page.get_by_role("tab", name=pane).click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        page.evaluate("location.hash = '#routine/999/x'")
        expect(page.get_by_text("There is no such routine.")).to_be_visible()


MAIN = """
int main(void) { int total = 0; for (int i = 0; i < 2; i++) { CALLS } return total & 1; }
"""
ROUTINE = """
static int __attribute__((noinline)) routine_NUMBER(int n) {
  int sum = NUMBER;
  for (int i = 0; i < 3; i++) {
    if ((n + i) % 3 == 0) sum += i; else if (n & i) sum ^= n; else sum -= NUMBER;
    if (n + i == 0) sum++; else if (n + i == 1) sum *= 3; else if (n + i == 2) sum -= 2;
    else if (n + i == 3) sum ^= 9; else if (n + i == 4) sum += n; else if (n + i == 5) sum |= 1;
  }
  return sum;
}
"""


@pytest.mark.long
@pytest.mark.toolchain
def test_three_thousand_routines_open_at_once(
    browser: Browser, compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    count = 3000
    source = "".join(ROUTINE.replace("NUMBER", str(number)) for number in range(count))
    calls = " ".join(f"total += routine_{number}(i);" for number in range(count))
    program = compile_c(source + MAIN.replace("CALLS", calls), flags=("-O0", "-g"))
    profile, page_file = tmp_path / "profile", tmp_path / "page.html"
    save(measure_all(program, ("pp",))[0], profile)
    assert run(["show", str(profile), "--html", str(page_file)]) == 0
    assert page_file.stat().st_size < 15 << 20
    times = []
    for _ in range(3):
        started = time.perf_counter()
        with opened(browser, page_file, "#routines") as page:
            wait(page)
            times.append(time.perf_counter() - started)
            rows = int(page.get_by_role("status").inner_text().split()[0].replace(",", ""))
            assert rows > count
            page.get_by_role("searchbox").fill("routine_2999")
            page.get_by_role("link", name="routine_2999").click()
            page.wait_for_selector(".drawing svg")
    assert min(times) < 2, times
