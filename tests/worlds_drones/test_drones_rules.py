"""What needs no simulator: what a seed decides, looking ahead, and the safety figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.worlds.drones.airspace import GATES, altitude, departure, parking
from brace.worlds.drones.flight import CLOSED_LIMIT_S, PASSAGE_S, SafetyRecord, Track
from brace.worlds.drones.monitor import TOO_CLOSE, find_crossings, find_hazards
from brace.worlds.drones.scenario import (
    DIFFICULTIES,
    DISTURBANCES,
    GoalChange,
    Intruder,
    LayerSwitch,
    draw_scenario,
)

SEEDS = st.integers(0, 10**6)
DT = 0.1


@settings(max_examples=25, deadline=None)
@given(
    seed=SEEDS,
    difficulty=st.sampled_from(sorted(DIFFICULTIES)),
    disturbance=st.sampled_from(sorted(DISTURBANCES)),
)
def test_as_many_layers_are_closed_as_the_difficulty_allows(
    seed: int, difficulty: str, disturbance: str
) -> None:
    fewest, most = DIFFICULTIES[difficulty].closed
    scenario = draw_scenario(seed, 4, DIFFICULTIES[difficulty], DISTURBANCES[disturbance])
    closed = set(scenario.closed)
    assert closed == {layer for layer, shut in dict(scenario.log).items() if shut}
    assert fewest <= len(closed) <= most
    assert not closed & set(scenario.layers)
    for switch in scenario.happenings:
        if isinstance(switch, LayerSwitch):
            assert (switch.layer in closed) != switch.closed
            closed ^= {switch.layer}
            assert fewest <= len(closed) <= most


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, agents=st.integers(1, 8))
def test_every_drone_has_a_gate_of_its_own_at_all_times(seed: int, agents: int) -> None:
    scenario = draw_scenario(seed, agents, DIFFICULTIES["normal"], DISTURBANCES["strong"])
    goals = list(scenario.goals)
    assert len(set(scenario.starts)) == agents
    assert len(set(goals)) == agents
    changes = [event for event in scenario.happenings if isinstance(event, GoalChange)]
    for index, change in enumerate(changes):
        assert goals[change.drone] != change.gate
        goals[change.drone] = change.gate
        if index + 1 == len(changes) or changes[index + 1].at > change.at:
            assert len(set(goals)) == agents
    assert bool(changes)


def test_disturbances_change_nothing_of_the_layout() -> None:
    calm, rough = (
        draw_scenario(5, 4, DIFFICULTIES["normal"], DISTURBANCES[name]) for name in ("none", "strong")
    )
    assert not calm.happenings
    assert rough.happenings
    assert (calm.starts, calm.goals, calm.layers, calm.log) == (
        rough.starts, rough.goals, rough.layers, rough.log,
    )  # fmt: skip


def test_intruders_pass_between_the_gates() -> None:
    """A drone that is parked, or has not left yet, is in no intruder's way."""
    for seed in range(40):
        scenario = draw_scenario(seed, 1, DIFFICULTIES["normal"], DISTURBANCES["strong"])
        for intruder in scenario.happenings:
            if isinstance(intruder, Intruder):
                way = intruder.start + np.linspace(0, 1, 200)[:, None] * (intruder.end - intruder.start)
                for gate in range(1, GATES + 1):
                    for place in (departure(gate), parking(gate)):
                        assert np.linalg.norm(way - place, axis=1).min() > TOO_CLOSE


def track(
    drone: int, x: float, y: float, to: tuple[float, float], z: float = 2.0, height: float = 2.0
) -> Track:
    return Track(drone, np.array([x, y, z]), np.array(to), 1.5, height)


def test_paths_cross_whatever_their_layers_but_only_if_both_come_at_one_time() -> None:
    east = track(0, -3, 0, (3, 0))
    north = track(1, 0, -3, (0, 3), z=4.4, height=4.4)
    later = track(1, 0, -6.5, (0, 3))
    assert find_crossings([east, north], 5.0) == {(0, 1): pytest.approx(2.0, abs=0.11)}
    assert find_crossings([east, later], 5.0) == {}
    assert find_crossings([east, north], 0.5) == {}


def test_a_known_crossing_lasts_until_it_is_well_clear() -> None:
    tracks = [track(0, -3, 0, (3, 0)), track(1, -3, 1.6, (3, 1.6))]
    assert find_crossings(tracks, 3.0) == {}
    assert set(find_crossings(tracks, 3.0, [(0, 1)])) == {(0, 1)}


def test_only_drones_at_one_height_are_a_hazard() -> None:
    east = track(0, -1.5, 0, (3, 0))
    assert find_hazards([east, track(1, 0, -1.5, (0, 3))]) == {(0, 1): pytest.approx(0.4, abs=0.25)}
    assert find_hazards([east, track(1, 0, -1.5, (0, 3), z=2.8, height=2.8)]) == {}
    assert find_hazards([east, track(1, 0, -1.5, (0, 3), z=2.8, height=2.0)]) != {}


def test_a_climb_that_is_under_way_ends_the_hazard() -> None:
    east, north = track(0, -2.5, 0, (3, 0)), track(1, 0, -2.5, (0, 3), height=2.8)
    assert find_hazards([east, north]) == {}


def test_two_that_part_are_no_hazard() -> None:
    assert find_hazards([track(0, 0.4, 0, (3, 0)), track(1, -0.4, 0, (-3, 0))]) == {}


def places(*heights: float, gap: float = 5.0) -> np.ndarray:
    return np.array([[gap * number, 0.0, height] for number, height in enumerate(heights)])


def test_a_near_miss_is_counted_once_an_encounter() -> None:
    record = SafetyRecord(2, DT)
    for gap in (2.0, 0.8, 0.7, 0.8, 2.0, 0.8):
        record.update(places(2.0, 2.1, gap=gap), (), (), (0, 1))
    assert record.near_misses == 2
    assert record.min_distance == pytest.approx(np.hypot(0.7, 0.1))
    assert not record.lost


def test_passing_through_a_closed_layer_is_free_and_staying_is_not() -> None:
    record = SafetyRecord(1, DT)
    inside, outside = places(altitude(3)), places(altitude(4))
    for _ in range(round(PASSAGE_S / DT)):
        record.update(inside, (), {3}, (0,))
    assert record.closed_s == 0.0
    record.update(outside, (), {3}, (0,))
    for _ in range(round((PASSAGE_S + CLOSED_LIMIT_S) / DT) - 1):
        record.update(inside, (), {3}, (0,))
    assert record.closed_s == pytest.approx(CLOSED_LIMIT_S - DT)
    assert not record.lost
    record.update(inside, (), {3}, (0,))
    assert record.lost


def test_parked_drones_may_stay_in_closed_layers() -> None:
    record = SafetyRecord(1, DT)
    for _ in range(100):
        record.update(places(altitude(3)), (), {3}, ())
    assert record.closed_s == 0.0


def test_a_contact_loses_the_episode() -> None:
    record = SafetyRecord(2, DT)
    record.update(places(2.0, 2.0), {(0, 1)}, (), (0, 1))
    assert record.lost
