"""Keep the newest: what agents do by default, and the baseline to beat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from brace.callpath.call import OpenCall
from brace.callpath.compress.base import Scores, ScoringCompressor
from brace.context import Line
from brace.registry import compressors


@compressors.register("recency")
class Recency(ScoringCompressor):
    """The later a token stands, the more it is worth."""

    name = "recency"

    def score(self, lines: Sequence[Line], call: OpenCall) -> Sequence[Scores]:
        """Its place in the context."""
        ends = np.cumsum([len(line.spans(call.tokenizer)) for line in lines])
        starts = np.concatenate([[0], ends])[: len(lines)]
        return [np.arange(start, end, dtype=np.float64) for start, end in zip(starts, ends, strict=True)]
