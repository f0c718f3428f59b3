"""The three worlds: the plan moves the arms, the world does not wait, and it says what happened."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from arms_kit import read_through, run, texts, until

from brace.loop.core import tell_plan
from brace.plan import parse
from brace.worlds import WorldInfo
from brace.worlds.arms import HandoverWorld, LiftWorld, PegWorld
from brace.worlds.arms.world import ArmsWorld

pytest.importorskip("robosuite")

SEED = 4


@pytest.fixture(scope="module")
def lift() -> Iterator[LiftWorld]:
    world = LiftWorld()
    yield world
    world.close()


@pytest.fixture(scope="module")
def handover() -> Iterator[HandoverWorld]:
    world = HandoverWorld()
    yield world
    world.close()


@pytest.fixture(scope="module")
def peg() -> Iterator[PegWorld]:
    world = PegWorld()
    yield world
    world.close()


@pytest.fixture(params=["lift", "handover", "peg"])
def world(request: pytest.FixtureRequest) -> ArmsWorld:
    found: ArmsWorld = request.getfixturevalue(request.param)
    return found


def undisturbed(world: LiftWorld | HandoverWorld | PegWorld) -> None:
    """Begin an episode in which nobody bumps into anything."""
    world.reset(SEED)
    world._bumps.clear()


def test_a_reader_reaches_the_goal_under_disturbances(world: ArmsWorld) -> None:
    read_through(world, SEED, world.read)
    assert world.success()
    figures = world.figures()
    assert set(figures) == {"drops", "bumps", "refusals", "collisions", "path_mm"}
    assert figures["path_mm"] > 300


def test_a_plan_learnt_by_heart_does_not(world: ArmsWorld) -> None:
    world.reset(1_000_000)
    memory = world.truth_plan()
    world.reset(SEED)
    for _ in range(110):
        world.observe()
        if world.events().failed or world.rest().is_empty:
            world.apply(memory)
        world.step(hold=False)
        assert not world.success()


def test_a_picture_is_drawn(world: ArmsWorld) -> None:
    frame = world.frame()
    assert frame.shape == (360, 480, 3)
    assert frame.std() > 10


def test_its_description_is_known_without_a_simulator(world: ArmsWorld) -> None:
    assert isinstance(type(world).info, WorldInfo)
    assert world.info.real
    assert world.info.extra == "arms"


def test_a_refused_plan_is_reported_and_the_old_one_stays(world: ArmsWorld) -> None:
    world.reset(SEED)
    skill = world.skills.names[0]
    assert world.apply(parse("0: wait()")) is None
    problem, told = tell_plan(world, parse(f"0: {skill}(9999, 0, 900, 0)"), 0)
    assert problem is not None
    assert "x is" in problem
    assert world.rest() == parse("0: wait()")
    assert f"plan refused: {problem}" in [segment.text for segment in told]
    assert world.figures()["refusals"] == 1


def test_holding_stops_the_arms_and_nothing_else(lift: LiftWorld) -> None:
    lift.reset(SEED)
    lift.apply(lift.truth_plan())
    at = [arm.pose.position for arm in lift.arms]
    said = texts(lift, 120, hold=True)
    assert all(np.allclose(arm.pose.position, old, atol=2e-3) for arm, old in zip(lift.arms, at, strict=True))
    assert lift.figures()["bumps"] >= 1
    assert any(text.startswith("lift to") for text in said)


def test_an_arm_that_reaches_beside_the_handle_holds_nothing_and_gets_stuck(lift: LiftWorld) -> None:
    undisturbed(lift)
    lift.apply(parse("0: reach(0, -250, 930, 90); grasp(); sync(); lift(150)"))
    failure = until(lift, "nothing between the fingers")
    assert (failure.kind, failure.agent) == ("failure", 0)
    assert lift.events().failed
    assert lift.rest().is_empty
    lift.step(hold=False)
    assert not lift.events().failed
    list(run(lift, 25))
    assert lift.events().deadlock
    lift.apply(parse("0: wait()"))
    lift.step(hold=False)
    assert not lift.events().deadlock


def test_what_is_seen_elsewhere_contradicts_the_plan(lift: LiftWorld) -> None:
    lift.reset(SEED)
    lift.apply(lift.truth_plan())
    for _ in range(200):
        bumps = lift.figures()["bumps"]
        lift.step(hold=True)
        if lift.figures()["bumps"] > bumps:
            break
    else:
        pytest.fail("nothing was bumped")
    diverged = [lift.events().divergence]
    for _ in range(3):
        lift.step(hold=True)
        diverged.append(lift.events().divergence)
    assert sum(diverged) == 1.0
    assert "handle at" in " ".join(segment.text for segment in lift.observe())


def test_only_arm_1_can_hold_the_hot_handle(lift: LiftWorld) -> None:
    undisturbed(lift)
    hot = next(text for text in texts(lift, 40) if text.endswith("is hot")).split()[1]
    # Turn the pot, so that arm 0 can reach the handle it must not touch.
    lift._pot.stand(lift._pot.position, lift._pot.yaw + 180.0)
    x, y, z, yaw = lift._pot.handles()[hot]
    lift.apply(parse(f"0: reach({x}, {y}, {z}, {yaw}); grasp()"))
    assert until(lift, "handle is hot").kind == "failure"
    assert not lift.arms[0].holding


def test_an_arm_that_waits_in_vain_gives_up(lift: LiftWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brace.worlds.arms.world.SYNC_STEPS", 15)
    lift.reset(SEED)
    lift.apply(parse("0: sync()"))
    assert until(lift, "the other arm did not come", 20).agent == 0


def test_two_arms_at_one_place_are_refused(lift: LiftWorld) -> None:
    lift.reset(SEED)
    assert "apart" in (lift.apply(parse("0: reach(0, 0, 930, 0)\n1: reach(0, 20, 930, 0)")) or "")


def test_the_oily_grip_does_not_hold(handover: HandoverWorld) -> None:
    undisturbed(handover)
    said = texts(handover, 70)
    oily = [text.split() for text in said if text.endswith("is oily")][-1][-3]
    x, y, z, yaw = handover._hammer.grips()[oily]
    handover.apply(parse(f"0: reach({x}, {y}, {z}, {yaw}); grasp(); present(0, -60, 1100)"))
    assert until(handover, "oily grip").kind == "failure"
    assert handover.figures()["drops"] == 1


def test_the_wrist_has_its_range(handover: HandoverWorld) -> None:
    handover.reset(SEED)
    assert "yaw is -115 to 115" in (handover.apply(parse("0: reach(0, -450, 820, 150)")) or "")
    assert "only arm 0" in (handover.apply(parse("1: present(0, -60, 1100)")) or "")


def test_an_occupied_meeting_place_sends_the_board_home(peg: PegWorld) -> None:
    peg.reset(SEED)
    said = texts(peg, 40, hold=True)
    name = next(text for text in said if text.endswith("is occupied")).split()[2]
    place = next(text for text in said if text.startswith(f"meeting place {name} is at"))
    x, y, z, tilt = (place.split()[index] for index in (5, 6, 7, 9))
    peg.apply(parse(f"1: align({x}, {y}, {z}, {tilt})"))
    assert until(peg, f"meeting place {name} is occupied").kind == "failure"


def test_a_board_beside_a_meeting_place_is_sent_home(peg: PegWorld) -> None:
    undisturbed(peg)
    x, y, z, tilt = (int(value) for value in peg.truth_plan().of(1)[0].args)
    peg.apply(parse(f"1: align({x + 9}, {y}, {z}, {tilt})"))
    assert until(peg, "there is no meeting place").kind == "failure"


def test_a_peg_beside_the_hole_is_blocked_or_does_not_count(peg: PegWorld) -> None:
    undisturbed(peg)
    place = peg.truth_plan().of(1)[0]
    x, y, z, tilt = (int(value) for value in place.args)
    peg.apply(parse(f"0: align({x + 70}, {y}, {z}, {tilt}); sync(); insert(90)\n1: {place}; sync(); wait()"))
    assert "align" in until(peg, "align").text
    list(run(peg, 110))
    assert not peg.success()


def test_inserting_needs_an_aligned_peg(peg: PegWorld) -> None:
    peg.reset(SEED)
    peg.apply(parse("0: insert(50)"))
    assert "not aligned" in until(peg, "insert failed", 5).text
    assert "only arm 0" in (peg.apply(parse("1: insert(50)")) or "")
