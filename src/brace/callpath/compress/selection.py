"""From scores to survivors: whole segments at or under the room, tokens exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from brace.context import Line, Tokenizer

_ROUNDS = 16
"""Re-tokenising a cut line may give more or fewer tokens than were kept; a few corrections settle it."""
_LOOK_AHEAD = 64
"""How many further tokens are tried to fill the last gap."""


def keep_segments(lines: Sequence[Line], scores: Sequence[float], room: int) -> list[Line]:
    """Floors, then the best segments that still fit (a smaller one may fit where a better one did not)."""
    kept = {index for index, line in enumerate(lines) if line.floor}
    left = room - sum(lines[index].tokens for index in kept)
    # Of equal scores the later one wins: it is the fresher.
    for index in sorted(range(len(lines)), key=lambda i: (scores[i], i), reverse=True):
        if index not in kept and lines[index].tokens <= left:
            kept.add(index)
            left -= lines[index].tokens
    return [lines[index] for index in sorted(kept)]


def keep_tokens(
    lines: Sequence[Line], scores: Sequence[NDArray[np.float64]], room: int, tokenizer: Tokenizer
) -> list[Line]:
    """Floors, then the best tokens, as many as make the lines' count meet the room."""
    cut = _Cut.of(lines, scores, tokenizer)
    room -= sum(line.tokens for line in lines if line.floor)
    admitted = _meet(cut, room)
    return cut.lines(_top_up(cut, admitted, room))


def _meet(cut: _Cut, room: int) -> int:
    """The number of tokens to admit so that the count comes nearest to the room without exceeding it."""
    best, best_count = 0, 0
    trial, tried = min(room, cut.size), set[int]()
    for _ in range(_ROUNDS):
        tried.add(trial)
        count = cut.count(trial)
        if best_count < count <= room:
            best, best_count = trial, count
        if count == room:
            break
        following = min(cut.size, max(0, trial + room - count))
        if following in tried:
            following = best + 1
        if following in tried or following > cut.size:
            break
        trial = following
    return best


def _top_up(cut: _Cut, admitted: int, room: int) -> int:
    """Fill what is left with the next tokens of lines already there: a new line costs its end, too."""
    count = cut.count(admitted)
    present = set(cut.owner[:admitted].tolist())
    for candidate in range(admitted, min(cut.size, admitted + _LOOK_AHEAD)):
        if count >= room:
            break
        if int(cut.owner[candidate]) not in present:
            continue
        cut.promote(candidate, admitted)
        longer = cut.count(admitted + 1)
        if longer <= room:
            admitted, count = admitted + 1, longer
    return admitted


@dataclass(slots=True)
class _Cut:
    """The tokens of the cuttable lines in the order in which they are admitted."""

    source: Sequence[Line]
    tokenizer: Tokenizer
    owner: NDArray[np.int64]
    """For each token in order of admission: its line."""
    place: NDArray[np.int64]
    """… and its place within the line."""
    counted: dict[tuple[int, int], int]
    """Tokens of a line by (line, how many of its tokens are kept): most stay as they are between rounds."""

    @classmethod
    def of(cls, lines: Sequence[Line], scores: Sequence[NDArray[np.float64]], tokenizer: Tokenizer) -> _Cut:
        loose = [index for index, line in enumerate(lines) if not line.floor]
        if not loose:
            empty = np.zeros(0, dtype=np.int64)
            return cls(lines, tokenizer, empty, empty, {})
        owner = np.concatenate([np.full(len(scores[index]), index) for index in loose])
        place = np.concatenate([np.arange(len(scores[index])) for index in loose])
        values = np.concatenate([scores[index] for index in loose])
        order = np.argsort(-values, kind="stable")
        return cls(lines, tokenizer, owner[order], place[order], {})

    @property
    def size(self) -> int:
        return len(self.owner)

    def count(self, admitted: int) -> int:
        """Tokens of all cuttable lines when the first `admitted` are kept."""
        total = 0
        owners, kept = np.unique(self.owner[:admitted], return_counts=True)
        groups = None
        for index, number in zip(owners.tolist(), kept.tolist(), strict=True):
            key = (index, number)
            if key not in self.counted:
                groups = groups if groups is not None else self._groups(admitted)
                self.counted[key] = self._cut_line(index, groups[index]).tokens
            total += self.counted[key]
        return total

    def promote(self, candidate: int, position: int) -> None:
        """Admit the token at `candidate` next, at `position`."""
        line = int(self.owner[candidate])
        for order in (self.owner, self.place):
            order[position : candidate + 1] = np.roll(order[position : candidate + 1], 1)
        self.counted = {key: count for key, count in self.counted.items() if key[0] != line}

    def lines(self, admitted: int) -> list[Line]:
        """Floors and cut lines, in prompt order."""
        groups = self._groups(admitted)
        return [
            line if line.floor else self._cut_line(index, groups[index])
            for index, line in enumerate(self.source)
            if line.floor or index in groups
        ]

    def _groups(self, admitted: int) -> dict[int, NDArray[np.int64]]:
        owner, place = self.owner[:admitted], self.place[:admitted]
        order = np.lexsort((place, owner))
        owner, place = owner[order], place[order]
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        return {
            int(owner[start]): part for start, part in zip(starts, np.split(place, starts[1:]), strict=True)
        }

    def _cut_line(self, index: int, places: NDArray[np.int64]) -> Line:
        line = self.source[index]
        spans = line.spans(self.tokenizer)
        if len(places) == len(spans):
            return line
        pieces: list[str] = []
        previous, reached = -1, 0
        for place in places.tolist():
            start, end = spans[place]
            # Tokens that share one character (byte-level encodings) report the same range.
            piece = line.text[max(start, reached) : end]
            # A gap becomes a space, lest two words that never met melt into one.
            if pieces and place != previous + 1 and not piece[:1].isspace():
                piece = " " + piece
            pieces.append(piece)
            previous, reached = place, max(reached, end)
        text = "".join(pieces).strip() + "\n"
        return replace(line, text=text, tokens=self.tokenizer.count(text), _spans=None)
