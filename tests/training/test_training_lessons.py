"""Logs hold what was said; lessons are varied but always labelled by the world's own reader."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from brace.context import Segment
from brace.errors import BraceError, UnknownNameError
from brace.plan import Plan, SkillCall
from brace.registry import worlds
from brace.training.lessons import FACT, FOOT, LAST, make_lesson
from brace.training.logs import Log, read_logs, record_log, varied_options, write_logs
from brace.training.readers import Reader, reader_of

SAID = (
    Segment("task", "agent 0: put the red ball next to the blue box"),
    Segment("message", "room 3: red ball", 4, 1),
    Segment("message", "room 7: blue box", 6, 2),
    Segment("observation", "in room 5", 7, 0),
)
LOG = Log("babyai-v1", 4, "Write a plan.\n", SAID, (2, 3))


def test_a_log_survives_the_disk(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "logs.xz"
    write_logs(file, [LOG])
    write_logs(file, [LOG])
    assert list(read_logs(file)) == [LOG, LOG]


def test_an_interrupted_recording_loses_its_last_log_only(tmp_path: Path) -> None:
    file = tmp_path / "logs.xz"
    write_logs(file, [LOG])
    whole = file.read_bytes()
    write_logs(file, [LOG])
    file.write_bytes(file.read_bytes()[: len(whole) + 40])
    assert list(read_logs(file)) == [LOG]


def test_the_task_stands_at_the_head_whenever_it_was_said() -> None:
    late = Log("babyai-v1", 4, "", (SAID[1], SAID[0]), ())
    assert [line.split()[0] for line in late.lines(2)] == ["[task", "[message"]


@pytest.mark.parametrize("seed", range(30))
def test_a_lesson_s_plan_is_what_the_reader_makes_of_its_own_text(seed: int) -> None:
    reader = reader_of(LOG)
    lesson = make_lesson(LOG, reader, random.Random(seed), 5000)
    assert lesson.prompt.startswith(LOG.head)
    assert lesson.prompt.endswith(FOOT)
    assert lesson.plan == str(reader.plan(lesson.prompt))
    facts = {FACT + key: " " + answer for key, answer in reader.facts(lesson.prompt)}
    asked = {key: answer for key, answer in lesson.questions if key.startswith(FACT)}
    assert asked
    assert asked.items() <= facts.items()


def test_lessons_vary_what_has_to_be_read() -> None:
    plans = {make_lesson(LOG, reader_of(LOG), random.Random(seed), 5000).plan for seed in range(200)}
    assert len(plans) > 50


@pytest.mark.parametrize("seed", range(20))
def test_a_question_is_answered_by_the_last_line_that_begins_so(seed: int) -> None:
    lines = [Segment("message", f"room {n % 3}: thing {n}", n, n % 2) for n in range(30)]
    log = Log("babyai-v1", 4, "", (SAID[0], *lines), ())
    idle = Reader(lambda _: Plan(((0, (SkillCall("wait"),)),)), lambda _: [])
    lesson = make_lesson(log, idle, random.Random(seed), 5000)
    assert lesson.questions
    for key, rest in lesson.questions:
        bracket, _, words = key.removeprefix(LAST).partition("] ")
        mine = [
            line
            for line in lesson.prompt.splitlines()
            if line.startswith(bracket.split(" ")[0]) and f"] {words} " in line + " "
        ]
        assert any(line.endswith(words + rest) for line in mine)


@pytest.mark.parametrize("most", [10, 300, 1000, 4000])
def test_a_lesson_keeps_to_its_length_and_keeps_the_task(most: int) -> None:
    lines = [Segment("message", f"room {n % 9 + 1}: nothing", n, 1) for n in range(400)]
    log = Log("babyai-v1", 4, "Write a plan.\n", (SAID[0], *lines), ())
    for seed in range(10):
        lesson = make_lesson(log, reader_of(log), random.Random(seed), most)
        assert len(lesson.prompt) <= max(most, 75) + 100
        assert "[task 0]" in lesson.prompt


def test_a_real_episode_is_recorded_with_its_failures_and_plans() -> None:
    world = worlds.create("babyai-v1", {"agents": 2, "difficulty": "easy", "disturbance": "strong"})
    log = record_log(world, 5)
    kinds = {segment.kind for segment in log.segments}
    assert {"task", "message", "plan", "observation"} <= kinds
    assert log.agents == 2
    assert log.asked
    assert record_log(world, 5) == log


def test_a_world_without_a_reader_cannot_be_recorded() -> None:
    with pytest.raises(BraceError, match="no reader"):
        record_log(worlds.create("proxy-v2"), 1)


def test_an_unknown_world_has_no_reader() -> None:
    with pytest.raises(UnknownNameError, match="moon"):
        reader_of(Log("moon-v1", 1, "", (), ()))


def test_settings_vary_over_what_a_world_takes() -> None:
    draw = random.Random(1)
    options = [varied_options("babyai-v1", draw) for _ in range(60)]
    assert {option["agents"] for option in options} >= {1, 4, 8}
    assert {option["disturbance"] for option in options} == {"none", "normal", "strong"}
    assert varied_options("proxy-v2", draw) == {}
