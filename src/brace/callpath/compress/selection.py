"""From scores to survivors: whole segments at or under the room, tokens exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from brace.context import Line, Tokenizer

_ROUNDS = 8
"""Re-tokenising a cut line may give more or fewer tokens than were kept; a few corrections settle it."""


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
    """Floors, then the best tokens, as many as make the lines' count meet the room.

    Exact where a token stays one when its neighbours go (the built-in tokenizer); elsewhere the number of
    tokens admitted is corrected until what the cut text really counts comes nearest from below.
    """
    room -= sum(line.tokens for line in lines if line.floor)
    order = _by_score(lines, scores)
    ends = {index: len(scores[index]) - 1 for index in range(len(lines))}
    best: dict[int, Line] = {}
    best_count, target, tried = 0, room, set[int]()
    for _ in range(_ROUNDS):
        tried.add(target)
        cut = {
            index: _cut(lines[index], sorted(places), tokenizer)
            for index, places in _admit(order, ends, target).items()
        }
        count = sum(line.tokens for line in cut.values())
        if best_count < count <= room:
            best, best_count = cut, count
        target += room - count
        if target in tried or target <= 0:
            break
    return [
        line if line.floor else best[index] for index, line in enumerate(lines) if line.floor or index in best
    ]


def _by_score(lines: Sequence[Line], scores: Sequence[NDArray[np.float64]]) -> list[tuple[int, int]]:
    """(line, place within it) of every token that may be cut, best first, earlier first among equals."""
    loose = [index for index, line in enumerate(lines) if not line.floor]
    if not loose:
        return []
    owner = np.concatenate([np.full(len(scores[index]), index) for index in loose])
    place = np.concatenate([np.arange(len(scores[index])) for index in loose])
    best_first = np.argsort(-np.concatenate([scores[index] for index in loose]), kind="stable")
    return list(zip(owner[best_first].tolist(), place[best_first].tolist(), strict=True))


def _admit(order: list[tuple[int, int]], ends: dict[int, int], target: int) -> dict[int, set[int]]:
    """The places kept of each line. A line's first token brings the line's end along, so it costs two."""
    kept: dict[int, set[int]] = {}
    left = target
    for line, place in order:
        if left <= 0:
            break
        places = kept.get(line)
        if places is None:
            wanted = {place, ends[line]}
            if len(wanted) <= left:
                kept[line] = wanted
                left -= len(wanted)
        elif place not in places:
            places.add(place)
            left -= 1
    return kept


def _cut(line: Line, places: list[int], tokenizer: Tokenizer) -> Line:
    """The line with only these tokens."""
    spans = line.spans(tokenizer)
    if len(places) == len(spans):
        return line
    pieces: list[str] = []
    previous, reached = -1, 0
    for place in places:
        start, end = spans[place]
        if place == previous + 1:
            # Some tokenizers leave the space before a word out of its range.
            piece = line.text[reached:end]
        else:
            # A gap becomes a space, lest two words that never met melt into one. Tokens that share one
            # character (byte-level encodings) report the same range.
            piece = line.text[max(start, reached) : end]
            piece = piece if not pieces or piece[:1].isspace() else " " + piece
        pieces.append(piece)
        previous, reached = place, max(reached, end)
    text = "".join(pieces).strip() + "\n"
    return replace(line, text=text, tokens=tokenizer.count(text), _spans=None)
