"""A scorer: which tokens live on inside a model that prunes as it reads. Needs the extra `local`.

brace run babyai-v1 -n 1 --import examples/plugins/scorer.py -s world.options.agents=1 \
    -s world.options.difficulty=easy -s planner.name=embedded -s planner.options.scorer=every-other \
    -s modes.full.compress=in-model -s modes.full.tokens=300 -s loop.allow_floor_overrun=true
"""

from dataclasses import dataclass

from brace.erecap.scorers import Scorer
from brace.registry import scorers


@scorers.register("every-other")
@dataclass(eq=False)
class EveryOther(Scorer):
    """Tokens at even positions go first, the older ones before the newer."""

    name = "every-other"

    def score(self, given):
        """[batch, tokens]: the higher, the longer a token lives."""
        return given.positions + 1e6 * (given.positions % 2)
