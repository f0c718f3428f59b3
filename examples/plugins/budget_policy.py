"""A budget policy: how much a call may spend. Pure: what it needs of the past is in `state`.

brace run rehearsal -n 1 --import examples/plugins/budget_policy.py -s budget.policy=thrifty
"""

from dataclasses import dataclass

from brace.controller import BudgetPolicy
from brace.registry import budget_policies


@budget_policies.register("thrifty")
@dataclass(frozen=True)
class Thrifty(BudgetPolicy):
    """The ordinary mode, unless the last calls were quick enough to afford the escalated one."""

    quick_ms: float = 40.0
    """A mean latency below this affords it."""

    def select(self, decision, state):
        """The budget of the call that was just decided."""
        recent = state.latencies_ms[-4:]
        quick = bool(recent) and sum(recent) / len(recent) < self.quick_ms
        return self.modes[self.escalated if quick and self.escalated in self.modes else self.mode]
