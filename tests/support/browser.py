"""Chromium without a window, for tests of pages: every message on its console is a failure."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Dialog, Locator, Page, Request, sync_playwright

LIMIT = 20_000
"""Milliseconds after which what a test waits for will not come, however busy the machine is."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the system's Chromium."""
    program = shutil.which("chromium")
    assert program is not None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Browser,
    file: Path,
    address: str = "",
    *,
    width: int = 1280,
    height: int = 900,
    dark: bool = False,
) -> Iterator[Page]:
    """Open a page, and check at the end that it said nothing and asked for nothing.

    Parameters
    ----------
    address
        What follows the file's name: "#routines".
    """
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    page.set_default_timeout(LIMIT)
    problems: list[str] = []
    requests: list[str] = []

    def refuse(dialog: Dialog) -> None:
        problems.append(dialog.message)
        dialog.dismiss()

    def asked(request: Request) -> None:
        requests.append(request.url)

    page.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", refuse)
    page.on("request", asked)
    try:
        page.goto(f"{file.as_uri()}{address}")
        yield page
        assert problems == []
        assert [url for url in requests if not url.startswith(file.as_uri())] == []
    finally:
        context.close()


def wait(page: Page) -> Page:
    """Wait until a report has shown what its address says."""
    page.wait_for_selector("html[data-ready=yes]")
    # A promise, not `wait_for_function`: that asks again by `eval`, which the pages forbid.
    page.evaluate(
        """(limit) => new Promise((done, failed) => {
          const end = performance.now() + limit;
          const look = () => {
            if (document.documentElement.dataset.shown === (location.hash || "#")) done();
            else if (performance.now() > end) failed(new Error(`shows no ${location.hash}`));
            else requestAnimationFrame(look);
          };
          look();
        })""",
        LIMIT,
    )
    return page


def cut_off(svg: Locator) -> list[str]:
    """Return the paths, labels and boxes of a drawing that its border cuts."""
    found: list[str] = svg.evaluate(
        """(svg) => {
          const { x, y, width, height } = svg.viewBox.baseVal;
          return [...svg.querySelectorAll("path, text, rect")].filter((each) => {
            const box = each.getBBox();
            return box.x < x || box.y < y || box.x + box.width > x + width
              || box.y + box.height > y + height;
          }).map((each) => each.outerHTML);
        }"""
    )
    return found


def covered(svg: Locator) -> list[str]:
    """Return the labels of edges on which a line, a block or another label lies."""
    found: list[str] = svg.evaluate(
        """(svg) => {
          const box = (each) => {
            const { x, y, width, height } = each.getBBox();
            return { left: x, top: y, right: x + width, bottom: y + height };
          };
          const points = [...svg.querySelectorAll("path.line")].flatMap((line) => {
            const length = line.getTotalLength();
            const steps = Math.ceil(length / 2);
            const at = (step) => line.getPointAtLength(step * length / steps);
            return [...Array(steps + 1).keys()].map(at);
          });
          const blocks = [...svg.querySelectorAll("rect:not(.back)")].map(box);
          const labels = [...svg.querySelectorAll(".way text, .edge text")];
          const boxes = labels.map(box);
          const meet = (one, other) => one.left < other.right && one.right > other.left
            && one.top + 1 < other.bottom && one.bottom > other.top + 1;
          return labels.filter((label, at) => {
            const { left, top, right, bottom } = boxes[at];
            return points.some(({ x, y }) => left < x && x < right && top < y && y < bottom)
              || blocks.some((block) => meet(block, boxes[at]))
              || boxes.some((other, place) => place !== at && meet(other, boxes[at]));
          }).map((label) => label.textContent);
        }"""
    )
    return found


def contrasts(part: Locator) -> list[float]:
    """Return how far each text of a drawing is in brightness from the page behind it (WCAG 1.4.3).

    A text that is drawn with an opacity below 1, or is in what is, counts as 1.
    """
    found: list[float] = part.evaluate(
        """(part) => {
          const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
          const light = (colour) => {
            const [red, green, blue] = numbers(colour).slice(0, 3).map((each) => each / 255)
              .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
            return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
          };
          const behind = (each) => {
            for (let at = each; at; at = at.parentElement) {
              const colour = getComputedStyle(at).backgroundColor;
              if ((numbers(colour)[3] ?? 1) > 0) return colour;
            }
            return "rgb(255, 255, 255)";
          };
          const back = light(behind(part));
          return [...part.querySelectorAll("text")].map((text) => {
            for (let at = text; at && at !== part; at = at.parentElement) {
              if (Number(getComputedStyle(at).opacity) < 1) return 1;
            }
            const front = light(getComputedStyle(text).fill);
            return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
          });
        }"""
    )
    return found


def self_loop(edge: Locator, block: Locator) -> dict[str, list[float]]:
    """Return where the line of an edge from a block to itself is, from the block's right side.

    Its begin, its end and the tip of its arrow: [to the right, below the block's middle].
    """
    found: dict[str, list[float]] = edge.evaluate(
        """(edge, block) => {
          const { x, y, width, height } = block.querySelector("rect").getBBox();
          const from = (point) => [point.x - x - width, point.y - y - height / 2];
          const line = edge.querySelector("path.line");
          return {
            begin: from(line.getPointAtLength(0)),
            end: from(line.getPointAtLength(line.getTotalLength())),
            tip: from(edge.querySelector("polygon").points[0]),
            far: from(line.getPointAtLength(line.getTotalLength() / 2)),
            size: [width, height],
          };
        }""",
        block.element_handle(),
    )
    return found
