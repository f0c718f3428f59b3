"""Summarise each kind of segment in its own way, by rules: no model, no filler.

Repeated observations and messages become one line with its count and its steps, actions become a run-length
history, failures are grouped by their text with the last step, old plans become the list of steps at which
they were made. Each agent's newest observation and message stay verbatim. Room that is left is filled with
the newest original lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np

from brace.callpath.call import OpenCall
from brace.callpath.compress.base import Scores, ScoringCompressor
from brace.context import Kind, Line, Segment, Tokenizer
from brace.context.segments import HEAD_KINDS
from brace.registry import compressors

_PRIORITY: dict[Kind, float] = {
    "failure": 7, "observation": 6, "message": 5, "retrieved": 4, "action": 3, "plan": 2,
}  # fmt: skip
_ORIGINAL = 0.0


@compressors.register("structured")
class Structured(ScoringCompressor):
    """Rule-made summaries first, by kind; then the newest original lines as far as room is left."""

    name = "structured"

    def rewrite(self, call: OpenCall) -> Sequence[Line]:
        """Floors, the summary lines, and the originals they stand for, in prompt order."""
        lines = call.lines
        if sum(line.tokens for line in lines) <= call.room:
            return lines
        # The head (task, goal, safety) is short and stays as it is, in its place.
        loose = [line.segment for line in lines if not line.floor and line.segment.kind not in HEAD_KINDS]
        there = {id(segment) for segment in loose}
        summaries = [_line(made, call.tokenizer) for made in summarise(loose) if id(made) not in there]
        head = sum(line.segment.kind in HEAD_KINDS for line in lines)
        return [*lines[:head], *summaries, *lines[head:]]

    def score(self, lines: Sequence[Line], call: OpenCall) -> Sequence[Scores]:
        """A summary ranks by its kind, then by its freshness; a newest-of-its-agent original beside it."""
        originals = {id(line) for line in call.lines}
        newest = {id(segment) for segment in _newest([line.segment for line in call.lines])}
        horizon = 1 + max((line.segment.step for line in lines), default=0)
        scores = []
        for place, line in enumerate(lines):
            summary = id(line) not in originals or id(line.segment) in newest
            rank = _PRIORITY.get(line.segment.kind, 1.0) if summary else _ORIGINAL
            fresh = (line.segment.step + place / len(lines)) / (horizon + 1)
            # Within a line the beginning counts most: a cut summary keeps its statement.
            size = len(line.spans(call.tokenizer))
            scores.append(rank + fresh - np.arange(size) / (1e6 * (1 + size)))
        return scores


def summarise(segments: Sequence[Segment]) -> list[Segment]:
    """One or a few short segments for each kind and agent, ordered by their last step."""
    made: list[Segment] = []
    by_owner = sorted(segments, key=lambda s: (s.kind, -1 if s.agent is None else s.agent))
    for (kind, _), group in groupby(by_owner, key=lambda s: (s.kind, s.agent)):
        made += _SUMMARISERS.get(kind, _repeats)(list(group))
    return sorted(made, key=lambda s: s.step)


def _repeats(segments: list[Segment]) -> list[Segment]:
    """Equal texts once, with their number and the steps between which they were said."""
    groups: dict[str, list[Segment]] = {}
    for segment in segments:
        # Texts that differ in their numbers only are the same thing said again.
        groups.setdefault(re.sub(r"-?\d+(\.\d+)?", "#", segment.text), []).append(segment)
    return [_said(group) for group in groups.values()]


def _said(group: list[Segment]) -> Segment:
    last = group[-1]
    if len(group) == 1:
        return last
    text = f"{last.text} ({len(group)}x since step {group[0].step})"
    return Segment(last.kind, text, last.step, last.agent, floor=False)


def _actions(segments: list[Segment]) -> list[Segment]:
    """`1-9 goto x7, 10 pickup`: what was done, without its arguments."""
    runs: list[tuple[str, int, int, int]] = []
    for segment in segments:
        word = re.split(r"[\s(]", segment.text.strip(), maxsplit=1)[0]
        if runs and runs[-1][0] == word:
            _, first, _, number = runs[-1]
            runs[-1] = (word, first, segment.step, number + 1)
        else:
            runs.append((word, segment.step, segment.step, 1))
    text = ", ".join(
        f"{first}-{last} {word} x{number}" if number > 1 else f"{first} {word}"
        for word, first, last, number in runs
    )
    return [Segment("action", text, segments[-1].step, segments[-1].agent, floor=False)]


def _plans(segments: list[Segment]) -> list[Segment]:
    """How often and when the plan was changed, and the last one before the current."""
    last = segments[-1]
    text = f"{len(segments)} earlier plans, last of step {last.step}: {last.text}"
    return [Segment("plan", text, last.step, last.agent, floor=False)]


_SUMMARISERS: dict[Kind, Callable[[list[Segment]], list[Segment]]] = {"action": _actions, "plan": _plans}


def _newest(segments: Sequence[Segment]) -> list[Segment]:
    latest = {(s.kind, s.agent): s for s in segments if s.kind in ("observation", "message")}
    return list(latest.values())


def _line(segment: Segment, tokenizer: Tokenizer) -> Line:
    text = segment.render()
    return Line(segment, text, tokenizer.count(text))
