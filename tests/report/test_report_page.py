"""The page is whole, honest, harmless and the same every time."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest
from page_kit import Outline
from report_kit import call, end, phases, run_of, typical

from brace.errors import BraceError
from brace.ledger import Record, Step
from brace.ledger.metrics import summarise
from brace.ledger.reader import Run, load_run
from brace.report.page import write_page
from brace.report.rows import parts


def page(runs: dict[str, Run], target: Path, title: str = "A title") -> str:
    written = write_page(runs, target / "out" / "page.html", title=title, command="brace report a b")
    return written.read_text(encoding="utf-8")


def test_the_page_asks_for_nothing_and_is_well_formed(tmp_path: Path) -> None:
    text = page({"one": typical(tmp_path)}, tmp_path)
    outline = Outline(text)
    assert not outline.open
    assert not {"link", "script", "img", "iframe", "object"} & outline.tags.keys()
    targets = [value for name, value in outline.attributes if name.endswith(("href", "src"))]
    assert targets
    assert all(target.startswith("#") for target in targets)
    assert not re.search(r"https?://|@import|url\((?!#)", text)
    assert ("name", "viewport") in outline.attributes
    ids = Counter(value for name, value in outline.attributes if name == "id")
    assert max(ids.values()) == 1
    assert {target[1:] for target in targets} <= ids.keys()


def test_it_holds_every_label_and_every_figure(tmp_path: Path) -> None:
    runs = {"first run": typical(tmp_path / "a"), "second run": run_of(tmp_path / "b", call(), end())}
    text = page(runs, tmp_path)
    for label, run in runs.items():
        assert f"<strong>{label}</strong>" in text
        for name in ("success", "latency_p95", "miss_rate", "tokens_after", "churn", "calls_per_episode"):
            value, interval = parts(summarise(run)[name])
            assert f'<span class="value">{value}' in text
            assert interval in text
    assert text.count('role="img"') == 3 + 2 + 1  # plots, the first timelines, one more of the first run
    assert "abc123" in text
    assert "a cpu, 2 cores" in text
    assert text.count("made by <code>brace report a b</code>") == 6


@pytest.mark.parametrize(
    "hostile",
    ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</pre></details><b>", "a & b\x00"],
)
def test_nothing_from_a_ledger_becomes_markup(hostile: str, tmp_path: Path) -> None:
    clean, dirty = (
        run_of(
            tmp_path / str(number),
            Step(episode=0, t=0, triggers=(words,), replan=True, override=words, cancel=words),
            Step(episode=0, t=1, triggers=("failure",), gate=words),
            call(planner=words, output=words, error=words, override=words, compressor=words),
            end(world=words, figures={words: 1.0}),
            config={words: words, "world": {"name": words}}, commit=words, host={"cpu": words},
            versions={words: words}, command=(words,),
        )
        for number, words in enumerate(("harmless", hostile))
    )  # fmt: skip
    # The very same structure, whatever the words are.
    expected = Outline(page({"harmless": clean}, tmp_path / "clean"))
    found = Outline(page({hostile: dirty}, tmp_path / "dirty", title=hostile))
    assert found.tags == expected.tags
    assert not found.open
    assert hostile.rstrip("\x00") in found.text


DEGENERATE: dict[str, tuple[list[Record], tuple[int, ...], str]] = {
    "no records": ([], (7, 8), "No step, call or episode was recorded."),
    "no calls": ([Step(episode=0, t=0), end()], (7,), "No executed planner call"),
    "one call": ([call(phases=phases(1, 2, 3)), end()], (7,), "latency P50"),
    "a call without phases or prompt": (
        [call(tokens_in=0, tokens_after=0), end()], (7,), "no executed call has phases"
    ),
    "no SLO": ([call(slo_ms=None), call(1, 4, slo_ms=None), end()], (7,), "2 of 2 calls had no SLO"),
    "only shed calls": ([call(status="shed", latency_ms=0.0), end()], (7,), "No executed planner call"),
    "a call of no time": ([call(latency_ms=0.0), end()], (7,), "Worst calls"),
    "no finished episode": ([Step(episode=0, t=0), call()], (7,), "no finished episode"),
    "a live run": ([Step(episode=0, t=0), call(), call(1, 9)], (), "a live run"),
    "kinds mixed": ([call(), call(1, 9, kind="replayed"), end()], (7,), "latency P95: replayed"),
}  # fmt: skip


@pytest.mark.parametrize("case", DEGENERATE)
def test_a_run_that_lacks_something_says_so(case: str, tmp_path: Path) -> None:
    records, seeds, said = DEGENERATE[case]
    text = page({case: run_of(tmp_path, *records, seeds=seeds)}, tmp_path)
    assert said in text
    assert not Outline(text).open
    beside = page({"whole": typical(tmp_path / "whole"), case: load_run(tmp_path)}, tmp_path)
    assert f"<strong>{case}</strong>" in beside
    assert beside.count('role="img"') >= 3 + 2  # what the whole run has is drawn all the same


def test_kinds_of_different_runs_have_cards_of_their_own(tmp_path: Path) -> None:
    measured = run_of(tmp_path / "a", call(latency_ms=11.0), end())
    modelled = run_of(tmp_path / "b", call(latency_ms=22.0, kind="modelled"), end())
    text = page({"one": measured, "two": modelled}, tmp_path)
    assert "<h3>Latency P95 (measured)</h3><dl><dt>one</dt>" in text
    assert "<h3>Latency P95 (modelled)</h3><dl><dt>two</dt>" in text
    assert "<h3>one: Worst calls (measured)</h3>" in text
    assert "<h3>two: Worst calls (modelled)</h3>" in text


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    runs = {"a": typical(tmp_path), "b": run_of(tmp_path / "b", call(), end())}
    assert page(runs, tmp_path / "1") == page(runs, tmp_path / "2")


def test_a_large_run_stays_a_light_page(tmp_path: Path) -> None:
    rng = random.Random(3)
    calls = [
        call(index, 2 * index, episode=episode, latency_ms=rng.lognormvariate(4, 1),
             missed=rng.random() < 0.2, tokens_in=rng.randrange(500, 4_000), phases=phases(1, 2, 3),
             output="word " * 9_000 * (index == 3))
        for episode in range(3)
        for index in range(1_000)
    ]  # fmt: skip
    text = page({"a": run_of(tmp_path, *calls, *map(end, range(3)), seeds=(7, 8, 9))}, tmp_path)
    assert len(text.encode()) < 1_000_000
    assert "thinned: 2000 of 3000 calls are drawn" in text
    assert re.search(r"steps \d+ to \d+ of 0 to 1999", text)


def test_notes_and_config_are_there(tmp_path: Path) -> None:
    text = page({"a": run_of(tmp_path, call(cold=True), call(episode=1), end())}, tmp_path)
    assert "1 of 1 calls were cold" in text
    assert "unfinished and left out: episode 1 attempt 0" in text
    assert "Config of a</summary><pre>{\n  &quot;world&quot;" in text


def test_without_a_run_there_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(BraceError, match="no run"):
        write_page({}, tmp_path / "page.html", title="t", command="c")


def test_a_page_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    run = run_of(tmp_path, end())
    with pytest.raises(BraceError, match="cannot write the page"):
        write_page({"a": run}, tmp_path, title="t", command="c")
