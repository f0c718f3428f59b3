"""Keep at random: the floor under every method that claims to choose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from brace.callpath.call import OpenCall
from brace.callpath.compress.base import Scores, ScoringCompressor
from brace.context import Line
from brace.registry import compressors


@compressors.register("random")
class Random(ScoringCompressor):
    """A seeded draw: the same call makes the same selection."""

    name = "random"

    def score(self, lines: Sequence[Line], call: OpenCall) -> Sequence[Scores]:
        """Uniform. By segment the draw is one a line, so that long lines have no better chance."""
        draw = np.random.default_rng(call.seed)
        if self.granularity == "segment":
            return [draw.random(1) for _ in lines]
        return [draw.random(len(line.spans(call.tokenizer))) for line in lines]
