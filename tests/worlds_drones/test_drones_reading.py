"""The reader's rule: the latest word on each fact, then a simple choice of layers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from brace.plan import Plan
from brace.worlds.drones.airspace import argument_names, objection, skill_set
from brace.worlds.drones.reading import read
from brace.worlds.following import check_plan

HEAD = [
    "[task 0 a0] drone 0 flies from gate 1 to gate 5",
    "[task 0 a1] drone 1 flies from gate 3 to gate 7",
    "[task 0 a2] drone 2 flies from gate 2 to gate 6",
    "[observation 0 a0] at 69 -9 layer 2 waiting speed 0",
    "[observation 0 a1] at 9 69 layer 2 waiting speed 0",
    "[observation 0 a2] at 40 55 layer 4 waiting speed 0",
]


def plan_for(*lines: str) -> Plan:
    return read("Write the next plan.\n" + "\n".join([*HEAD, *lines]) + "\nPlan:\n", 3)


def line_of(drone: int, *lines: str) -> str:
    return "; ".join(map(str, plan_for(*lines).of(drone)))


def test_who_crosses_nobody_stays_on_its_layer() -> None:
    assert str(plan_for()) == (
        "0: layer(2); goto(gate 5)\n1: layer(2); goto(gate 7)\n2: layer(4); goto(gate 6)"
    )


def test_of_two_that_cross_the_higher_number_leaves() -> None:
    crossing = "[observation 9] drone 0 and drone 1 cross in 21"
    assert line_of(0, crossing) == "layer(2); goto(gate 5)"
    assert line_of(1, crossing) == "layer(1); goto(gate 7)"
    assert line_of(1, crossing, "[observation 12] drone 0 and drone 1 clear") == "layer(2); goto(gate 7)"


def test_the_latest_word_on_a_layer_counts() -> None:
    shut, opened = "[message 0] layer 2 closed", "[message 3] layer 2 open again"
    assert line_of(0, shut) == "layer(1); goto(gate 5)"
    assert line_of(0, shut, opened) == "layer(2); goto(gate 5)"
    # By its step, wherever it stands in the text.
    assert line_of(0, opened, shut) == "layer(2); goto(gate 5)"
    assert line_of(0, shut, opened, "[message 8] layer 2 closed") == "layer(1); goto(gate 5)"


def test_the_latest_word_on_a_goal_counts() -> None:
    assert line_of(1, "[message 30] drone 1: fly to gate 8 instead") == "layer(2); goto(gate 8)"


def test_no_partner_is_met_on_the_way_to_a_layer() -> None:
    """Layers 1 and 3 are closed and drone 2 is on 4, so 5 is free but cannot be reached."""
    lines = (
        "[message 0] layer 1 closed",
        "[message 0] layer 3 closed",
        "[observation 9] drone 0 and drone 1 cross in 21",
        "[observation 9] drone 1 and drone 2 cross in 25",
    )
    assert line_of(1, *lines) == "layer(2); yield(drone 0); goto(gate 7)"
    assert line_of(1, *lines[:3]) == "layer(4); goto(gate 7)"


def test_a_closed_layer_is_left_even_if_one_then_has_to_wait() -> None:
    lines = [f"[message 0] layer {layer} closed" for layer in (1, 2, 3, 5, 6)]
    crossing = [
        f"[observation 9] drone {one} and drone {other} cross in 21"
        for one, other in ((0, 1), (0, 2), (1, 2))
    ]
    assert str(plan_for(*lines, *crossing)) == (
        "0: layer(4); goto(gate 5)\n"
        "1: layer(4); yield(drone 0); goto(gate 7)\n"
        "2: layer(4); yield(drone 0); goto(gate 6)"
    )


def test_the_intruder_goes_first_until_it_is_gone() -> None:
    lines = ("[message 9] intruder on layer 2", "[observation 9] drone 0 and intruder cross in 25")
    assert line_of(0, *lines) == "layer(1); goto(gate 5)"
    assert line_of(1, *lines) == "layer(2); goto(gate 7)"
    assert line_of(0, *lines, "[message 40] intruder gone") == "layer(2); goto(gate 5)"


def test_who_has_arrived_is_left_alone_and_goes_first() -> None:
    lines = ("[action 90 a2] arrived at gate 6", "[observation 91] drone 0 and drone 2 cross in 5")
    assert plan_for(*lines).agents == (0, 1)
    assert line_of(0, *lines, "[action 80 a2] layer 2 taken") == "layer(1); goto(gate 5)"
    assert line_of(2, *lines, "[message 95] drone 2: fly to gate 3 instead") == "layer(4); goto(gate 3)"


def test_when_all_have_arrived_it_waits() -> None:
    lines = [
        f"[observation 99 a{drone}] at 0 0 layer 2 parked at gate {gate}"
        for drone, gate in ((0, 5), (1, 7), (2, 6))
    ]
    assert str(plan_for(*lines)) == "hold(1)"


def test_the_plan_line_tells_the_layers_when_telemetry_is_cut() -> None:
    text = "\n".join([*HEAD[:3], "[plan 4] 0: layer(6); goto(gate 5) | 1: layer(5); goto(gate 7)"])
    assert str(read(text, 3)) == (
        "0: layer(6); goto(gate 5)\n1: layer(5); goto(gate 7)\n2: layer(1); goto(gate 6)"
    )


def test_two_drones_are_never_sent_to_one_gate() -> None:
    assert line_of(1, "[message 30] drone 1: fly to gate 5 instead") == "layer(2); hold(1)"


FULL = "\n".join(
    [
        *HEAD,
        "[message 0] layer 2 closed",
        "[plan 3] 0: layer(6); goto(gate 5) | 1: layer(5); yield(drone 0); goto(gate 7)",
        "[observation 9] drone 0 and drone 1 cross in 21",
        "[observation 9] drone 0 and intruder cross in 25",
        "[message 9] intruder on layer 6",
        "[failure 30 a1] drone 0 did not pass in time",
        "[message 31] drone 1: fly to gate 5 instead",
        "[action 90 a2] arrived at gate 6",
    ]
)


@settings(max_examples=60, deadline=None)
@given(
    cuts=st.lists(st.tuples(st.integers(0, len(FULL)), st.integers(0, 60)), max_size=8),
    noise=st.text(max_size=30),
    agents=st.integers(1, 8),
)
def test_whatever_is_left_of_the_text_gives_a_plan(
    cuts: list[tuple[int, int]], noise: str, agents: int
) -> None:
    text = FULL
    for start, length in cuts:
        text = text[:start] + text[start + length :]
    for prompt in (text, text + noise, noise + text, f"[task 0 a{agents}] {noise}"):
        plan = read(prompt, agents)
        assert not plan.is_empty
        assert check_plan(plan, skill_set(agents), argument_names(agents)) is None
        assert objection(plan) is None


def test_numbers_beyond_all_measure_do_no_harm() -> None:
    assert str(read(f"[task {'9' * 5000} a{'9' * 5000}] layer 1 closed", 2)) == "hold(1)"
