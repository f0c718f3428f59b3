"""Decide a logged run again and say where the decisions differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brace.controller import decide
from brace.ledger.manifest import read_manifest
from brace.ledger.records import Step
from brace.ledger.scan import read_records
from brace.loop.build import build_rules
from brace.loop.config import load_config
from brace.loop.signals import signals_from_record


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of one step that came out otherwise."""

    episode: int
    t: int
    field: str
    logged: object
    now: object


@dataclass(slots=True)
class Replay:
    """How many steps were decided again, and how many came out otherwise."""

    steps: int = 0
    differing: int = 0


def redecide(directory: Path, tally: Replay) -> Iterator[Difference]:
    """Feed each episode's logged signals to a fresh controller and compare. Counts go to `tally`."""
    rules = build_rules(load_config(read_manifest(directory).config))
    states: dict[tuple[int, int], Any] = {}
    for record in read_records(directory):
        if not isinstance(record, Step):
            continue
        key = (record.episode, record.attempt)
        state = states.get(key)
        decision, states[key] = decide(
            rules, rules.start() if state is None else state, signals_from_record(record.signals), record.t
        )
        budget = decision.budget
        now: dict[str, object] = {
            "triggers": decision.triggers,
            "replan": decision.replan,
            "gate": decision.gate,
            "override": decision.override,
            "cancel": decision.cancel,
            "mode": budget.mode if budget else None,
            "budget": budget.tokens if budget else None,
            "slo_ms": budget.slo_ms if budget else None,
        }
        found = [
            Difference(record.episode, record.t, name, getattr(record, name), value)
            for name, value in now.items()
            if getattr(record, name) != value
        ]
        tally.steps += 1
        tally.differing += bool(found)
        yield from found
