"""What the agent does when no plan came: the first rung of the ladder that is possible."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from brace.callpath import CallPath, Fit, Mode
from brace.callpath.compress import NoCompression
from brace.context import plan_template
from brace.controller import CallOutcome, Controller, ControllerConfig, FixedPolicy, Signals
from brace.controller.signals import Budget
from brace.errors import UnknownNameError
from brace.ledger.records import Call, Record
from brace.loop.config import LADDER, LoopConfig
from brace.loop.core import LoopCore
from brace.plan import parse
from brace.planners import FunctionPlanner, PlannerPool
from fake_world import SKILLS, FakeLine


def settled(settings: LoopConfig, *, has_plan: bool, refuse: str | None = None) -> tuple[Call, FakeLine]:
    """One call whose planner raises, in a world that has a plan or has not."""

    def fail(prompt: str) -> str:
        raise RuntimeError("no answer")

    written: list[Record] = []

    class Ledger:
        def write(self, record: Record) -> None:
            written.append(record)

    path = CallPath(
        PlannerPool(FunctionPlanner(fail)),
        {"full": Mode(plan_template(), (Fit(NoCompression()),))},
        SKILLS,
    )
    policy = FixedPolicy({"full": Budget("full", None, None)}, mode="full")
    core: LoopCore[Any] = LoopCore(Controller(ControllerConfig(), policy), path, Ledger(), settings)
    world = FakeLine(goal=9)
    if has_plan:
        world.apply(parse("goto(3)", SKILLS))
    world._refuse = refuse
    core.sense(world.observe())
    call = core.path.run(core.open_call(core.decide(Signals(goal_changed=True))))
    outcome = core.settle(call, world, "measured", still_ms=0.0)
    assert isinstance(outcome, CallOutcome)
    record = written[-1]
    assert isinstance(record, Call)
    return record, world


@pytest.mark.parametrize(
    ("ladder", "has_plan", "has_stored", "chosen"),
    [
        (("keep", "stored", "stop"), True, True, "keep"),
        (("keep", "stored", "stop"), False, True, "stored"),
        (("keep", "stored", "stop"), False, False, "stop"),
        (("stored", "keep"), True, True, "stored"),
        (("stored", "keep"), True, False, "keep"),
        (("stop", "keep"), True, True, "stop"),
        (("keep",), False, True, "stop"),
        ((), True, True, "stop"),
    ],
)
def test_the_first_possible_rung_is_taken_and_stopping_is_always_possible(
    ladder: Any, has_plan: bool, has_stored: bool, chosen: str
) -> None:
    settings = LoopConfig(fallback=ladder, stored_plan="goto(1)" if has_stored else "")
    call, world = settled(settings, has_plan=has_plan)
    assert (call.status, call.fallback) == ("failed", chosen)
    left = {"keep": "goto(3)", "stored": "goto(1)", "stop": ""}[chosen]
    assert str(world.rest()) == left
    assert world.stops == (chosen == "stop")
    assert call.plan == (left if chosen == "stored" else "")


def test_a_stored_plan_that_is_refused_stops_the_agent() -> None:
    call, world = settled(LoopConfig(stored_plan="goto(1)"), has_plan=False, refuse="not now")
    assert (call.fallback, world.stops) == ("stop", 1)


def test_every_order_of_known_rungs_is_accepted() -> None:
    for ladder in permutations(LADDER):
        LoopConfig(fallback=ladder)


def test_an_unknown_rung_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'stored'"):
        LoopConfig(fallback=("keep", "store"))  # type: ignore[arg-type]
