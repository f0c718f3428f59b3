"""The page of a whole suite: its tables, its figures, one timeline a world and method, and what was run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from brace.errors import BraceError
from brace.ledger.metrics import EXECUTED
from brace.ledger.reader import Run
from brace.report import frames, markup, pieces, timeline
from brace.report.filters import Filters
from brace.report.provenance import different_table, same_table
from brace.report.rows import Table
from brace.report.suite_figures import SuiteFigures

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"
FRAMES_WEIGHT = 1_000_000
"""Bytes that all frames together may take of a page that is to be sent by mail."""
_HEAVY = "The frames of this episode are too large to be shown here."


@dataclass(frozen=True)
class SuiteView:
    """What a suite has to show."""

    title: str
    about: tuple[str, ...]
    """Paragraphs: what is compared, how, what the SLO is."""
    runs: Mapping[str, Run]
    """By label, in order."""
    labels: Mapping[str, Mapping[str, str]]
    """By the label of a run: its place on each axis, e.g. {"world": "babyai-v1", "method": "No BRACE"}.

    Of the axes, `world` divides the figures, `method` the timelines, and `budget` (or `B`) is drawn against.
    """
    tables: tuple[Table, ...]
    command: str
    """What makes the page."""
    partial: str = ""
    """Empty, or what is missing."""
    folders: Mapping[str, Path] = field(default_factory=dict)
    """By label: the run directory, where frames may lie."""


def write_suite_page(view: SuiteView, target: Path) -> Path:
    """Write the page of a suite to `target`."""
    if not view.runs:
        raise BraceError("a suite without a run has no page: run it first")
    if unknown := sorted(view.runs.keys() ^ view.labels.keys()):
        raise BraceError(f"runs and labels of the suite do not match: {', '.join(unknown)}")
    filters = Filters(view.labels)
    figures = SuiteFigures(view.runs, view.labels, view.command, filters)
    sections = {"tables": ("Results", _tables(view, filters))} if view.tables else {}
    if any(run.calls.filter(EXECUTED).height for run in view.runs.values()):
        sections |= {
            "latency": ("Latency and the SLO", figures.each_world("cdf")),
            "misses": ("Misses across worlds", figures.misses()),
            "tokens": ("Tokens against latency", figures.each_world("tokens")),
        }
    if figures.budgets:
        sections["budgets"] = ("Success against budget", figures.success())
    if "latency" in sections:
        sections["phases"] = ("Where the time goes", figures.each_world("phases"))
    sections |= {
        "timelines": ("Timelines", "".join(_timelines(view, filters))),
        "notes": ("Reader's notes", markup.folded("What was left out", pieces.notes(view.runs, filters.of))),
        "runs": ("What was run", "".join(_provenance(view, filters))),
    }
    page = pieces.document(
        view.title, _lead(view), sections, POLICY, bar=filters.form(), more_css=filters.css()
    )
    return pieces.write(target, page)


def _lead(view: SuiteView) -> str:
    """What the page is about, in words, and how much there is of it."""
    episodes, calls = (
        sum(table.height for table in tables)
        for tables in (
            [run.episodes for run in view.runs.values()],
            [run.calls for run in view.runs.values()],
        )
    )
    counted = f"{len(view.runs)} runs, {episodes} finished episodes, {calls} planner calls."
    warning = f'<p class="warning">Partial: {markup.said(view.partial)}</p>' if view.partial else ""
    about = "".join(f"<p>{markup.said(paragraph)}</p>" for paragraph in view.about)
    made = f'<p class="small">{counted} Made by <code>{markup.said(view.command)}</code></p>'
    return f'<div class="about">{warning}{about}{made}</div>'


def _tables(view: SuiteView, filters: Filters) -> str:
    return "".join(
        f"<h3>{markup.said(table.title)}</h3>{markup.table(table, classify=filters.of)}"
        for table in view.tables
    )


def _timelines(view: SuiteView, filters: Filters) -> Iterator[str]:
    """One a world and method, folded by world; the first world is open."""
    chosen: dict[str, dict[str, str]] = {}
    for label in view.runs:
        place = view.labels[label]
        chosen.setdefault(place.get("world", ""), {}).setdefault(place.get("method", label), label)
    count = sum(map(len, chosen.values()))
    for number, (world, labels) in enumerate(chosen.items()):
        drawn = "".join(
            _timeline(view, label, f"timeline-{number}-{place}", FRAMES_WEIGHT // count, filters)
            for place, label in enumerate(labels.values())
        )
        classes = filters.at({"world": world})
        yield markup.folded(world or "all runs", drawn, classes=classes, unfolded=number == 0)
    yield markup.remarks(pieces.TIMELINES)


def _timeline(view: SuiteView, label: str, name: str, weight: int, filters: Filters) -> str:
    run, folder = view.runs[label], view.folders.get(label)
    episodes = timeline.eventful(run, max(1, run.episodes.height))
    if not episodes:
        said = f"<p>{markup.said(label)}: no step, call or episode was recorded.</p>"
        return f"<div{markup.attribute(filters.of(label))}>{said}</div>"
    filmed = frames.episodes_with_frames(folder) if folder else set()
    # Of the most eventful episodes, one that can be seen is worth more than one that cannot.
    episode = next((episode for episode in episodes if episode in filmed), episodes[0])
    strip = _strip(frames.light_frames(folder, episode, weight)) if folder and episode in filmed else ""
    return pieces.timeline_of(run, label, name, episode, view.command, strip=strip, classes=filters.of(label))


def _strip(shown: list[tuple[int, bytes]]) -> str:
    items = "".join(
        f'<li><img src="{frames.data_uri(data)}" alt="The world at step {step}"><span>step {step}</span></li>'
        for step, data in shown
    )
    return f'<ol class="frames">{items}</ol>' if items else markup.remarks([_HEAVY])


def _provenance(view: SuiteView, filters: Filters) -> Iterator[str]:
    yield markup.table(same_table(view.runs))
    yield markup.folded(
        "What differs between the runs", markup.table(different_table(view.runs), classify=filters.of)
    )
    yield from pieces.configs(view.runs, filters.of)
