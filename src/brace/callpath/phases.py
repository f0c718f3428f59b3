"""A stopwatch for the phases of one call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from brace.ledger.records import Phase


class PhaseClock:
    """Times phases relative to its zero: the moment the call was entered."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self._zero = time.perf_counter()

    def enter_call(self) -> None:
        """Now is zero. Phases timed before (sense, trigger evaluation, …) get negative starts."""
        now = time.perf_counter()
        shift = (now - self._zero) * 1e3
        self._zero = now
        self.phases = [Phase(p.name, p.start_ms - shift, p.ms, p.tokens) for p in self.phases]

    @contextmanager
    def phase(self, name: str) -> Iterator[PhaseNote]:
        """Time a block; it may leave its token count on the note."""
        start = time.perf_counter()
        note = PhaseNote()
        try:
            yield note
        finally:
            self.add(name, start, time.perf_counter() - start, note.tokens)

    def add(self, name: str, start: float, seconds: float, tokens: int | None = None) -> None:
        """Write down a phase timed elsewhere; `start` is a `perf_counter` value."""
        self.phases.append(Phase(name, (start - self._zero) * 1e3, seconds * 1e3, tokens))


class PhaseNote:
    """What a phase says about itself."""

    tokens: int | None = None
