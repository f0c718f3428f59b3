"""The reader: the latest valid fact about each thing, and nothing else."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from brace.worlds.babyai.layout import NAMES, skill_set
from brace.worlds.babyai.references import read
from brace.worlds.following import check_plan

TASK = "[task 0] agent 0: put the red ball next to the blue box, then the green key next to the grey ball"
OTHER_TASK = "[task 0] agent 1: put the red key next to the purple box"
SEEN = "[message 1 a2] room 3: blue box\n[message 2 a3] room 5: grey ball, red ball"
LOCKED = "[failure 9 a0] no way to room 3: the yellow door between room 2 and room 3 is locked"


def plan_of(*lines: str, agents: int = 4) -> str:
    return str(read("You plan.\n" + "\n".join(lines) + "\nPlan:\n", agents))


def test_unknown_things_are_searched_for() -> None:
    assert plan_of(TASK) == "search(red ball)"
    assert plan_of(TASK, SEEN) == "pickup(red ball, room 5); putnext(blue box, room 3); search(green key)"


def test_the_latest_sighting_counts() -> None:
    later = "[message 8 a1] room 7: green key, red ball"
    assert plan_of(TASK, SEEN, later) == (
        "pickup(red ball, room 7); putnext(blue box, room 3); pickup(green key, room 7); "
        "putnext(grey ball, room 5)"
    )


def test_a_report_without_it_says_that_it_is_gone() -> None:
    assert plan_of(TASK, SEEN, "[message 8 a1] room 5: grey ball") == "search(red ball)"
    assert plan_of(TASK, SEEN, "[message 8 a1] room 5: nothing") == "search(red ball)"
    assert plan_of(TASK, SEEN, "[failure 8 a0] no red ball in room 5") == "search(red ball)"
    assert plan_of(TASK, SEEN, "[message 8 a1] room 6: nothing").startswith("pickup(red ball, room 5)")


def test_a_list_that_was_cut_says_nothing_about_the_rest() -> None:
    assert plan_of(TASK, SEEN, "[message 8 a1] room 5: grey ball, re").startswith("pickup(red ball, room 5)")


def test_reports_of_a_faulty_camera_never_count_until_its_repair() -> None:
    false = "[message 5 a3] room 8: red ball"
    notice = "[message 7] agent 3's camera is faulty: do not trust its reports"
    repaired = "[message 9] agent 3's camera is repaired"
    good = "[message 4 a2] room 5: red ball"
    assert plan_of(TASK, good, false).startswith("pickup(red ball, room 8)")
    assert plan_of(TASK, good, false, notice).startswith("pickup(red ball, room 5)")
    assert plan_of(TASK, good, notice, false).startswith("pickup(red ball, room 5)")
    assert plan_of(TASK, good, false, notice, repaired).startswith("pickup(red ball, room 5)")
    after = "[message 10 a3] room 2: red ball"
    assert plan_of(TASK, good, false, notice, repaired, after).startswith("pickup(red ball, room 2)")
    again = notice.replace("7", "12")
    assert plan_of(TASK, good, notice, repaired, after, again).startswith("pickup(red ball, room 5)")


def test_done_jobs_and_held_things_are_not_begun_again() -> None:
    held = "[action 4 a0] picked up red ball in room 5"
    assert plan_of(TASK, SEEN, held) == "putnext(blue box, room 3); search(green key)"
    put = "[action 6 a0] put down red ball in room 3"
    assert plan_of(TASK, SEEN, held, put).startswith("pickup(red ball, room 3)")
    done = "[action 6 a0] job 1 done: red ball next to blue box"
    assert plan_of(TASK, SEEN, held, put, done) == "search(green key)"
    assert plan_of(TASK, SEEN, done.replace("job 1", "job 2")) == "wait()"


def test_what_is_held_by_mistake_is_put_down_first() -> None:
    line = plan_of(TASK, SEEN, "[action 4 a0] picked up green key in room 2")
    assert line.startswith("drop(); pickup(red ball, room 5)")


def test_a_locked_door_is_opened_with_its_key_first() -> None:
    key = "[message 3 a2] room 6: yellow key"
    opening = "pickup(yellow key, room 6); unlock(room 2, room 3); drop(); "
    assert plan_of(TASK, SEEN, key, LOCKED).startswith(opening + "pickup(red ball, room 5)")
    assert plan_of(TASK, SEEN, LOCKED) == "search(yellow key)"
    for opened in ("[action 10 a0] unlocked", "[message 10 a1]"):
        door = f"{opened} the yellow door between room 2 and room 3" + (
            " is open" if "message" in opened else ""
        )
        assert plan_of(TASK, SEEN, key, LOCKED, door).startswith("pickup(red ball, room 5)")


def test_a_carrier_before_a_locked_door_puts_its_load_down_and_comes_back_for_it() -> None:
    lines = [
        TASK, SEEN, "[message 3 a2] room 6: yellow key", "[action 4 a0] picked up red ball in room 5",
        "[observation 8 a0] in room 2", LOCKED,
    ]  # fmt: skip
    assert plan_of(*lines).startswith(
        "drop(); pickup(yellow key, room 6); unlock(room 2, room 3); drop(); pickup(red ball, room 2); "
        "putnext(blue box, room 3)"
    )
    with_key = "[action 9 a0] picked up yellow key in room 6"
    assert plan_of(TASK, SEEN, LOCKED, with_key).startswith("unlock(room 2, room 3); drop(); ")


def test_what_nobody_can_find_is_behind_the_locked_door() -> None:
    key = "[message 3 a2] room 6: yellow key"
    opening = "pickup(yellow key, room 6); unlock(room 2, room 3); drop()"
    assert plan_of(TASK, key, LOCKED) == f"{opening}; search(red ball)"


def test_two_carriers_do_not_go_for_the_same_key() -> None:
    key = "[message 3 a2] room 6: yellow key"
    plan = plan_of(TASK, OTHER_TASK, key, LOCKED)
    assert plan.splitlines()[1] == "1: wait()"
    assert plan.splitlines()[0].startswith("0: pickup(yellow key, room 6)")


def test_failures_correct_what_is_held() -> None:
    held = "[action 4 a0] picked up red ball in room 5"
    empty = "[failure 6 a0] cannot put down next to blue box: holds nothing"
    assert plan_of(TASK, SEEN, held, empty) == "search(red ball)"
    full = "[failure 6 a0] cannot pick up red ball: holds grey box"
    assert plan_of(TASK, SEEN, full).startswith("drop(); pickup(red ball, room 5)")


ALL = [
    TASK, OTHER_TASK, *SEEN.splitlines(), LOCKED, "[message 3 a2] room 6: yellow key, red key",
    "[observation 3 a0] in room 2", "[action 4 a0] picked up red ball in room 5",
    "[message 7] agent 3's camera is faulty: do not trust its reports", "[message 8 a1] room 5: nothing",
    "[action 9 a1] put down red key in room 4", "[action 9 a1] job 1 done: red key next to purple box",
    "[failure 9 a1] no purple box in room 4", "[plan 9] 0: drop() | 1: wait()",
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ALL), st.integers(0, 90)), max_size=25), st.sampled_from((1, 2, 8)))
def test_any_text_gives_a_plan_the_world_understands(pieces: list[tuple[str, int]], agents: int) -> None:
    text = "\n".join(line[:length] for line, length in pieces)
    plan = read(text, agents)
    assert not plan.is_empty
    assert check_plan(plan, skill_set(agents), NAMES) is None


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="[]0123456789 arobmckeysgdtiunhp:,'", max_size=120))
def test_nonsense_gives_a_plan_too(text: str) -> None:
    plan = read(text, 4)
    assert not plan.is_empty
    assert check_plan(plan, skill_set(4), NAMES) is None
