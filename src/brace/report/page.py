"""The report as one self-contained HTML page: no script, no request, readable on a phone and in the dark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from brace.errors import BraceError
from brace.ledger.audits import worst_calls
from brace.ledger.intervals import Estimate
from brace.ledger.metrics import EXECUTED, Summary, summarise
from brace.ledger.reader import Run
from brace.report import markup, timeline
from brace.report.provenance import headline, runs_table
from brace.report.rows import Table
from brace.report.tables import phase_table, summary_table, suppressed_table, worst_calls_table

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
# Whatever a ledger might smuggle into the page, no browser will run or load it.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def write_page(runs: Mapping[str, Run], target: Path, *, title: str, command: str) -> Path:
    """Write the report on `runs`, by label, to `target`; `command` is what the reader can run to get it."""
    if not runs:
        raise BraceError("no run to report on: name at least one run directory")
    summaries = {label: summarise(run) for label, run in runs.items()}
    sections = {
        "glance": ("At a glance", _glance(summaries)),
        # Without its notes, which have a section of their own.
        "summary": ("Summary", markup.table(replace(summary_table(runs, summaries), notes=()))),
        "notes": ("Reader's notes", markup.notes(runs)),
        "latency": ("Latency and tokens", _figures(runs, command)),
        "timelines": ("Timelines", "".join(_timelines(runs, command))),
        "suppressed": ("Suppressed triggers", _each(runs, suppressed_table)),
        "worst": ("Worst calls", "".join(_worst(runs))),
        "runs": ("What was run", markup.table(runs_table(runs)) + "".join(markup.configs(runs))),
    }
    heads = "".join(
        f"<li><strong>{markup.said(label)}</strong> {markup.said(headline(run))}</li>"
        for label, run in runs.items()
    )
    made = f"<p>Made by <code>{markup.said(command)}</code></p>"
    lead = f'<ul class="runs">{heads}</ul>{made}'
    return markup.write(target, markup.document(title, lead, sections, POLICY))


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
    drawn = [markup.plot_of(kind, runs, command) for kind in markup.PLOTS]
    return f'<div class="figures">{"".join(drawn)}</div>{_each(runs, phase_table, fold=True)}'


def _timelines(runs: Mapping[str, Run], command: str) -> Iterator[str]:
    for number, (label, run) in enumerate(runs.items()):
        episodes = timeline.eventful(run, 1 + (MORE if len(runs) <= FEW else 0))
        if not episodes:
            yield f"<h3>{markup.said(label)}</h3><p>No step, call or episode was recorded.</p>"
            continue
        first, *others = episodes
        yield markup.timeline_of(run, label, f"timeline-{number}", first, command)
        if others:
            yield markup.folded(
                f"{label}: {len(others)} more episodes" if len(others) > 1 else f"{label}: one more episode",
                *(
                    markup.timeline_of(run, label, f"timeline-{number}-{place}", episode, command)
                    for place, episode in enumerate(others)
                ),
            )
    yield markup.remarks(markup.TIMELINES)


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
            error = f"\nerror: {late.record['error']}" if late.record["error"] else ""
            words = _excerpt(late.record["output"] or "(nothing)") + _excerpt(error)
            written.append(
                f"<h3>Episode {late.episode}, call {late.index}</h3><pre>{markup.said(words)}</pre>"
            )
        if written:
            yield markup.folded("What the planner wrote in these calls", *written)


def _excerpt(words: str) -> str:
    cut = len(words) - MOST_WORDS
    return words if cut <= 0 else f"{words[:MOST_WORDS]}\n… and {cut} more characters"
