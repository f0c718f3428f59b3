"""The drones in the air: the plan moves them, physics decides, and the log tells what happened."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from brace.context import ContextBuffer, Segment, WordTokenizer, plan_template
from brace.errors import ConfigError
from brace.loop.core import tell_plan
from brace.plan import Plan, parse
from brace.registry import worlds
from brace.worlds.drones import DronesWorld
from brace.worlds.drones.airspace import departure, parking
from brace.worlds.drones.scenario import DIFFICULTIES, DISTURBANCES, GoalChange, Scenario, draw_scenario
from brace.worlds.drones.world import IDLE_S

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("PyFlyt") is None, reason="needs the extra 'drones' (PyFlyt)"
)


@pytest.fixture(scope="module")
def calm() -> Iterator[DronesWorld]:
    """Two drones, nothing comes between."""
    world = DronesWorld(agents=2, disturbance="none")
    yield world
    world.close()


@pytest.fixture(scope="module")
def rough() -> Iterator[DronesWorld]:
    """Three drones, everything comes between."""
    world = DronesWorld(agents=3, disturbance="normal")
    yield world
    world.close()


def start(world: DronesWorld, seed: int, plan: str = "") -> list[str]:
    world.reset(seed)
    if plan:
        assert world.apply(parse(plan, world.skills)) is None
    return [segment.text for segment in world.observe()]


def fly(world: DronesWorld, until: Callable[[], bool], *, hold: bool = False) -> list[Segment]:
    """Step until something holds or the time is over; all that was said."""
    said: list[Segment] = []
    for _ in range(world.max_steps):
        if until() or world.finished():
            break
        world.step(hold=hold)
        said += world.observe()
    return said


def after(steps: int) -> Callable[[], bool]:
    """Whether it was asked more often than this."""
    left = iter(range(steps))
    return lambda: next(left, None) is None


def texts(said: list[Segment]) -> list[str]:
    return [segment.text for segment in said]


def meeting() -> tuple[int, tuple[int, int]]:
    """A seed whose two drones meet if they fly on one layer, and their goals."""
    times = np.arange(0.0, 12.0, 0.05)[:, None]
    for seed in range(1, 2000):
        scenario = calm_scenario(seed)
        places = []
        for drone in (0, 1):
            begin = departure(scenario.starts[drone])
            way = parking(scenario.goals[drone]) - begin
            length = np.linalg.norm(way)
            places.append(begin + way / length * np.minimum(scenario.speeds[drone] * times, length))
        if np.linalg.norm(places[0] - places[1], axis=1).min() < 0.1:
            return seed, (scenario.goals[0], scenario.goals[1])
    raise AssertionError("no such seed")


def calm_scenario(seed: int) -> Scenario:
    return draw_scenario(seed, 2, DIFFICULTIES["normal"], DISTURBANCES["none"])


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    DronesWorld(agents=1, disturbance="none").close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "option", [{"agents": 0}, {"agents": 9}, {"difficulty": "mad"}, {"disturbance": "some"}]
)
def test_a_wrong_option_is_refused_with_a_remedy(option: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"choose|known"):
        worlds.create("drones-v1", option)


def test_the_plan_and_not_the_goal_decides_where_a_drone_flies(calm: DronesWorld) -> None:
    told = start(calm, 3)
    goal = next(int(text[-1]) for text in told if text.startswith("drone 0 flies"))
    other = goal % 8 + 1
    assert calm.apply(parse(f"0: goto(gate {other})", calm.skills)) is None
    said = fly(calm, lambda: calm.rest().is_empty)
    assert f"arrived at gate {other}" in texts(said)
    assert not calm.success()
    assert calm.figures()["arrived"] == 0


def test_a_layer_is_taken_at_once_told_once_and_flown_to(calm: DronesWorld) -> None:
    told = start(calm, 3)
    layer = next(int(text.split()[4]) for text in told if text.startswith("at "))
    other = layer % 6 + 1
    assert calm.apply(parse(f"0: layer({other}); hold(3)", calm.skills)) is None
    said = texts(fly(calm, after(30)))
    assert said.count(f"layer {other} taken") == 1
    assert any(text.startswith("at ") and f"layer {other} waiting" in text for text in said)
    pixels = calm.frame()
    assert calm.apply(parse(f"0: layer({layer}); hold(3)", calm.skills)) is None
    fly(calm, after(25))
    assert pixels.dtype == np.uint8
    assert pixels.shape[2] == 3
    assert (pixels != calm.frame()).any()


def test_drones_on_one_layer_collide_and_on_two_they_pass(calm: DronesWorld) -> None:
    seed, (first, second) = meeting()
    open_layers = sorted(set(range(1, 7)) - calm_scenario(seed).closed)
    low, high = open_layers[:2]
    start(calm, seed, f"0: layer({low}); goto(gate {first})\n1: layer({low}); goto(gate {second})")
    said = fly(calm, calm.finished)
    assert calm.figures()["collisions"] == 1
    assert calm.finished()
    assert not calm.success()
    assert "touched something and is down" in texts(said)
    start(calm, seed, f"0: layer({low}); goto(gate {first})\n1: layer({high}); goto(gate {second})")
    fly(calm, calm.finished)
    assert calm.success()
    assert calm.figures()["collisions"] == 0


def test_staying_in_a_closed_layer_loses_the_episode_and_is_critical_once(calm: DronesWorld) -> None:
    closed = min(calm_scenario(3).closed)
    start(calm, 3, f"0: layer({closed}); hold(20)\n1: layer({closed}); hold(20)")
    hazards = []
    while not calm.finished():
        calm.step(hold=False)
        hazards.append(calm.events().hazard)
    assert calm.figures()["closed_layer_s"] == pytest.approx(4.0, abs=0.2)
    assert not calm.success()
    assert hazards.count("critical") == 1
    assert hazards[0] == "critical"
    assert "warning" in hazards


def test_a_drone_that_yields_waits_until_the_other_has_passed(calm: DronesWorld) -> None:
    seed, (first, second) = meeting()
    layer = next(int(text.split()[4]) for text in start(calm, seed) if text.startswith("at "))
    plan = f"0: layer({layer}); goto(gate {first})\n1: layer({layer}); goto(gate {second})"
    assert calm.apply(parse(plan, calm.skills)) is None
    fly(calm, lambda: calm.events().divergence > 0)
    waiting = plan.replace(f"goto(gate {second})", f"yield(drone 0); goto(gate {second})")
    assert calm.apply(parse(waiting, calm.skills)) is None
    said = fly(calm, calm.finished)
    assert "drone 0 has passed" in texts(said)
    assert calm.success()


def test_holding_stops_the_drones_and_nothing_else(rough: DronesWorld) -> None:
    start(rough, 2, "0: goto(gate 1)\n1: goto(gate 2)\n2: goto(gate 3)")
    fly(rough, after(5))
    said = fly(rough, after(80), hold=True)
    assert {segment.text.split()[0] for segment in said if segment.kind == "message"} >= {"layer", "intruder"}
    still = [
        segment.text
        for segment in said
        if segment.agent == 0 and segment.step > 40 and "speed" in segment.text
    ]
    assert still
    assert all("waiting" in text for text in still)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ("0: goto(gate 1)\n1: goto(gate 1)", "gate 1 is given to drone 0 and drone 1"),
        ("0: yield(drone 0)", "cannot yield to itself"),
        ("0: yield(drone 1)\n1: yield(drone 0)", "yield to each other"),
        ("0: hold(0)", "more than 0"),
        ("0: hold(999)", "at most 20"),
        ("0: goto(gate 9)", "unknown gate"),
        ("0: yield(drone 7)", "unknown other"),
    ],
)
def test_a_refused_plan_is_told_and_leaves_the_old_one(calm: DronesWorld, plan: str, reason: str) -> None:
    start(calm, 3, "0: hold(5)")
    refusal, [segment] = tell_plan(calm, parse(plan), 0)
    assert refusal is not None
    assert reason in refusal
    assert str(calm.rest()) == "hold(5)"
    assert not calm.observe()
    assert segment.kind == "failure"
    assert reason in segment.text


def test_a_changed_goal_is_signalled_once(rough: DronesWorld) -> None:
    start(rough, 2, "0: hold(20)")
    scenario = draw_scenario(2, 3, DIFFICULTIES["normal"], DISTURBANCES["normal"])
    change = next(event for event in scenario.happenings if isinstance(event, GoalChange))
    said = fly(rough, lambda: rough.events().goal_changed, hold=True)
    assert f"drone {change.drone}: fly to gate {change.gate} instead" in texts(said)
    rough.step(hold=True)
    assert not rough.events().goal_changed


def test_a_drone_without_anything_to_do_is_a_deadlock_but_not_while_it_is_held(calm: DronesWorld) -> None:
    start(calm, 3, "0: hold(0.2)\n1: hold(20)")
    steps = round(IDLE_S / calm.dt) + 4
    fly(calm, after(steps), hold=True)
    assert not calm.events().deadlock
    fly(calm, after(steps))
    assert calm.events().deadlock


def test_a_yield_that_never_ends_fails_and_the_rest_of_the_line_is_dropped(calm: DronesWorld) -> None:
    seed, (first, second) = meeting()
    start(calm, seed, f"0: goto(gate {first})\n1: goto(gate {second})")
    fly(calm, lambda: calm.events().divergence > 0)
    assert calm.apply(parse(f"0: hold(20)\n1: yield(drone 0); goto(gate {second})", calm.skills)) is None
    said = fly(calm, lambda: calm.events().failed)
    assert calm.events().failed
    assert "drone 0 did not pass in time" in [segment.text for segment in said if segment.kind == "failure"]
    assert calm.rest().of(1) == ()


def test_a_reader_of_the_whole_log_succeeds_where_the_first_plan_alone_does_not(rough: DronesWorld) -> None:
    template = plan_template(rough.skills.describe())

    def episode(replan: bool) -> tuple[bool, ContextBuffer]:
        buffer = ContextBuffer(WordTokenizer())
        rough.reset(4)
        for t in range(rough.max_steps):
            if rough.finished():
                break
            buffer.extend(rough.observe())
            events = rough.events()
            reasons = (events.divergence, events.hazard, events.goal_changed, events.failed, events.deadlock)
            if t == 0 or (replan and (any(reasons) or rough.rest().is_empty)):
                plan: Plan = rough.read(template.render(buffer.lines()))
                refusal, told = tell_plan(rough, plan, t)
                assert refusal is None
                buffer.extend(told)
            rough.step(hold=False)
        return rough.success(), buffer

    assert episode(replan=False)[0] is False
    succeeded, buffer = episode(replan=True)
    assert succeeded
    assert buffer.tokens > 1000
    plans = [line.text for line in buffer.lines() if line.segment.kind == "plan"]
    assert len(plans) == len(set(plans)) > 1
