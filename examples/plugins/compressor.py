"""A compressor: lines with rare words are worth more. It writes `score()`; budgets are not its business.

brace run rehearsal -n 1 --import examples/plugins/compressor.py -s modes.pruned.compress=rare-words
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from brace.callpath.compress import ScoringCompressor
from brace.registry import compressors


@compressors.register("rare-words")
@dataclass(eq=False)
class RareWords(ScoringCompressor):
    """What is said seldom is kept."""

    name = "rare-words"
    shortest: int = 4
    """Words with fewer letters do not count."""

    def score(self, lines, call):
        """One array a line, a score for each of its tokens."""
        words = [[word for word in line.text.split() if len(word) >= self.shortest] for line in lines]
        often = Counter(word for line in words for word in line)
        worth = [max((1 / often[word] for word in line), default=0.0) for line in words]
        return [
            np.full(len(line.spans(call.tokenizer)), value) for line, value in zip(lines, worth, strict=True)
        ]
