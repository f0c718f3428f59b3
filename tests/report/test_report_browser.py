"""The page of a suite as a reader meets it: it renders on a phone, stays quiet, and its filters work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Tab, browser, find_browser
from page_kit import small_suite

from brace.report.suite_page import write_suite_page


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    program = find_browser()
    if program is None:
        said = "no Chromium: install it (apt install chromium) or name it in BRACE_CHROMIUM"
        if os.environ.get("CI_BROWSER") == "required":
            pytest.fail(said)
        pytest.skip(said)
    with browser(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    return write_suite_page(small_suite(folder), folder / "suite.html")


@pytest.fixture(params=[390, 1200])
def shown(request: pytest.FixtureRequest, tab: Tab, page: Path) -> Tab:
    tab.complaints.clear()
    tab.requests.clear()
    tab.open(page.as_uri(), request.param)
    return tab


def visible(tab: Tab, selector: str) -> int:
    """How many elements that match are drawn; what is folded away counts as drawn once unfolded."""
    tab.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    return int(
        tab.evaluate(
            f"[...document.querySelectorAll({selector!r})].filter(one => one.getClientRects().length).length"
        )
    )


def click(tab: Tab, selector: str) -> None:
    tab.evaluate(f"document.querySelector({selector!r}).click()")


def box(tab: Tab, value: str) -> str:
    """The check box beside this value."""
    return str(
        tab.evaluate(
            "'#' + [...document.querySelectorAll('.filters label')]"
            f".find(one => one.textContent.trim() === {value!r}).querySelector('input').id"
        )
    )


def test_it_renders_quietly_and_asks_nobody(shown: Tab, page: Path) -> None:
    assert shown.evaluate("document.title") == "A suite"
    assert visible(shown, "figure svg") == 11
    assert visible(shown, "figure img") == 12
    assert shown.evaluate("[...document.images].every(one => one.complete && one.naturalWidth > 0)")
    assert shown.complaints == []
    assert {url for url in shown.requests if not url.startswith("data:image/")} == {page.as_uri()}


def test_nothing_is_wider_than_the_screen(shown: Tab) -> None:
    visible(shown, "body")
    assert shown.evaluate("document.documentElement.scrollWidth") <= shown.width


def test_a_cleared_box_hides_rows_figures_and_lines_and_a_checked_one_shows_them(shown: Tab) -> None:
    counted = (
        "#tables tbody tr",
        "#latency figure",
        "#timelines figure",
        "#latency figure g[class]",
        "#runs pre",
    )
    before = {what: visible(shown, what) for what in counted}
    assert before["#tables tbody tr"] == 4 + 2
    assert before["#latency figure"] == 2
    assert before["#timelines figure"] == 4
    maze = box(shown, "maze")
    click(shown, maze)
    assert visible(shown, "#tables tbody tr") == 2 + 1
    assert visible(shown, "#latency figure") == 1
    assert visible(shown, "#timelines figure") == 2
    assert visible(shown, "#runs pre") == 2
    baseline = box(shown, "No BRACE")
    click(shown, baseline)
    assert visible(shown, "#tables tbody tr") == 1 + 1
    assert visible(shown, "#timelines figure") == 1
    assert visible(shown, "#latency figure g[class]") == before["#latency figure g[class]"] // 4
    click(shown, maze)
    assert visible(shown, "#timelines figure") == 2
    click(shown, ".filters button")
    assert {what: visible(shown, what) for what in counted} == before
    assert shown.complaints == []


def test_the_filters_stay_in_sight(shown: Tab) -> None:
    shown.evaluate("window.scrollTo(0, document.body.scrollHeight / 2)")
    top = shown.evaluate("document.querySelector('.filters').getBoundingClientRect().top")
    assert 0 <= top < 5


def test_the_check_itself_sees_errors_and_requests(tab: Tab, tmp_path: Path) -> None:
    """Otherwise a quiet page would prove nothing."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<img src='missing.png'><script>console.error('x')</script><div style='width:5000px'>x</div>"
    )
    tab.complaints.clear()
    tab.requests.clear()
    tab.open(bad.as_uri(), 390)
    assert len(tab.complaints) >= 2
    assert len(tab.requests) == 2
    assert tab.evaluate("document.documentElement.scrollWidth") > tab.width
