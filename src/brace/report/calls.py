"""Single calls: why was this one late, and where in it did the time go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from brace.ledger.audits import UNACCOUNTED, LateCall, worst_calls
from brace.ledger.reader import Run
from brace.report.rows import Column, Row, Table

BAR = 20
"""Characters of the longest bar."""
_LETTERS = {
    "sense": "s", "trigger_eval": "t", "stability_gate": "g", "budget_select": "b", "context_compress": "c",
    "retrieve": "r", "clarify": "y", "replan": "R", "replan.queue": "q", "replan.prefill": "p",
    "replan.decode": "d", "execute": "x", "accounting": "a", UNACCOUNTED: "·",
}  # fmt: skip
_UNKNOWN = "?"


def worst_calls_table(run: Run, n: int = 10) -> Table:
    """The n worst calls: those that missed their SLO first, and the slowest first among equals."""
    worst = worst_calls(run, n)
    longest = max((late.latency_ms for late in worst), default=0.0)
    kinds = dict.fromkeys(late.kind for late in worst)
    rows, used = [], set()
    for late in worst:
        call = logged(run, late)
        bar = _bar(call, longest)
        used |= set(bar)
        mixed = (late.kind,) if len(kinds) > 1 else ()
        rows.append(
            Row((
                late.episode, late.index, late.t, *mixed, late.latency_ms, late.slo_ms,
                "yes" if late.missed else "", late.status, call["fallback"], _mostly(late), bar,
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


def logged(run: Run, late: LateCall) -> dict[str, Any]:
    """The record of a late call, as a row of the run's calls."""
    found = run.calls.filter((pl.col("episode") == late.episode) & (pl.col("index") == late.index))
    return found.row(0, named=True)


def own_times(phases: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """ms by phase, a whole reduced by its parts: `replan` is what queue, prefill and decode leave of it."""
    own: dict[str, float] = {}
    for phase in phases:
        name, ms = phase["name"], phase["ms"]
        own[name] = own.get(name, 0.0) + ms
        if whole := name.rpartition(".")[0]:
            own[whole] = own.get(whole, 0.0) - ms
    return {name: max(ms, 0.0) for name, ms in own.items()}


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


def _mostly(late: LateCall) -> str:
    if not late.latency_ms:
        return ""
    return f"{late.dominant} {100 * late.dominant_ms / late.latency_ms:.0f} %"
