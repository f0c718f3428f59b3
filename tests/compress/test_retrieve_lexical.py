"""Retrieval by words: the relevant note first, nothing where nothing is in common."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from compress_contexts import lines_of

from brace.callpath.retrieve import LexicalRetriever
from brace.context import Line, Segment
from brace.errors import ConfigError
from brace.registry import retrievers

NOTES = [
    "gripper slipped on the wet bottle: dry it first, then grasp",
    "the kitchen door sticks: push it with the shoulder",
    "never carry glass on the stairs",
    "battery below 20 percent: go to the dock",
]


def asked(text: str) -> list[Line]:
    return lines_of([Segment("failure", text)])


@pytest.mark.parametrize(
    ("failure", "note"),
    [
        ("the gripper slipped again", 0),
        ("kitchen door does not move", 1),
        ("asked to bring glass down the stairs", 2),
        ("Battery at 15 PERCENT", 3),
    ],
)
def test_the_relevant_note_comes_first(failure: str, note: int) -> None:
    assert LexicalRetriever(NOTES).retrieve(asked(failure))[0] == NOTES[note]


def test_nothing_in_common_retrieves_nothing() -> None:
    assert LexicalRetriever(NOTES).retrieve(asked("wheel motor overheated")) == []
    assert LexicalRetriever(NOTES).retrieve([]) == []
    assert LexicalRetriever().retrieve(asked("kitchen door")) == []
    assert LexicalRetriever(["!!!", ""]).retrieve(asked("kitchen door")) == []


def test_a_rare_word_in_common_counts_more_than_a_common_one() -> None:
    notes = ["robot door one", "robot door two", "robot door three", "robot lift four"]
    assert LexicalRetriever(notes, most=1).retrieve(asked("robot door lift")) == ["robot lift four"]


def test_of_notes_with_the_same_words_in_common_the_shorter_comes_first() -> None:
    notes = ["door " + "and much else that has no bearing on anything " * 3, "door sticks"]
    assert LexicalRetriever(notes).retrieve(asked("door"))[0] == "door sticks"


def test_a_note_can_be_found_from_the_moment_it_is_remembered() -> None:
    retriever = LexicalRetriever(NOTES)
    assert retriever.retrieve(asked("elevator stuck")) == []
    retriever.remember("elevator stuck: call the porter")
    assert retriever.retrieve(asked("elevator stuck")) == ["elevator stuck: call the porter"]


def test_at_most_as_many_as_asked_for_best_first() -> None:
    notes = [f"door {'hinge ' * extra}note {extra}" for extra in range(6)]
    for most in (1, 2, 6, 10):
        found = LexicalRetriever(notes, most=most).retrieve(asked("door hinge"))
        assert len(found) == min(most, 6)
        assert "hinge" in found[0]


def test_the_query_is_the_floors_and_the_newest_line() -> None:
    history = [Segment("task", "bring glass")]
    history += [Segment("observation", text) for text in ("kitchen door", "dock")]
    found = LexicalRetriever(NOTES).retrieve(lines_of(history))
    assert set(found) == {NOTES[2], NOTES[3]}, "an old observation is no part of the question"


TIES = """
import random
from brace.callpath.retrieve import LexicalRetriever
from brace.context import Line, Segment
draw = random.Random(4)
words = ["door", "kitchen", "gripper", "slipped", "battery", "stairs", "glass", "robot", "hall", "push"]
notes = []
for _ in range(40):
    some = draw.sample(words, draw.randint(2, 7))
    notes += [" ".join(some), " ".join(reversed(some))]
line = Line(Segment("task", " ".join(words)), "", 0, floor=True)
print(LexicalRetriever(notes, most=80).retrieve([line]))
"""


def test_equally_good_notes_come_in_the_same_order_in_every_process() -> None:
    answers = {
        subprocess.run(
            [sys.executable, "-c", TIES],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(answers) == 1


@pytest.mark.parametrize("options", [{"reserve": 0}, {"most": 0}])
def test_room_for_nothing_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="must be 1 or more"):
        retrievers.create("lexical", options)


def test_the_retriever_is_known_by_name() -> None:
    made = retrievers.create("lexical", {"notes": NOTES, "reserve": 40})
    assert made.reserve == 40
    assert made.retrieve(asked("stairs")) == [NOTES[2]]
