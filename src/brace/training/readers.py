"""The perfect readers without their simulators: what labels a lesson, on any machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from brace.errors import UnknownNameError
from brace.plan import Plan
from brace.training.logs import Log
from brace.worlds.babyai import reading as babyai
from brace.worlds.drones import reading as drones

_READERS: dict[str, Callable[[int], Callable[[str], Plan]]] = {
    "babyai-v1": lambda agents: partial(babyai.read, agents=agents),
    "drones-v1": lambda agents: partial(drones.read, agents=agents),
}


def reader_of(log: Log) -> Callable[[str], Plan]:
    """The reader of the log's world and team."""
    if log.world not in _READERS:
        raise UnknownNameError("reader of world", log.world, _READERS)
    return _READERS[log.world](log.agents)
