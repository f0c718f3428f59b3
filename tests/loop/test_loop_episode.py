"""Thinking costs world time; a plan is executed; what goes wrong falls back and is written down."""

from __future__ import annotations

from typing import Any

import pytest

from brace.callpath import CallPath, Fit, Mode
from brace.callpath.compress import NoCompression
from brace.context import plan_template
from brace.controller import Budget, Controller, ControllerConfig, FixedPolicy
from brace.ledger.records import Call, Episode, Record, Step
from brace.loop.clocks import ModelledClock, WallClock
from brace.loop.config import LoopConfig
from brace.loop.core import LoopCore
from brace.loop.episode import EpisodeLoop
from brace.planners import FunctionPlanner, PlannerPool
from fake_world import SKILLS, FakeLine


class Ledger:
    def __init__(self) -> None:
        self.records: list[Record] = []

    def write(self, record: Record) -> None:
        self.records.append(record)

    def of(self, kind: type[Any]) -> list[Any]:
        return [record for record in self.records if isinstance(record, kind)]


def play(
    world: FakeLine,
    *,
    answer: Any = "goto(5)",
    latency_ms: float = 0.0,
    hold: bool = True,
    controller: ControllerConfig | None = None,
    slo_ms: float | None = None,
    settings: LoopConfig | None = None,
    clock: Any = None,
) -> tuple[Episode, Ledger]:
    planner = FunctionPlanner(answer if callable(answer) else lambda prompt: answer)
    mode = Mode(plan_template(SKILLS.describe()), (Fit(NoCompression()),))
    path = CallPath(PlannerPool(planner), {"full": mode}, SKILLS)
    policy = FixedPolicy({"full": Budget("full", None, slo_ms)}, mode="full")
    ledger = Ledger()
    rules = Controller(controller or ControllerConfig(), policy)
    core: LoopCore[Any] = LoopCore(rules, path, ledger, settings or LoopConfig())
    loop = EpisodeLoop(core, world, clock or ModelledClock(latency_ms, 0.0), hold=hold)
    return loop.run(0, seed=1), ledger


def test_an_instant_plan_is_executed_to_success() -> None:
    episode, ledger = play(FakeLine(goal=5))
    assert (episode.success, episode.steps) == (True, 5)
    (call,) = ledger.of(Call)
    assert (call.status, call.changed, call.t, call.t_end, call.plan) == ("ok", True, 0, 0, "goto(5)")


def test_every_step_has_a_record_with_its_trigger_and_reason() -> None:
    _, ledger = play(FakeLine(goal=5, events={2: {"failed": True}}), controller=ControllerConfig(cooldown=4))
    steps = ledger.of(Step)
    assert [step.t for step in steps] == list(range(len(steps)))
    assert (steps[0].triggers, steps[0].replan) == (("exhausted",), True)
    assert (steps[2].triggers, steps[2].replan, steps[2].gate) == (("failure",), False, "cooldown")


@pytest.mark.parametrize(("latency_ms", "steps"), [(0, 0), (24, 0), (26, 1), (100, 2), (520, 10)])
def test_thinking_costs_world_steps_while_holding(latency_ms: float, steps: int) -> None:
    world = FakeLine(goal=5, dt=0.05)
    episode, ledger = play(world, latency_ms=latency_ms, hold=True)
    assert world.held == steps
    assert episode.steps == 5 + steps
    (call,) = ledger.of(Call)
    assert call.t_end - call.t == steps
    assert call.wait_ms == pytest.approx(latency_ms)


def test_a_slow_call_can_cost_the_success() -> None:
    assert play(FakeLine(goal=5, max_steps=12), latency_ms=100)[0].success
    assert not play(FakeLine(goal=5, max_steps=12), latency_ms=600)[0].success


def test_a_bad_plan_costs_the_success() -> None:
    assert not play(FakeLine(goal=5, max_steps=12), answer="goto(-5)")[0].success


def test_while_continuing_the_old_plan_is_executed_and_triggers_are_in_flight() -> None:
    world = FakeLine(goal=9, events={3: {"failed": True}})
    plans = iter(["goto(8)", "goto(9)"])
    episode, ledger = play(world, answer=lambda prompt: next(plans), latency_ms=200, hold=False)
    first, second = ledger.of(Call)
    # No plan yet: it stands still, and that is a wait. Then it walks on while the second call, which answers
    # the failure during the first, runs.
    assert (first.t, first.t_end, first.wait_ms) == (0, 4, 200.0)
    assert (second.t, second.t_end, second.wait_ms) == (4, 8, 0.0)
    assert second.triggers == ("failure",)
    flying = [step for step in ledger.of(Step) if step.gate == "in_flight"]
    assert [step.t for step in flying] == [1, 2, 3]
    assert episode.success
    assert episode.steps == 4 + 9


def test_a_critical_hazard_cancels_the_call_in_flight_and_asks_again() -> None:
    world = FakeLine(goal=5, events={2: {"hazard": "critical"}})
    _, ledger = play(world, latency_ms=250, hold=True, controller=ControllerConfig(cooldown=10))
    cancelled, answered = ledger.of(Call)
    assert (cancelled.status, cancelled.t, cancelled.t_end, cancelled.latency_ms) == (
        "cancelled",
        0,
        2,
        100.0,
    )
    assert cancelled.fallback is None
    assert (answered.status, answered.t, answered.override) == ("ok", 2, "hazard")
    assert ledger.of(Step)[2].cancel == "hazard"


def test_a_goal_change_cancels_only_through_an_open_gate() -> None:
    events = {2: {"goal_changed": True}}
    _, through = play(FakeLine(events=events), latency_ms=250)
    assert [call.status for call in through.of(Call)] == ["cancelled", "ok"]
    _, closed = play(FakeLine(events=events), latency_ms=250, controller=ControllerConfig(cooldown=10))
    assert [call.status for call in closed.of(Call)] == ["ok"]


def test_a_call_still_running_at_the_end_is_logged_as_cancelled() -> None:
    _, ledger = play(FakeLine(max_steps=5), latency_ms=2000)
    (call,) = ledger.of(Call)
    assert (call.status, call.error) == ("cancelled", "cancelled: the episode ended")


@pytest.mark.parametrize(
    ("ladder", "stored", "had_plan", "expected"),
    [
        (("keep", "stored", "stop"), "", True, "keep"),
        (("keep", "stored", "stop"), "", False, "stop"),
        (("keep", "stored", "stop"), "goto(1)", False, "stored"),
        (("stored", "keep", "stop"), "goto(1)", True, "stored"),
        (("stop",), "goto(1)", True, "stop"),
        (("stored",), "", True, "stop"),
    ],
)
def test_the_fallback_is_the_first_possible_rung(
    ladder: Any, stored: str, had_plan: bool, expected: str
) -> None:
    answers = iter(["goto(5)", "nonsense"] if had_plan else ["nonsense"])
    world = FakeLine(goal=5, max_steps=4, events={2: {"failed": True}} if had_plan else {})
    settings = LoopConfig(fallback=ladder, stored_plan=stored)
    triggers = ControllerConfig(cooldown=2 if had_plan else 50)
    _, ledger = play(world, answer=lambda prompt: next(answers), settings=settings, controller=triggers)
    call = ledger.of(Call)[-1]
    assert (call.status, call.fallback) == ("unparsable", expected)
    assert world.stops == (expected == "stop")
    assert call.plan == (stored if expected == "stored" else "")


def test_a_refused_plan_is_logged_with_its_reason_and_falls_back() -> None:
    _, ledger = play(FakeLine(max_steps=3, refuse="there is a wall"), controller=ControllerConfig(cooldown=9))
    assert ledger.of(Step)[1].triggers == ("failure", "exhausted"), "a refused plan is a failure trigger"
    (call,) = ledger.of(Call)
    assert (call.status, call.error, call.fallback, call.changed) == (
        "refused",
        "there is a wall",
        "stop",
        False,
    )


def test_a_modelled_call_over_its_slo_is_cut_and_missed() -> None:
    _, ledger = play(
        FakeLine(max_steps=3), latency_ms=300, slo_ms=100, controller=ControllerConfig(cooldown=9)
    )
    (call,) = ledger.of(Call)
    assert (call.status, call.missed, call.latency_ms, call.kind) == ("cut", True, 100, "modelled")


def test_without_enforcement_a_late_plan_is_used_and_still_a_miss() -> None:
    settings = LoopConfig(enforce_deadline=False)
    episode, ledger = play(FakeLine(), latency_ms=300, slo_ms=100, settings=settings)
    (call,) = ledger.of(Call)
    assert (call.status, call.missed, call.latency_ms) == ("ok", True, 300)
    assert episode.success


def test_the_wall_clock_measures_and_has_every_phase() -> None:
    _, ledger = play(FakeLine(), clock=WallClock())
    (call,) = ledger.of(Call)
    assert call.kind == "measured"
    names = [phase.name for phase in call.phases]
    assert names == [
        "sense", "trigger_eval", "stability_gate", "budget_select", "context_compress",
        "replan", "replan.queue", "replan.prefill", "replan.decode", "execute", "accounting",
    ]  # fmt: skip
    starts = [phase.start_ms for phase in call.phases if "." not in phase.name]
    assert starts == sorted(starts)
    assert starts[3] < 0 <= starts[4]


def test_an_equal_plan_is_no_change() -> None:
    world = FakeLine(goal=9, events={2: {"failed": True}})
    _, ledger = play(world, answer="goto(9.0)")
    assert [(call.status, call.changed) for call in ledger.of(Call)] == [("ok", True), ("ok", False)]
