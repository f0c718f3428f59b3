"""Retrieval by words (BM25): no model, microseconds for hundreds of notes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from brace.callpath.retrieve.base import Retriever
from brace.context import Line
from brace.errors import ConfigError
from brace.registry import retrievers

_K1, _B = 1.5, 0.75
_WORD = re.compile(r"\w+")


@retrievers.register("lexical")
@dataclass(eq=False)
class LexicalRetriever(Retriever):
    """Ranks notes (past failures and what helped, house rules) by the rare words they share with the query.

    The query is what may never be cut (task, goal, current plan, last failure) and the newest line.
    """

    name = "lexical"
    notes: Sequence[str] = ()
    """What is known from the start."""
    reserve: int = 64
    """Tokens of the budget that compression leaves to it."""
    most: int = 3
    """Notes told in one call."""

    def __post_init__(self) -> None:
        if self.reserve < 1 or self.most < 1:
            raise ConfigError(
                f"retriever 'lexical': reserve {self.reserve} and most {self.most} must be 1 or more"
            )
        self._notes: list[tuple[str, Counter[str]]] = []
        self._having: Counter[str] = Counter()
        self._length = 0
        for note in self.notes:
            self.remember(note)

    def remember(self, note: str) -> None:
        """Add a note; it can be found from now on."""
        words = _words(note)
        self._notes.append((note, words))
        self._having.update(words.keys())
        self._length += words.total()

    def retrieve(self, lines: Sequence[Line]) -> list[str]:
        """The best notes that share a word with the query."""
        query: Counter[str] = Counter()
        for line in [line for line in lines if line.floor] + list(lines[-1:]):
            query.update(_words(line.segment.text))
        scored = [(self._score(words, query), note) for note, words in self._notes]
        return [note for score, note in sorted(scored, key=lambda s: -s[0])[: self.most] if score > 0]

    def _score(self, words: Counter[str], query: Counter[str]) -> float:
        mean = self._length / len(self._notes)
        score = 0.0
        for word in sorted(words.keys() & query.keys()):
            having = self._having[word]
            rarity = math.log(1 + (len(self._notes) - having + 0.5) / (having + 0.5))
            often = words[word]
            score += rarity * often * (_K1 + 1) / (often + _K1 * (1 - _B + _B * words.total() / mean))
        return score


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.lower()))
