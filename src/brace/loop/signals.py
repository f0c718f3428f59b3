"""Signals as plain data: what a ledger keeps of them, so that every step can be decided again."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from brace.controller import CallOutcome, Signals

_FLOATS = ("progress", "divergence")
_SIGNAL_DEFAULTS = {
    f.name: f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
    for f in dataclasses.fields(Signals)
}


def signals_to_record(signals: Signals) -> dict[str, Any] | None:
    """The fields that say something."""
    said: dict[str, Any] = {
        name: value
        for name, default in _SIGNAL_DEFAULTS.items()
        if (value := getattr(signals, name)) != default
    }
    for name in _FLOATS:
        # JSON has no infinity and no NaN, and the replayed controller must see them as they were.
        if name in said and not math.isfinite(said[name]):
            said[name] = str(said[name])
    if signals.readings:
        said["readings"] = {name: str(value) for name, value in signals.readings.items()}
    if signals.outcome is not None:
        said["outcome"] = dataclasses.asdict(signals.outcome)
    return said or None


def signals_from_record(said: dict[str, Any] | None) -> Signals:
    """The reverse."""
    said = dict(said or {})
    said |= {name: float(said[name]) for name in _FLOATS if name in said}
    if "readings" in said:
        said["readings"] = {name: float(value) for name, value in said["readings"].items()}
    if "outcome" in said:
        said["outcome"] = CallOutcome(**said["outcome"])
    return Signals(**said)
