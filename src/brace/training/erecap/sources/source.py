"""A source of examples: where its data lies, whose it is, and how its records become examples."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from brace.errors import BraceError, ConfigError
from brace.training.erecap.examples import MOST_CHARS, BadRecordError, Example, Faults
from brace.training.erecap.sources.files import UnreadableFileError

_MALFORMED = (KeyError, IndexError, TypeError, AttributeError, ValueError, SyntaxError, RecursionError)
"""What taking a record apart raises when it does not have the form of its kind."""

Make = Callable[[random.Random, int], Example]
"""The example of a record: chance says where an episode is cut, the number how many characters fit."""


class Record(NamedTuple):
    """One record of a data set, not yet taken apart; to be made before the next one is asked for."""

    name: str
    """`file:record`, or the file alone where it is one record."""
    make: Make


@dataclass(frozen=True, slots=True)
class Source:
    """A public data set, or one's own."""

    name: str
    folder: str
    """Where it lies below the data's root."""
    licence: str
    permissive: bool
    """Whether weights trained on it may be passed on for any use."""
    origin: str
    """Where to get it."""
    records: Callable[[Path, Faults], Iterator[Record]]

    def count(self, path: Path, faults: Faults) -> int:
        """How many records there are, good or bad. Nothing is taken apart, so this is quick."""
        return sum(1 for _ in self._found(path, faults))

    def load(
        self,
        path: Path,
        faults: Faults,
        *,
        only: Set[int] | None = None,
        seed: int = 0,
        most_chars: int = MOST_CHARS,
    ) -> Iterator[Example]:
        """The examples of all records, or of those with the given numbers; reading stops after the last.

        Where an episode is cut depends on the record and the seed alone.
        """
        last = max(only, default=-1) if only is not None else None
        if last == -1:
            return
        for number, record in enumerate(self._found(path, faults)):
            if only is None or number in only:
                example = self._made(record, seed, most_chars, faults)
                if example is not None:
                    yield example
            if number == last:
                return

    def _found(self, path: Path, faults: Faults) -> Iterator[Record]:
        self.require(path)
        try:
            yield from self.records(path, faults)
        except (UnreadableFileError, BadRecordError) as error:
            raise ConfigError(f"{error}; it should be {self.origin}") from error

    def require(self, path: Path) -> None:
        """`ConfigError` with the way to the data if there is none."""
        if not path.exists():
            raise ConfigError(f"no data for {self.name!r}: expected {path}; it comes from {self.origin}")

    def _made(self, record: Record, seed: int, most_chars: int, faults: Faults) -> Example | None:
        chance = random.Random(f"{self.name} {record.name} {seed}")
        try:
            example = record.make(chance, most_chars)
        except BraceError as error:
            faults.add(record.name, str(error))
        except _MALFORMED as error:
            faults.add(record.name, f"not of the usual form ({type(error).__name__}: {str(error)[:80]})")
        else:
            if example.answer.strip():
                return example
            faults.add(record.name, "the answer is empty")
        return None
