"""E-RECAP as a selector: a small model reads the context, and what survives becomes text for any planner.

The scorer model and the planner need not be the same, nor share a tokenizer: worth is carried over by
characters. A predictor of lines judges them after one uncut reading. With any other scorer the model prunes
as it reads: a token is worth more the deeper it lives, and among those that live equally deep by its score.
What a later line says again is not read, and goes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from brace.callpath.call import OpenCall
from brace.callpath.compress.base import Scores, ScoringCompressor
from brace.context import Line
from brace.context.segments import HEAD_KINDS, said_again
from brace.planners.local import EMBEDDED
from brace.registry import compressors, scorers

if TYPE_CHECKING:
    from brace.erecap import Engine, PrefixScorer
    from brace.erecap.scorers import Scorer

RATIO = 0.7
"""The keep ratio of a pruning pass; only the order it gives matters here."""
_REPEATED = 1.0
"""So far below all others is a line that is said again."""


@compressors.register("erecap")
@dataclass(eq=False)
class Erecap(ScoringCompressor):
    """A small model reads the context; what it needs least goes."""

    needs_extra = "erecap"
    name = "erecap"
    model: Any = "embedded"
    """`embedded`, `smollm2`, a folder, or a loaded model (then with its `tokenizer`)."""
    tokenizer: Any = None
    """The tokenizer of a loaded model."""
    scorer: str | None = None
    """By default the predictor of lines that comes with the model; where there is none, `attention`."""
    options: Mapping[str, Any] | None = None
    """The scorer's options."""

    def __post_init__(self) -> None:
        super().__post_init__()
        from brace.erecap import Engine  # noqa: PLC0415 - an extra

        model, tokenizer = self.model, self.tokenizer
        if model == "embedded":
            model = str(EMBEDDED)
        chosen: Scorer = (
            scorers.create(self.scorer, self.options) if self.scorer is not None else _own_scorer(model)
        )
        if isinstance(model, str):
            from brace.erecap.models import best_device, best_dtype, load_model  # noqa: PLC0415

            device = best_device()
            model, tokenizer = load_model(model, best_dtype(device))
            model = model.to(device)
        # The static path does not rank what it drops.
        self._engine: Engine = Engine(model, chosen, path="eager")
        self._prefixes: dict[int, PrefixScorer] = {}
        self._tokenizer = tokenizer
        self._last: tuple[tuple[str, ...], list[Scores]] = ((), [])

    def segment_score(self, scores: Scores) -> float:
        """The mean over its tokens: one bright word must not save a long line."""
        return float(scores.mean())

    def score(self, lines: Sequence[Line], call: OpenCall) -> Sequence[Scores]:
        """Worth by characters, read off at the planner's tokens."""
        scores = []
        for line, worth in zip(lines, self._worth_by_line(lines, call.template.head), strict=True):
            spans = line.spans(call.tokenizer)
            # Some tokenizers give a range past the end to the line's break.
            ranges = [worth[min(start, len(worth) - 1) : max(end, start + 1)] for start, end in spans]
            scores.append(np.array([values.max() for values in ranges]))
        return scores

    def _worth_by_line(self, lines: Sequence[Line], before: str = "") -> list[Scores]:
        """Each line's characters' worth. The same lines again (a budget just missed) are not read again."""
        key = (before, *(line.text for line in lines))
        if self._last[0] != key:
            self._last = (key, self._read(lines, before))
        return self._last[1]

    def _read(self, lines: Sequence[Line], before: str) -> list[Scores]:
        """A context longer than the model reads is taken in parts, each after the head (what stands before
        all, task, goal, safety), so that every part is read in their light."""
        repeated = {n for n in said_again([line.text for line in lines]) if not lines[n].floor}
        head = [n for n, line in enumerate(lines) if line.segment.kind in HEAD_KINDS and n not in repeated]
        body = [n for n in range(len(lines)) if n not in repeated and n not in set(head)]
        sizes = [len(self._tokenizer(line.text, add_special_tokens=False).input_ids) for line in lines]
        start = len(self._tokenizer(before, add_special_tokens=False).input_ids)
        room = self._engine.backbone.max_positions - start - sum(sizes[n] for n in head)
        worth = [np.zeros(len(line.text)) for line in lines]
        for number, part in enumerate(_parts(body, sizes, room)):
            shown = head + part
            if not shown:
                continue
            floor = [True] * len(before)
            for n in shown:
                floor += [lines[n].floor] * len(lines[n].text)
            text = before + "".join(lines[n].text for n in shown)
            values = self._worth(number, text, floor)[len(before) :]
            ends = np.cumsum([len(lines[n].text) for n in shown])
            for n, piece in zip(shown, np.split(values, ends[:-1]), strict=True):
                worth[n] = piece
        least = min((values.min() for n, values in enumerate(worth) if n not in repeated), default=0.0)
        for n in repeated:
            worth[n] = np.full(len(lines[n].text), least - _REPEATED)
        return worth

    def _worth(self, part: int, text: str, floor: list[bool]) -> Scores:
        """One reading: for each character, what its token is worth."""
        encoded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        if not encoded.input_ids:
            return np.zeros(len(text))
        most = self._engine.backbone.max_positions
        ids, ranges = encoded.input_ids[:most], encoded.offset_mapping[:most]
        values = self._values(part, ids, [any(floor[start:end]) for start, end in ranges])
        worth = np.full(len(text), min(values))
        for (start, end), value in zip(ranges, values, strict=True):
            worth[start:end] = np.maximum(worth[start:end], value)
        return worth

    def _values(self, part: int, ids: list[int], fixed: list[bool]) -> list[float]:
        """What each token is worth. Of each part only what is new since the last call is read."""
        import torch  # noqa: PLC0415 - an extra

        from brace.erecap import Keep, PrefixScorer  # noqa: PLC0415

        line_layer = self._engine.scorer.line_layer
        if line_layer is not None:
            prefix = self._prefixes.setdefault(part, PrefixScorer(self._engine, line_layer))
            return prefix.scores(ids).tolist()
        floor = torch.tensor([fixed])
        prefill = self._engine.prefill(torch.tensor([ids]), keep=Keep(ratio=RATIO), floor=floor)
        return prefill.worth[0].tolist()


def _own_scorer(model: Any) -> Scorer:
    from brace.erecap.models import LINES, own_predictor  # noqa: PLC0415 - an extra

    path = own_predictor(model, LINES) if isinstance(model, str) else None
    made: Scorer = scorers.create("predictor", {"path": str(path)}) if path else scorers.create("attention")
    return made


def _parts(body: list[int], sizes: list[int], room: int) -> list[list[int]]:
    """The lines in order, as few parts as fit the room each; a line longer than that is a part of its own."""
    parts: list[list[int]] = [[]]
    left = room
    for index in body:
        if parts[-1] and sizes[index] > left:
            parts.append([])
            left = room
        parts[-1].append(index)
        left -= sizes[index]
    return parts
