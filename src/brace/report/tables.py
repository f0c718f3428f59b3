"""The tables of a report: the figures of runs side by side, and why they are so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from brace.ledger.audits import UNACCOUNTED, own_times, suppression_audit, worst_calls
from brace.ledger.intervals import SHARE, Estimate, mean
from brace.ledger.metrics import Summary, latency_table, summarise
from brace.ledger.reader import Run
from brace.report.rows import Cell, Column, Row, Table

_GROUPS: dict[str, tuple[str, ...]] = {
    "outcome": ("episodes", "success", "wait_per_episode", "steps", "figure"),
    "calls and latency": (
        "calls", "calls_per_episode", "latency_p50", "latency_p95", "latency_p99", "miss_rate",
        "queue_per_call", "status", "cached", "cached_p50", "cached_p95", "cached_p99",
    ),
    "tokens": ("tokens_in", "tokens_after", "reduction", "bind_rate"),
    "stability": ("churn", "changes_per_episode", "suppressed", "override"),
    "fallbacks": ("fallback",),
}  # fmt: skip
_RARE = ("status", "override", "fallback", "suppressed")
_OTHER = "other"
_COUNTED = "what n counts"
_LEGEND = (
    "[ ]: 95 % interval (Wilson for rates, bootstrap for the rest). “over” names what a row's n counts;"
    " the last rows say how many there were.",
    "Statuses, overrides, fallbacks and gate reasons that never occurred are left out.",
)


BAR = 20
"""Characters of the longest bar."""
_LETTERS = {
    "sense": "s", "trigger_eval": "t", "stability_gate": "g", "budget_select": "b", "context_compress": "c",
    "retrieve": "r", "clarify": "y", "replan": "R", "replan.queue": "q", "replan.prefill": "p",
    "replan.decode": "d", "execute": "x", "accounting": "a", UNACCOUNTED: "·",
}  # fmt: skip
_UNKNOWN = "?"


def summary_table(runs: Mapping[str, Run], summaries: Mapping[str, Summary] | None = None) -> Table:
    """One column a run, one row a figure. `summaries` spares computing them again."""
    known = summaries or {label: summarise(run) for label, run in runs.items()}
    figures = {label: {**known[label], **world_figures(run)} for label, run in runs.items()}
    return Table(
        "Summary",
        (Column("figure"), Column("unit"), *(Column(label, right=True) for label in runs), Column("over")),
        (*_figures(figures, known), *_counted(figures)),
        _LEGEND,
        tuple(
            f"{label}: {note}" for label, run in runs.items() for note in (*known[label].notes, *remarks(run))
        ),
    )


def remarks(run: Run) -> Iterator[str]:
    """What a run lacks that a reader would look for."""
    if run.manifest.live:
        yield "a live run: no planned episodes, so nobody judged success"
    elif run.episodes.is_empty():
        yield "no finished episode"
    if run.calls.is_empty():
        yield "no planner call"


def phase_table(run: Run) -> Table:
    """Where the time of the executed calls went, phase by phase."""
    rows = latency_table(run)
    kinds = dict.fromkeys(row.kind for row in rows)
    return Table(
        f"Phases of a call ({', '.join(kinds)})" if kinds else "Phases of a call",
        (
            Column("phase"), Column("P50, ms", right=True, decimals=3),
            Column("P95, ms", right=True, decimals=3), Column("share, %", right=True, decimals=2),
            Column("n", right=True),
        ),
        tuple(
            Row((row.phase, row.p50, row.p95, row.share, row.p50.n), row.kind if len(kinds) > 1 else "")
            for row in rows
        ),
        (
            "[ ]: 95 % interval, by bootstrap. n: executed calls with this phase. Share: of the time of all"
            " phases; replan contains its parts.",
        ),
        () if rows else ("no executed call has phases",),
    )  # fmt: skip


def suppressed_table(run: Run, horizon: int = 20) -> Table:
    """What became of the triggers that the gate held back."""
    rows = suppression_audit(run, horizon)
    return Table(
        "Suppressed triggers and what came after",
        (
            Column("gate reason"), Column("segments", right=True), Column("recovered, %", right=True),
            Column("harmless, %", right=True), Column("harmful, %", right=True),
            Column("with override, %", right=True),
        ),
        tuple(
            Row((
                row.reason, row.segments, row.share("recovered"), row.share("harmless"),
                row.share("harmful"), row.share("override"),
            ))
            for row in rows
        ),
        (
            "A segment: consecutive steps whose triggers were held back for one reason. Shares are over"
            " segments, with Wilson's 95 % interval.",
            f"Within {horizon} steps of its end: harmful, if a critical hazard, a new deadlock or an"
            " unsuccessful end came before an accepted plan; else recovered, if a plan was accepted; else"
            " harmless.",
        ),
        () if rows else ("no trigger was suppressed",),
    )  # fmt: skip


def _figures(figures: Mapping[str, Mapping[str, Estimate]], known: Mapping[str, Summary]) -> Iterator[Row]:
    names = dict.fromkeys(name for of_run in figures.values() for name in of_run)
    kept = [name for name in names if not _never_occurred(name, figures)]
    grouped: dict[str, list[Row]] = {group: [] for group in (*_GROUPS, _OTHER)}
    for name in kept:
        group = next((group for group, stems in _GROUPS.items() if _stem(name) in stems), _OTHER)
        found = [of_run.get(name) for of_run in figures.values()]
        first = next(estimate for estimate in found if estimate is not None)
        cells = (named(name), unit_of(first), *found, _over(name, first))
        grouped[group].append(Row(cells, group))
    group = "calls and latency"
    kinds: tuple[Cell, ...] = tuple(summary.latency_kind for summary in known.values())
    grouped[group].insert(0, Row(("latency kind", "", *kinds, ""), group))
    for rows in grouped.values():
        yield from rows


def _never_occurred(name: str, figures: Mapping[str, Mapping[str, Estimate]]) -> bool:
    stem = _stem(name)
    if stem.startswith("cached"):
        name = "cached"  # without a call from a store, its latency rows say nothing either
    elif name in ("status.ok", stem) or stem not in _RARE:
        return False
    return not any(name in of_run and of_run[name].value for of_run in figures.values())


def _counted(figures: Mapping[str, Mapping[str, Estimate]]) -> Iterator[Row]:
    """What n is, once for each thing that is counted instead of once for each row."""
    numbers: dict[str, dict[str, int]] = {}
    for label, of_run in figures.items():
        for name, estimate in of_run.items():
            if (over := _over(name, estimate)) and not _never_occurred(name, figures):
                numbers.setdefault(over, {})[label] = estimate.n
    for over, by_run in numbers.items():
        yield Row((over, "", *(by_run.get(label) for label in figures), ""), _COUNTED)


def _over(name: str, estimate: Estimate) -> str:
    """What the figure's n counts; latencies of several kinds have an n each."""
    if estimate.denominator == "run":
        return ""
    kind = name.partition(".")[2] if _stem(name).startswith(("latency_", "cached_")) else ""
    return f"{estimate.denominator} ({kind})" if kind else estimate.denominator


def world_figures(run: Run) -> dict[str, Estimate]:
    """What the world itself reported at the end of each episode: means, in units only the world knows."""
    ends = run.episodes
    over = "finished episodes"
    figures = {"steps": mean(ends["steps"], "steps", over)} if ends.height else {}
    for column in ends.columns:
        if column.startswith("figure."):
            told = ends[column].drop_nulls()
            whole = len(told) == ends.height
            figures[column] = mean(told, "", over if whole else f"{over} with {column[7:]}")
    return figures


def _stem(name: str) -> str:
    return name.partition(".")[0]


def unit_of(estimate: Estimate) -> str:
    """The unit a figure is printed in."""
    return "%" if estimate.unit == SHARE else estimate.unit


def named(name: str) -> str:
    """`latency_p95` as `latency P95`, `status.cut` as `status: cut`, `figure.stall` as `stall`."""
    stem, _, rest = name.partition(".")
    if stem == "figure":
        return f"{rest} per episode"
    words = stem.replace("_", " ").replace(" p9", " P9").replace(" p5", " P5")
    if stem == "steps":
        words = "steps per episode"
    return f"{words}: {rest}" if rest else words


def worst_calls_table(run: Run, n: int = 10) -> Table:
    """The n worst calls: those that missed their SLO first, and the slowest first among equals."""
    worst = worst_calls(run, n)
    longest = max((late.latency_ms for late in worst), default=0.0)
    kinds = dict.fromkeys(late.kind for late in worst)
    rows, used = [], set()
    for late in worst:
        bar = _bar(late.record, longest)
        used |= set(bar)
        mixed = (late.kind,) if len(kinds) > 1 else ()
        share = 100 * late.dominant_ms / (late.latency_ms or 1.0)
        mostly = f"{late.dominant} {share:.0f} %" if late.latency_ms else ""
        rows.append(
            Row((
                late.episode, late.index, late.t, *mixed, late.latency_ms, late.slo_ms,
                "yes" if late.missed else "", late.status, late.record["fallback"], mostly, bar,
            ))
        )  # fmt: skip
    names = [f"{letter} {name}" for name, letter in _LETTERS.items() if letter in used]
    return Table(
        f"Worst calls ({', '.join(kinds)})" if kinds else "Worst calls",
        (
            Column("ep", right=True), Column("call", right=True), Column("t", right=True),
            *((Column("kind"),) if len(kinds) > 1 else ()),
            Column("ms", right=True, decimals=1), Column("SLO", right=True), Column("miss"),
            Column("status"), Column("fallback"), Column("mostly"), Column("where the time went", code=True),
        ),
        tuple(rows),
        (f"Bars: time in the call, to one scale; │ is its SLO. {', '.join(names)}.",) if rows else (),
        () if rows else ("no planner call",),
    )  # fmt: skip


def _bar(call: Mapping[str, Any], longest: float) -> str:
    """One letter for each equal slice of time, that of the phase it falls in."""
    if longest <= 0:
        return ""
    latency, slo = call["latency_ms"], call["slo_ms"]
    inside = (phase for phase in call["phases"] if 0 <= phase["start_ms"] < latency)
    spans = [*own_times(inside).items()]
    letters = []
    for slot in range(round(BAR * latency / longest)):
        at = (slot + 0.5) * longest / BAR
        for name, ms in spans:
            if at < ms:
                letters.append(_LETTERS.get(name, _UNKNOWN))
                break
            at -= ms
        else:
            letters.append(_LETTERS[UNACCOUNTED])
    if slo is not None and slo <= longest:
        mark = round(BAR * slo / longest)
        letters += [" "] * (mark - len(letters))
        letters.insert(mark, "│")
    return "".join(letters)
