"""Builders of small runs, written to disk and read back as a report reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from brace.ledger import Call, Episode, LedgerWriter, Manifest, Phase, Record, Step, write_manifest
from brace.ledger.reader import Run, load_run


def run_of(directory: Path, *records: Record, seeds: tuple[int, ...] = (7, 8), **manifest: Any) -> Run:
    facts: dict[str, Any] = {
        "name": "r", "created": 0.0, "versions": {}, "host": {"cpu": "a cpu", "cores": "2"},
        "config": {"world": {"name": "w"}}, "commit": "abc123", "command": ("brace", "run"),
    }  # fmt: skip
    write_manifest(directory, Manifest(seeds=seeds, **(facts | manifest)))
    with LedgerWriter(directory) as ledger:
        for record in records:
            ledger.write(record)
    return load_run(directory)


def call(index: int = 0, t: int = 0, *, episode: int = 0, **fields: Any) -> Call:
    facts: dict[str, Any] = {
        "t_end": t + 1, "at": 0.0, "mode": "full", "planner": "p", "compressor": "c", "status": "ok",
        "kind": "measured", "latency_ms": 100.0, "slo_ms": 120.0, "tokens_in": 900, "tokens_after": 500,
    }  # fmt: skip
    return Call(episode=episode, index=index, t=t, **(facts | fields))


def end(episode: int = 0, **fields: Any) -> Episode:
    facts: dict[str, Any] = {"seed": 7 + episode, "world": "w", "success": True, "steps": 20}
    return Episode(episode=episode, **(facts | fields))


def phases(compress: float, prefill: float, decode: float) -> tuple[Phase, ...]:
    return (
        Phase("sense", -1.0, 1.0),
        Phase("context_compress", 0.0, compress),
        Phase("replan", compress, prefill + decode),
        Phase("replan.prefill", compress, prefill),
        Phase("replan.decode", compress + prefill, decode),
    )


def typical(directory: Path) -> Run:
    """Two episodes: four calls, of which one is late and one is cut, and two suppressed triggers."""
    return run_of(
        directory,
        Step(episode=0, t=0, triggers=("periodic", "exhausted"), replan=True),
        call(0, 0, changed=True, cold=True, phases=phases(20, 60, 20), latency_ms=100.0),
        Step(episode=0, t=1, triggers=("failure",), gate="cooldown"),
        Step(episode=0, t=5, triggers=("deadlock",), replan=True, override="deadlock"),
        call(1, 5, t_end=8, missed=True, latency_ms=200.0, phases=phases(50, 100, 50), override="deadlock"),
        end(0, figures={"stall": 3.0}),
        Step(episode=1, t=0, triggers=("goal",), replan=True, cancel="goal"),
        call(0, 0, episode=1, latency_ms=80.0, phases=phases(20, 40, 20)),
        Step(episode=1, t=3, triggers=("periodic",), gate="in_flight"),
        Step(episode=1, t=6, triggers=("hazard",), replan=True, critical=True),
        call(1, 6, episode=1, status="cut", missed=True, fallback="keep", latency_ms=121.0,
             phases=phases(21, 100, 0), output="go(<b>", error="deadline"),
        end(1, success=False, figures={"stall": 5.0}),
    )  # fmt: skip
