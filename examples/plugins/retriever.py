"""A retriever: what was learned before, told again where it belongs, inside the budget.

brace run rehearsal -n 1 --import examples/plugins/retriever.py -s modes.pruned.retrieve=house-rules
"""

from dataclasses import dataclass

from brace.callpath.retrieve import Retriever
from brace.registry import retrievers

RULES = {
    "block": "a blocked cart moves on after a minute at most",
    "fail": "a slip is soon over",
}


@retrievers.register("house-rules")
@dataclass(eq=False)
class HouseRules(Retriever):
    """A rule for each word of the newest line that has one."""

    name = "house-rules"
    reserve: int = 24
    """Tokens of the budget that compression leaves for them."""

    def retrieve(self, lines):
        """Best first; each is told if it still fits."""
        newest = lines[-1].text if lines else ""
        return [rule for word, rule in RULES.items() if word in newest]
