"""Recipes draw what they say, from records that are never both trained on and held out."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from erecap_data import FORMS, put, put_logs
from hypothesis import given
from hypothesis import strategies as st

from brace.errors import ConfigError
from brace.training.erecap.examples import Example, Faults
from brace.training.erecap.recipes import RECIPES, draw_examples, shares_of
from brace.training.erecap.sources import SOURCES

RECORDS = 60
INSTRUCT = ("alpaca", "dolly", "self_instruct")
MARKS = {
    "alfred": "Direction 1", "teach": "Commander", "babyai_runs": "Next action:", "multi_agent": "Alice",
    "worlds": "Write a plan", "multi_news": "Summary:", "keys": "find the code of", "instruct": "Answer:",
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    for form in (
        "alpaca",
        "dolly",
        "self-instruct",
        "alfred",
        "teach",
        "babyai runs",
        "multi-agent",
        "multi_news",
    ):
        name, files = FORMS[form]
        put(files(RECORDS), root / SOURCES[name].folder, packed=form == "alfred")
    return put_logs(root, RECORDS)


def draw(
    recipe: str, data: Path, count: int = 100, seed: int = 0, *, held_out: bool = False
) -> list[Example]:
    return list(draw_examples(recipe, data, count, seed, Faults(), held_out=held_out))


def origin(example: Example) -> str:
    text = "".join(example.lines)
    return next(name for name, mark in MARKS.items() if mark in text)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("held_out", [False, True])
def test_shares_are_met(recipe: str, held_out: bool, data: Path) -> None:
    wanted: Counter[str] = Counter()
    for name, share in shares_of(RECIPES[recipe], 100).items():
        wanted["instruct" if name in INSTRUCT else name] += share
    assert Counter(map(origin, draw(recipe, data, held_out=held_out))) == wanted


@pytest.mark.parametrize(
    ("recipe", "shares"),
    [
        ("instruct", {"instruct": 100}),
        ("instruct+alfred", {"instruct": 90, "alfred": 10}),
        ("instruct+teach", {"instruct": 90, "teach": 10}),
        ("instruct+babyai", {"instruct": 90, "babyai_runs": 10}),
        ("mixed", {"instruct": 85, "alfred": 5, "teach": 5, "babyai_runs": 5}),
        ("permissive", {"instruct": 85, "alfred": 5, "teach": 5, "babyai_runs": 5}),
        (
            "broad",
            {"instruct": 50, "alfred": 10, "teach": 10, "babyai_runs": 10, "multi_agent": 10}
            | {"multi_news": 5, "keys": 5},
        ),
        ("embodied", {"alfred": 25, "teach": 25, "babyai_runs": 25, "multi_agent": 25}),
    ],
)
def test_the_recipes_are_those_of_the_paper_and_ours(recipe: str, shares: dict[str, int]) -> None:
    found: Counter[str] = Counter()
    for name, share in shares_of(RECIPES[recipe], 100).items():
        found["instruct" if name in INSTRUCT else name] += share
    assert found == shares


def test_what_we_ship_is_trained_on_nothing_forbidden() -> None:
    for recipe in ("permissive", "embodied", "worlds"):
        assert all(SOURCES[name].permissive for name in RECIPES[recipe])


def test_what_is_measured_on_only_is_never_trained_on() -> None:
    assert all("niah_multikey_3" not in recipe for recipe in RECIPES.values())


@given(
    parts=st.dictionaries(st.sampled_from(sorted(SOURCES)), st.integers(1, 1000), min_size=1),
    count=st.integers(0, 10_000),
)
def test_shares_are_whole_and_as_near_as_can_be(parts: dict[str, int], count: int) -> None:
    shares = shares_of(parts, count)
    assert sum(shares.values()) == count
    for name, part in parts.items():
        assert abs(shares.get(name, 0) - count * part / sum(parts.values())) < 1


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_seed_decides(recipe: str, data: Path) -> None:
    assert draw(recipe, data, 40, seed=1) == draw(recipe, data, 40, seed=1)
    assert draw(recipe, data, 40, seed=1) != draw(recipe, data, 40, seed=2)


@pytest.mark.parametrize("recipe", ["instruct", "embodied"])
@pytest.mark.parametrize("seed", range(3))
def test_held_out_records_are_never_trained_on(recipe: str, seed: int, data: Path) -> None:
    """Enough is drawn to go through everything several times."""
    trained = {record(example) for example in draw(recipe, data, 1500, seed)}
    tested = {record(example) for example in draw(recipe, data, 300, seed + 1, held_out=True)}
    assert not trained & tested
    sources = len(RECIPES[recipe]) if recipe == "embodied" else 1
    assert tested == {key for key in tested if int(key[1]) % 20 == 0}
    assert len(tested) == sources * RECORDS // 20
    assert len(trained | tested) == sources * RECORDS


def record(example: Example) -> tuple[str, str]:
    """The source, and the record's number: every made-up record has it in its text."""
    name = origin(example)
    text = "".join(example.lines) + example.answer
    mark = {
        "alfred": "mug ",
        "teach": "cup ",
        "babyai_runs": "ball ",
        "multi_agent": "Fire",
        "instruct": "Say ",
    }[name]
    digits = text.partition(mark)[2]
    return name, digits[: next(n for n, sign in enumerate(digits + ".") if not sign.isdigit())]


def test_a_source_gone_through_again_is_cut_elsewhere(data: Path) -> None:
    """Far more are drawn than there are records."""
    alfred = [example for example in draw("embodied", data, 1200) if origin(example) == "alfred"]
    assert len(alfred) == 300
    assert len(set(alfred)) > 2 * RECORDS


def test_examples_come_lazily(data: Path) -> None:
    drawn = draw_examples("instruct", data, 10**9, 0, Faults(), held_out=False)
    assert len(list(islice(drawn, 30))) == 30


def test_lengths_keep_to_the_limit(data: Path) -> None:
    drawn = draw_examples("worlds", data, 30, 0, Faults(), held_out=False, most_chars=900)
    assert max(sum(map(len, example.lines)) for example in drawn) <= 1000


def test_an_unknown_recipe_is_corrected() -> None:
    with pytest.raises(ConfigError, match="did you mean 'mixed'"):
        draw_examples("mixd", Path(), 1, 0, Faults(), held_out=False)


@pytest.mark.parametrize("missing", ["alfred", "teach", "babyai_textworld_runs", "instruct/alpaca"])
def test_a_missing_folder_is_named_at_once(missing: str, tmp_path: Path) -> None:
    folders = {SOURCES[name].folder: SOURCES[name] for name in RECIPES["mixed"]}
    for folder in folders:
        if folder != missing:
            (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(ConfigError, match=missing) as caught:
        draw_examples("mixed", tmp_path, 100, 0, Faults(), held_out=False)
    assert folders[missing].origin in str(caught.value)


def test_a_folder_without_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no good training record for 'worlds'.*brace planner data"):
        draw("worlds", tmp_path)


def test_bad_records_are_made_up_for(tmp_path: Path) -> None:
    name, files = FORMS["teach"]
    spoilt = set(range(0, RECORDS, 3))
    for form in ("alfred", "babyai runs", "multi-agent"):
        put(FORMS[form][1](RECORDS), tmp_path / SOURCES[FORMS[form][0]].folder)
    put(files(RECORDS, spoilt=spoilt), tmp_path / name)
    faults = Faults()
    drawn = list(draw_examples("embodied", tmp_path, 400, 0, faults, held_out=False))
    assert Counter(map(origin, drawn))["teach"] == 100
    assert faults.count == len([number for number in spoilt if number % 20])
