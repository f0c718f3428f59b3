"""The readers: the latest fact counts, and no text is too broken for a plan."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.plan import Plan, parse
from brace.worlds.arms import handover, lift, peg
from brace.worlds.arms.reading import read_handover, read_lift, read_peg
from brace.worlds.following import check_plan

HEAD = "You plan for a robot. Write the next plan, nothing else.\n"

LIFT = """\
[observation 0] blue handle at -60 140 930 yaw 67
[observation 0] green handle at 61 -141 931 yaw 67
[message 4] lift to 140
[message 9] the green handle is hot
[observation 10] green handle at 80 -100 930 yaw 50
[observation 10] blue handle at -40 160 929 yaw 50
[observation 10 a0] at 5 -120 1001 gripper open
[observation 10 a1] at 5 118 1002 gripper open
[message 60] lift to 180 instead
"""

HANDOVER = """\
[task 0] place a is at -126 -110 1114
[task 0] place b is at 7 -105 1099
[goal 0] hand the hammer over at place a
[message 0] grip q is oily
[observation 0] grip p at -33 -534 818 yaw -22
[observation 0] grip q at -17 -498 819 yaw -22
[observation 0 a0] at 0 -370 998 gripper open
"""
PRESENTED = """\
[observation 45 a0] at -32 -540 818 gripper holding
[action 45 a0] grasp() done
[action 167 a0] present(-126, -110, 1114) done
[observation 170] tail at -127 67 1115 yaw 3
[observation 170 a1] at 0 357 1004 gripper open
"""

PEG = """\
[task 0] meeting place m1 is at -109 112 1281 tilt 36
[task 0] meeting place m2 is at 11 93 1296 tilt 48
[task 0] meeting place m3 is at 85 91 1291 tilt 46
[message 0] meeting place m1 is occupied
[message 5] insert to 70
[observation 0] hole at 9 30 945 tilt 90
"""
MET = """\
[action 30 a1] align(11, 93, 1296, 48) done
[action 31 a0] align(11, 93, 1296, 48) done
[observation 33] hole at 50 93 1270 tilt 51
"""


def lift_of(text: str) -> Plan:
    return read_lift(HEAD + text + "Plan:\n", lift.LAYOUT, lift.USUAL_HEIGHT)


def handover_of(text: str) -> Plan:
    return read_handover(HEAD + text + "Plan:\n", handover.LAYOUT, handover.PLACES["b"])


def peg_of(text: str) -> Plan:
    return read_peg(HEAD + text + "Plan:\n", peg.PLACES["m2"])


def test_lift_takes_the_latest_places_the_hot_handle_and_the_corrected_height() -> None:
    assert lift_of(LIFT) == parse(
        "0: reach(-40, 160, 929, 50); grasp(); sync(); lift(180)\n"
        "1: reach(80, -100, 930, 50); grasp(); sync(); lift(180)"
    )


def test_lift_without_word_of_heat_gives_each_arm_the_handle_on_its_side() -> None:
    text = LIFT.replace("[message 9] the green handle is hot\n", "")
    assert lift_of(text).of(0)[0].args == ("80", "-100", "930", "50")


def test_lift_goes_on_with_what_an_arm_has_begun() -> None:
    plan = lift_of(
        LIFT
        + "[observation 50 a0] at 5 -120 930 gripper holding\n"
        + "[observation 50 a1] at 5 118 930 gripper closing\n"
    )
    assert plan == parse("0: sync(); lift(180)\n1: grasp(); sync(); lift(180)")


def test_handover_picks_up_at_the_clean_grip() -> None:
    assert handover_of(HANDOVER) == parse(
        "0: reach(-33, -534, 818, -22); grasp(); present(-126, -110, 1114)\n1: wait()"
    )
    swapped = HANDOVER + "[message 40] grip q is clean again and grip p is oily\n"
    assert handover_of(swapped).of(0)[0].args == ("-17", "-498", "819", "-22")


def test_handover_takes_the_tail_once_it_is_presented() -> None:
    assert handover_of(HANDOVER + PRESENTED) == parse(
        "0: sync(); release()\n1: reach(-127, 67, 1115, 3); grasp(); sync()"
    )


def test_handover_brings_it_elsewhere_when_the_goal_has_changed() -> None:
    # Goals stand at the head of a prompt, the old one before the new one.
    text = HANDOVER.replace("place a\n", "place a\n[goal 190] hand the hammer over at place b\n")
    assert handover_of(text + PRESENTED) == parse("0: present(7, -105, 1099)\n1: wait()")


def test_handover_lets_go_when_the_other_arm_has_it() -> None:
    taken = "[observation 220 a1] at -126 70 1110 gripper holding\n"
    assert handover_of(HANDOVER + PRESENTED + taken) == parse("0: release()\n1: wait()")


def test_peg_meets_at_the_first_free_place() -> None:
    meet = "align(11, 93, 1296, 48); sync()"
    assert peg_of(PEG) == parse(f"0: {meet}; insert(70)\n1: {meet}; wait()")


def test_peg_aligns_anew_with_a_hole_that_was_pushed() -> None:
    assert peg_of(PEG + MET) == parse("0: align(50, 93, 1270, 51); insert(70)\n1: wait()")


def test_peg_goes_straight_in_when_it_is_aligned() -> None:
    done = "[action 40 a0] align(52, 92, 1270, 51) done\n"
    assert peg_of(PEG + MET + done) == parse("0: insert(70)\n1: wait()")


def test_peg_leaves_a_place_that_is_no_longer_free() -> None:
    moved = "[message 50] meeting place m1 is free again and meeting place m2 is occupied\n"
    assert peg_of(PEG + MET + moved).of(1)[0].args == ("-109", "112", "1281", "36")


@pytest.mark.parametrize(
    ("read", "text", "skills"),
    [
        (lift_of, LIFT, lift.SKILLS),
        (handover_of, HANDOVER + PRESENTED, handover.SKILLS),
        (peg_of, PEG + MET, peg.SKILLS),
    ],
)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_cut_text_is_too_broken_for_a_plan(
    read: Callable[[str], Plan], text: str, skills: object, seed: int
) -> None:
    draw = random.Random(seed)
    cut = []
    for line in text.splitlines():
        if draw.random() < 0.7:
            begin, end = sorted(draw.randrange(len(line) + 1) for _ in range(2))
            cut.append(line if draw.random() < 0.5 else line[begin:end])
    plan = read("\n".join(cut))
    assert not plan.is_empty
    assert check_plan(plan, skills, {}) is None  # type: ignore[arg-type]
    assert read("\n".join(cut)) == plan
