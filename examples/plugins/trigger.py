"""A trigger: a reason to replan of your own. This one asks when nobody has asked for a while.

brace run rehearsal -n 1 --import examples/plugins/trigger.py -s "controller.triggers=[exhausted, stale]"
"""

from brace.controller import Trigger
from brace.registry import triggers

PATIENCE = 30

# What a world of yours measures comes in `signals.readings`, by name.
triggers.add(
    "stale",
    Trigger(lambda config, state, signals: state.since_call >= PATIENCE, doc="no call for 30 steps"),
)
