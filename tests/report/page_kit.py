"""What a page consists of, and a small suite to make one of."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from report_kit import call, end, phases, run_of

from brace.ledger import Step
from brace.ledger.metrics import miss_rate, success_rate
from brace.ledger.reader import Run
from brace.report.frames import save_frame
from brace.report.rows import Column, Row, Table
from brace.report.suite_page import SuiteView

VOID = {"meta", "br", "hr", "img", "input", "link", "wbr"}


class Outline(HTMLParser):
    """The tags, ids and visible text of a page; fails on a tag that closes nothing."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def small_run(directory: Path, world: str, latency_ms: float, episodes: int = 2) -> Run:
    """Two calls an episode, the second of which is slower."""
    records: list[Any] = []
    for episode in range(episodes):
        for index, ms in enumerate((latency_ms, 1.5 * latency_ms)):
            t = 6 * index
            records += [
                Step(episode=episode, t=t, triggers=("periodic",), replan=True),
                Step(episode=episode, t=t + 2, triggers=("failure",), gate="cooldown"),
                call(index, t, t_end=t + 2, episode=episode, latency_ms=ms, missed=ms > 120,
                     phases=phases(0.1 * ms, 0.5 * ms, 0.4 * ms)),
            ]  # fmt: skip
        records.append(end(episode, world=world, success=episode % 2 == 0, figures={"spl": 0.5}))
    return run_of(directory, *records, config={"world": {"name": world}})


def small_suite(
    folder: Path,
    worlds: tuple[str, ...] = ("maze", "arm"),
    methods: tuple[str, ...] = ("No BRACE", "BRACE"),
    **fields: Any,
) -> SuiteView:
    """One run a world and method, frames of one episode each, and a table of them all."""
    runs, labels, folders = {}, {}, {}
    rows = []
    for world in worlds:
        for place, method in enumerate(methods):
            label = f"{world} / {method}"
            folders[label] = folder / f"run{len(runs)}"
            runs[label] = small_run(folders[label], world, 100.0 - 20 * place)
            labels[label] = {"world": world, "method": method}
            for step in (0, 3, 6):
                save_frame(folders[label], 1, step, np.full((60, 80, 3), 40 * step, np.uint8))
            rows.append(Row((method, success_rate(runs[label]), miss_rate(runs[label])), world))
    columns = (Column("method"), Column("success, %", right=True), Column("miss rate, %", right=True))
    facts: dict[str, Any] = {
        "title": "A suite", "about": ("What is compared.", "How."), "runs": runs, "labels": labels,
        "tables": (Table("Main table", columns, tuple(rows)),), "command": "brace bench it",
        "folders": folders,
    }  # fmt: skip
    return SuiteView(**(facts | fields))
