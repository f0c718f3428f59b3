"""The report as one self-contained HTML page: no script, no request, readable on a phone and in the dark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes

from brace.errors import BraceError
from brace.ledger.audits import worst_calls
from brace.ledger.intervals import Estimate
from brace.ledger.metrics import EXECUTED, Summary, summarise
from brace.ledger.reader import Run
from brace.report import markup, plots, style, timeline
from brace.report.calls import logged, worst_calls_table
from brace.report.provenance import headline, runs_table
from brace.report.rows import Table
from brace.report.tables import phase_table, remarks, summary_table, suppressed_table

WORST = 8
"""Calls shown of each run."""
MORE = 3
"""Timelines of each run beyond the first, folded."""
MOST_WORDS = 2_000
"""Characters shown of an answer."""
FEW = 4
"""With more runs than these, each has one timeline, so that the page stays light."""
_CARDS = {
    "Success": "success", "Missed its SLO": "miss_rate", "Tokens after reduction": "tokens_after",
    "Calls per episode": "calls_per_episode", "Plan changes per call (churn)": "churn",
}  # fmt: skip
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
Draw = Callable[[Axes, Mapping[str, Run]], list[str]]


def write_page(runs: Mapping[str, Run], target: Path, *, title: str, command: str) -> Path:
    """Write the report on `runs`, by label, to `target`; `command` is what the reader can run to get it."""
    if not runs:
        raise BraceError("no run to report on: name at least one run directory")
    summaries = {label: summarise(run) for label, run in runs.items()}
    sections = {
        "glance": ("At a glance", _glance(summaries)),
        "summary": ("Summary", markup.table(replace(summary_table(runs, summaries), notes=()))),
        "notes": ("Reader's notes", _notes(runs, summaries)),
        "latency": ("Latency and tokens", _figures(runs, command)),
        "timelines": ("Timelines", "".join(_timelines(runs, command))),
        "suppressed": ("Suppressed triggers", _each(runs, suppressed_table)),
        "worst": ("Worst calls", "".join(_worst(runs))),
        "runs": ("What was run", markup.table(runs_table(runs)) + "".join(_configs(runs))),
    }
    links = "".join(f'<a href="#{anchor}">{name}</a>' for anchor, (name, _) in sections.items())
    body = "".join(markup.section(anchor, name, content) for anchor, (name, content) in sections.items())
    css = resources.files("brace.report").joinpath("page.css").read_text(encoding="utf-8")
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{markup.said(title)}</title><style>{css}</style></head>\n"
        f"<body><header><h1>{markup.said(title)}</h1>{_lead(runs)}"
        f"<p>Made by <code>{markup.said(command)}</code></p><nav>{links}</nav></header>\n"
        f"<main>{body}</main></body></html>\n"
    )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BraceError(f"cannot write the page {target}: {error.strerror}") from error
    return target


def _lead(runs: Mapping[str, Run]) -> str:
    lines = "".join(
        f"<li><strong>{markup.said(label)}</strong> {markup.said(headline(run))}</li>"
        for label, run in runs.items()
    )
    return f'<ul class="runs">{lines}</ul>'


def _glance(summaries: Mapping[str, Summary]) -> str:
    """Headline figures; latency has a card for each kind, since kinds are never mixed."""
    cards = [
        markup.card(title, {label: summary[name] for label, summary in summaries.items()})
        for title, name in _CARDS.items()
    ]
    by_kind: dict[str, dict[str, Estimate]] = {}
    for label, summary in summaries.items():
        for name, estimate in summary.items():
            stem, _, kind = name.partition(".")
            if stem == "latency_p95":
                by_kind.setdefault(kind or summary.latency_kind, {})[label] = estimate
    latencies = [markup.card(f"Latency P95 ({kind})", found) for kind, found in by_kind.items()]
    cards[1:1] = latencies
    return f'<div class="cards">{"".join(cards)}</div>' + markup.remarks(["[ ]: 95 % interval."])


def _figures(runs: Mapping[str, Run], command: str) -> str:
    if not any(run.calls.filter(EXECUTED).height for run in runs.values()):
        return "<p>No executed planner call: there is no latency to draw.</p>"
    shed = sum(run.calls.filter(pl.col("status") == "shed").height for run in runs.values())
    unasked = [f"{shed} shed calls have no latency and are not drawn"] if shed else []
    more = style.KEY_ROW * plots.key_rows(runs)
    bars = 1.2 + 0.55 * len(plots.series(runs))
    specs: list[tuple[str, str, float, Draw, list[str]]] = [
        ("cdf", "How many calls were done within a time", 3.1 + more, plots.latency_cdf,
         ["A call cut at its deadline ends there: the line of its run rises at the SLO."]),
        ("tokens", "Tokens and latency", 3.1 + more, plots.tokens_scatter,
         ["One mark a call. Faint: the same call at the tokens of its uncut prompt."]),
        ("phases", "Where the time of a call goes", bars, plots.phase_stack,
         ["Mean ms of each phase over executed calls, with the step's own phases before the call."]),
    ]  # fmt: skip
    drawn = []
    for name, caption, height, draw, lines in specs:
        picture, axes = style.blank(height)
        lines += [*draw(axes, runs), *unasked]
        drawn.append(markup.figure(style.svg(picture, name, caption), caption, lines, command))
    return f'<div class="figures">{"".join(drawn)}</div>{_each(runs, phase_table, fold=True)}'


def _timelines(runs: Mapping[str, Run], command: str) -> Iterator[str]:
    for number, (label, run) in enumerate(runs.items()):
        episodes = timeline.eventful(run, 1 + (MORE if len(runs) <= FEW else 0))
        if not episodes:
            yield f"<h3>{markup.said(label)}</h3><p>No step, call or episode was recorded.</p>"
            continue
        first, *others = episodes
        yield _timeline(run, f"{label}, episode {first}", f"timeline-{number}", first, command)
        if others:
            yield markup.folded(
                f"{label}: {len(others)} more episodes" if len(others) > 1 else f"{label}: one more episode",
                *(
                    _timeline(
                        run, f"{label}, episode {episode}", f"timeline-{number}-{place}", episode, command
                    )
                    for place, episode in enumerate(others)
                ),
            )
    yield markup.remarks([
        "Episodes with the most misses, fallbacks, overrides and cancellations, then the most triggers.",
        "A bar is a call, from the step that decided it to the step its plan arrived or was given up.",
    ])  # fmt: skip


def _timeline(run: Run, caption: str, name: str, episode: int, command: str) -> str:
    picture, lines = timeline.timeline_figure(run, episode)
    ends = run.episodes.filter(pl.col("episode") == episode)
    for seed, success, steps in ends.select("seed", "success", "steps").iter_rows():
        judged = {True: "success", False: "no success", None: "not judged"}[success]
        caption = f"{caption} (seed {seed}): {judged} after {steps} steps"
    return markup.figure(
        style.svg(picture, name, f"Timeline of {caption}"), caption, lines, command, wide=True
    )


def _each(runs: Mapping[str, Run], make: Callable[[Run], Table], *, fold: bool = False) -> str:
    """The same table for every run; its legend, the same for all, once at the end."""
    shown = []
    for label, run in runs.items():
        content = make(run)
        heading = f"{label}: {content.title}"  # the title names the latency kind
        table = markup.table(replace(content, legend=()), caption=heading)
        shown.append(f"<h3>{markup.said(heading)}</h3>{table}")
    whole = "".join(shown) + markup.remarks(content.legend)
    return markup.folded("Phase by phase", whole) if fold else whole


def _worst(runs: Mapping[str, Run]) -> Iterator[str]:
    for label, run in runs.items():
        table = worst_calls_table(run, WORST)
        heading = f"{label}: {table.title}"
        yield f"<h3>{markup.said(heading)}</h3>{markup.table(table, caption=heading)}"
        written = []
        for late in worst_calls(run, WORST):
            call = logged(run, late)
            error = f"\nerror: {call['error']}" if call["error"] else ""
            words = _excerpt(call["output"] or "(nothing)") + _excerpt(error)
            written.append(
                f"<h3>Episode {late.episode}, call {late.index}</h3><pre>{markup.said(words)}</pre>"
            )
        if written:
            yield markup.folded("What the planner wrote in these calls", *written)


def _excerpt(words: str) -> str:
    cut = len(words) - MOST_WORDS
    return words if cut <= 0 else f"{words[:MOST_WORDS]}\n… and {cut} more characters"


def _notes(runs: Mapping[str, Run], summaries: Mapping[str, Summary]) -> str:
    lines = "".join(
        f"<li><strong>{markup.said(label)}</strong>: {markup.said(note)}</li>"
        for label, run in runs.items()
        for note in (*summaries[label].notes, *remarks(run))
    )
    return f'<ul class="notes">{lines}</ul>' if lines else "<p>Nothing was skipped or left out.</p>"


def _configs(runs: Mapping[str, Run]) -> Iterator[str]:
    for label, run in runs.items():
        config = json.dumps(run.manifest.config, indent=2, ensure_ascii=False)
        yield markup.folded(f"Config of {label}", f"<pre>{markup.said(config)}</pre>")
