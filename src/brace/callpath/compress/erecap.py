"""E-RECAP as a selector: a small model reads the context, and what survives becomes text for any planner.

The scorer model and the planner need not be the same, nor share a tokenizer: worth is carried over by
characters. A token is worth more the deeper it lives, and among those that live equally deep by its score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from brace.callpath.compress.base import CompressRequest, Granularity, Scores, ScoringCompressor
from brace.context import Line
from brace.context.segments import HEAD_KINDS
from brace.registry import compressors, scorers

if TYPE_CHECKING:
    from brace.erecap import Engine

RATIO = 0.7
"""The keep ratio of the ranking pass; only the order it gives matters here."""


@compressors.register("erecap")
class Erecap(ScoringCompressor):
    """`model` is a folder, `smollm2`, or a loaded model (then with its `tokenizer`)."""

    name = "erecap"

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        scorer: str = "attention",
        options: Mapping[str, Any] | None = None,
        granularity: Granularity = "segment",
    ) -> None:
        super().__init__(granularity)
        from brace.erecap import Engine  # noqa: PLC0415 - an extra

        if isinstance(model, str):
            from brace.erecap.models import load_model  # noqa: PLC0415

            model, tokenizer = load_model(model)
        self._engine: Engine = Engine(model, scorers.create(scorer, options))
        self._tokenizer = tokenizer

    def segment_score(self, scores: Scores) -> float:
        """The mean over its tokens: one bright word must not save a long line."""
        return float(scores.mean())

    def score(self, lines: Sequence[Line], request: CompressRequest) -> Sequence[Scores]:
        """Worth by characters, read off at the planner's tokens."""
        scores = []
        for line, worth in zip(lines, self._worth_by_line(lines), strict=True):
            spans = line.spans(request.tokenizer)
            scores.append(
                np.array([worth[start : max(end, start + 1)].max(initial=0.0) for start, end in spans])
            )
        return scores

    def _worth_by_line(self, lines: Sequence[Line]) -> list[Scores]:
        """Each line's characters' worth. A context longer than the model reads is taken in parts, each after
        the head (task, goal, safety), so that every part is read in their light."""
        head = [index for index, line in enumerate(lines) if line.segment.kind in HEAD_KINDS]
        body = [index for index in range(len(lines)) if index not in set(head)]
        sizes = [len(self._tokenizer(line.text, add_special_tokens=False).input_ids) for line in lines]
        room = self._engine.backbone.max_positions - sum(sizes[index] for index in head)
        worth = [np.zeros(len(line.text)) for line in lines]
        for part in _parts(body, sizes, room):
            shown = head + part
            if not shown:
                continue
            texts = [lines[index].text for index in shown]
            values = self._worth("".join(texts))
            ends = np.cumsum([len(text) for text in texts])
            for index, piece in zip(shown, np.split(values, ends[:-1]), strict=True):
                worth[index] = piece
        return worth

    def _worth(self, text: str) -> Scores:
        """One reading: (layers lived + rank among the living) for each character."""
        import torch  # noqa: PLC0415 - an extra

        from brace.erecap import Keep  # noqa: PLC0415

        encoded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        if not encoded.input_ids:
            return np.zeros(len(text))
        ids = torch.tensor([encoded.input_ids[: self._engine.backbone.max_positions]])
        ranks = self._engine.prefill(ids, keep=Keep(ratio=RATIO)).worth[0].tolist()
        worth = np.zeros(len(text))
        for (start, end), value in zip(encoded.offset_mapping, ranks, strict=False):
            worth[start:end] = np.maximum(worth[start:end], value)
        return worth


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
