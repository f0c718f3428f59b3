"""Every source reads its data in every form it comes in, and says which records were no good."""

from __future__ import annotations

import lzma
import random
from itertools import accumulate
from pathlib import Path

import pytest
from erecap_data import FORMS, alfred, alpaca, put, put_logs
from hypothesis import given
from hypothesis import strategies as st

from brace.errors import ConfigError
from brace.training.erecap.examples import Example, Faults, example_of
from brace.training.erecap.sources import SOURCES
from brace.training.logs import Log, write_logs

EPISODES = ["alfred", "babyai runs", "multi-agent"]
every_form = pytest.mark.parametrize("form", FORMS)
packed_or_not = pytest.mark.parametrize("packed", [False, True], ids=["folder", "archive"])


def load(form: str, path: Path, faults: Faults | None = None, **options: object) -> list[Example]:
    source = SOURCES[FORMS[form][0]]
    return list(source.load(path, Faults() if faults is None else faults, **options))  # type: ignore[arg-type]


@packed_or_not
@every_form
def test_every_record_is_an_example(form: str, packed: bool, tmp_path: Path) -> None:
    name, files = FORMS[form]
    faults = Faults()
    put(files(7), tmp_path, packed=packed)
    assert SOURCES[name].count(tmp_path, faults) == 7
    examples = load(form, tmp_path, faults)
    assert len(set(examples)) == 7
    assert faults.count == 0
    for example in examples:
        assert all(line.endswith("\n") and "\n" not in line[:-1] for line in example.lines)
        assert example.answer == example.answer.strip() != ""
        assert {0, len(example.lines) - 1} <= example.protected <= set(range(len(example.lines)))


@packed_or_not
@every_form
def test_bad_records_are_named_and_the_others_used(form: str, packed: bool, tmp_path: Path) -> None:
    good = put(FORMS[form][1](6), tmp_path / "good", packed=packed)
    spoilt = put(FORMS[form][1](6, spoilt={1, 4}), tmp_path / "spoilt", packed=packed)
    faults = Faults()
    others = load(form, spoilt, faults)
    assert others == load(form, good, only={0, 2, 3, 5})
    assert faults.count == 2
    assert all(": " in named for named in faults.named)


@every_form
def test_only_the_wanted_records_are_made(form: str, tmp_path: Path) -> None:
    put(FORMS[form][1](6, spoilt={5}), tmp_path)
    faults = Faults()
    everything = load(form, tmp_path)
    assert load(form, tmp_path, faults, only={1, 3}) == [everything[1], everything[3]]
    assert load(form, tmp_path, faults, only=set()) == []
    assert faults.count == 0


@pytest.mark.parametrize("form", EPISODES)
def test_the_seed_says_where_an_episode_is_cut(form: str, tmp_path: Path) -> None:
    put(FORMS[form][1](8), tmp_path)
    assert load(form, tmp_path, seed=1) == load(form, tmp_path, seed=1)
    assert len({tuple(load(form, tmp_path, seed=seed)) for seed in range(4)}) > 1


@every_form
def test_data_that_is_missing_is_asked_for(form: str, tmp_path: Path) -> None:
    source = SOURCES[FORMS[form][0]]
    with pytest.raises(ConfigError, match="nowhere") as caught:
        load(form, tmp_path / "nowhere")
    assert source.origin in str(caught.value)


@pytest.mark.parametrize("form", ["alfred", "babyai runs", "multi-agent"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_of_an_archive_cut_short_the_beginning_is_used(form: str, share: float, tmp_path: Path) -> None:
    # What does not compress, so that the cut falls among the members.
    noise = random.Random(1)
    files = {f"{n:03}": noise.randbytes(2000) for n in range(40)}
    members = list(FORMS[form][1](20).items())
    mixed = dict(pair for both in zip(members, files.items(), strict=False) for pair in both)
    put(mixed, tmp_path, packed=True)
    whole = (tmp_path / "all.tar.xz").read_bytes()
    (tmp_path / "all.tar.xz").write_bytes(whole[: int(share * len(whole))])
    faults = Faults()
    assert 0 < len(load(form, tmp_path, faults)) < 20
    assert any("breaks off" in named for named in faults.named)


@pytest.mark.parametrize(
    ("form", "name", "content"),
    [
        ("alfred", "all.tar.xz", b"this is no archive"),
        ("alfred", "all.tar.xz", b""),
        ("alfred", "all.tar.xz", lzma.compress(b"no tar")),
        ("alpaca", "alpaca_data.json", b'[{"instruction": "Say'),
        ("alpaca", "alpaca_data.json", b'{"instruction": "Say"}'),
        ("teach table", "train_dh.csv", b"a,b\n1,2\n"),
    ],
)
def test_a_file_of_which_nothing_can_be_read_is_an_error(
    form: str, name: str, content: bytes, tmp_path: Path
) -> None:
    put({name: content}, tmp_path)
    with pytest.raises(ConfigError, match=name) as caught:
        load(form, tmp_path)
    assert SOURCES[FORMS[form][0]].origin in str(caught.value)


def test_a_list_cut_short_in_an_archive_is_an_error(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(300_000)
    put({"a.json": b'["' + noise.hex().encode() + b'"]'}, tmp_path, packed=True)
    whole = (tmp_path / "all.tar.xz").read_bytes()
    (tmp_path / "all.tar.xz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigError, match=r"breaks off within a\.json"):
        load("alpaca", tmp_path)


def test_a_table_that_breaks_off_is_used_so_far(tmp_path: Path) -> None:
    table = FORMS["teach table"][1](5)["train_dh.csv"] + b'5,"never closed ' + b"x" * 200_000
    faults = Faults()
    assert len(load("teach table", put({"train_dh.csv": table}, tmp_path), faults)) == 5
    assert faults.count == 1


@pytest.mark.parametrize(
    "record",
    [b"[]", b"3", b"null", b'{"instruction": "", "output": "x", "input": ""}', b'{"instruction": "x"}',
     b'{"instruction": "x", "input": 3, "output": "y"}', b'{"instruction": 1, "input": "", "output": "y"}',
     b'{"instruction": "x", "instances": []}', b'{"instruction": "x", "instances": {}}', b"\xff\xfe{",
     b"[" * 100_000],
)  # fmt: skip
def test_no_record_however_odd_stops_the_others(record: bytes, tmp_path: Path) -> None:
    good = b'{"instruction": "x", "input": "", "output": "y"}'
    faults = Faults()
    put({"seed_tasks.jsonl": good + b"\n" + record + b"\n" + good}, tmp_path)
    assert len(load("self-instruct", tmp_path, faults)) == 2
    assert [named.split(": ")[0] for named in faults.named] == ["seed_tasks.jsonl:1"]


EXPECTED = {
    "alpaca": ("Say 0.\nLoudly.\nnumber 0\nAnswer:\n", "0!"),
    "dolly": ("Say 0.\nLoudly.\nnumber 0\nAnswer:\n", "0!"),
    "self-instruct": ("Say 0.\nAnswer:\n", "0!"),
    "teach": ("Commander: take cup 0\nDriver: which one?\nDone: Open Fridge\nPlan:\n", "Pickup Cup"),
    "teach table": ("take cup 0\nwhich one?\nPlan:\n", "Pickup Cup\nPlace\nPour Sink"),
    "multi_news": (
        "Task: Sum up all of the news below on one page.\n"
        "Passage 1:\nIt rained 0 times.\nThen not.\nSummary:\n",
        "Rain: 0.",
    ),
    "niah": ("Memorize.\nKey a is 0.\nWhat is key a?\nAnswer:\n", "0"),
}


@pytest.mark.parametrize("form", EXPECTED)
def test_what_an_example_reads_like(form: str, tmp_path: Path) -> None:
    (example,) = load(form, put(FORMS[form][1](1), tmp_path))
    assert ("".join(example.lines), example.answer) == EXPECTED[form]


def test_alfred_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    put(alfred(1), tmp_path)
    subgoals = ["GotoLocation shelf", "PickupObject mug", "GotoLocation desk", "PutObject mug desk"]
    cuts = set()
    for seed in range(30):
        (example,) = load("alfred", tmp_path, seed=seed)
        assert example.lines[:5] == (
            "Task: Bring mug 0 to the desk.\n", "Direction 1: Go.\n", "Direction 2: Take it.\n",
            "Direction 3: Go.\n", "Direction 4: Put it.\n",
        )  # fmt: skip
        done = [line[6:-1] for line in example.lines if line.startswith("Done: ")]
        assert done + example.answer.split("\n") == subgoals
        if len(done) == 2:
            assert example.lines[-3:] == (
                "Step 4: PickupObject Mug\n", "Done: PickupObject mug\n", "Plan:\n",
            )  # fmt: skip
        cuts.add(len(done))
    assert cuts == {0, 1, 2, 3}


@pytest.mark.parametrize("number", [0, 1], ids=["old wording", "new wording"])
def test_an_action_that_does_not_exist_is_read_but_never_learnt(number: int, tmp_path: Path) -> None:
    put(FORMS["babyai runs"][1](2), tmp_path)
    episodes = [load("babyai runs", tmp_path, seed=seed)[number] for seed in range(20)]
    found = {example.answer: "".join(example.lines) for example in episodes}
    before = (
        f"Task: pick up ball {number}\nStep 0: turn left\na wall 2 steps left\na red ball 1 step left\n"
        "Step 1: go forward (by default)\na wall 1 step left\n"
    )
    assert found == {
        "pick up": before + "Next action:\n",
        "drop": before + "Step 2: pick up\nYou carry a red ball\nNext action:\n",
    }


def test_a_team_s_next_actions_follow_what_it_remembers(tmp_path: Path) -> None:
    put(FORMS["multi-agent"][1](1), tmp_path)
    found = {
        example.answer: example.lines
        for seed in range(20)
        for example in load("multi-agent", tmp_path, seed=seed)
    }
    assert found == {
        "Alice: Explore()\nBob: NavigateTo(Fire0)": (
            "Task: Alice, Bob work as a team. Say what each of them does next.\n",
            "[memory 0] memory 0\n",
            "Next actions:\n",
        ),
        "Alice: Carry(Tim)\nBob: Idle": (
            "Task: Alice, Bob work as a team. Say what each of them does next.\n",
            "[memory 0] memory 0\n",
            "[subtask 0] subtask 0\n",
            "[reason 0] because 0\n",
            "[action 0] Alice: Explore()\n",
            "[action 0] Bob: NavigateTo(Fire0) failed\n",
            "[memory 1] memory 1\n",
            "Next actions:\n",
        ),
    }  # fmt: skip


def test_worlds_are_read_as_their_planner_reads_them(tmp_path: Path) -> None:
    faults = Faults()
    examples = list(SOURCES["worlds"].load(put_logs(tmp_path, 40), faults, most_chars=1500))
    assert len(examples) == 40
    assert faults.count == 0
    sizes = [sum(map(len, example.lines)) for example in examples]
    assert max(sizes) <= 1600
    assert max(sizes) > 2 * min(sizes)
    for example in examples:
        protected = [example.lines[number] for number in sorted(example.protected)]
        assert protected[0] == "Write a plan.\n"
        assert protected[1].startswith("[task 0] ")
        assert protected[-1] == "Plan:\n"
        # Of several plans the latest, as in a call; reports may all be pruned.
        assert [line.split()[0] for line in protected[2:-1]] in ([], ["[plan"])


def test_a_log_of_an_unknown_world_is_one_bad_record(tmp_path: Path) -> None:
    put_logs(tmp_path, 3)
    (known,) = tmp_path.iterdir()
    write_logs(known, [Log("moon-v1", 1, "", (), ())])
    faults = Faults()
    assert len(list(SOURCES["worlds"].load(tmp_path, faults))) == 3
    assert faults.count == 1


def test_logs_that_are_none_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.xz").write_bytes(b"no xz at all")
    with pytest.raises(ConfigError, match="brace planner data"):
        list(SOURCES["worlds"].load(tmp_path, Faults()))


def test_a_file_of_other_lines_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "a.xz").write_bytes(lzma.compress(b'{"world": "babyai-v1"}\n'))
    faults = Faults()
    assert list(SOURCES["worlds"].load(tmp_path, faults)) == []
    assert faults.count == 1


@given(
    history=st.lists(st.text("ab", max_size=40).map(lambda text: text + "\n")),
    most=st.integers(0, 300),
)
def test_what_is_too_long_loses_its_older_lines(history: list[str], most: int) -> None:
    example = example_of(["task\n"], history, "foot\n", "answer", most)
    task, *kept, foot = example.lines
    assert (task, foot) == ("task\n", "foot\n")
    assert "".join(history).endswith("".join(kept))
    assert sum(map(len, example.lines)) <= max(most, 10)
    latest = list(accumulate(map(len, reversed(history))))
    assert len(kept) >= sum(1 for size in latest if size <= most - 10)


def test_a_long_record_keeps_its_task(tmp_path: Path) -> None:
    put(alpaca(1), tmp_path)
    (example,) = load("alpaca", tmp_path, most_chars=24)
    assert example.lines == ("Say 0.\n", "number 0\n", "Answer:\n")


def test_faults_are_counted_once_and_the_first_are_named() -> None:
    faults = Faults()
    for number in [*range(50), *range(50)]:
        faults.add(f"file:{number}", "bad")
    assert faults.count == 50
    assert len(faults.named) == 20
    assert faults.named[1] == "file:1: bad"


def test_only_alpaca_may_not_be_passed_on() -> None:
    assert [name for name, source in SOURCES.items() if not source.permissive] == ["alpaca"]


def test_made_up_facts_answer_their_question_and_differ(tmp_path: Path) -> None:
    source = SOURCES["keys"]
    examples = list(source.load(tmp_path, Faults(), only={0, 1, 2}))
    assert len({example.answer for example in examples}) == 3
    for example in examples:
        task, *facts, asked = example.lines
        assert example.answer + "\n" in facts
        key = asked.removeprefix("What is the code of ").removesuffix("?\n")
        assert key in task
        assert key in example.answer
        assert example.protected == {0, len(example.lines) - 1}
