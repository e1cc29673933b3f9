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
