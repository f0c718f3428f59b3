"""`brace erecap train` as a user runs it: data in, predictor and card out, mistakes answered."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from erecap_data import alpaca, dolly, self_instruct
from hypothesis import given
from hypothesis import strategies as st

from brace.erecap import Engine
from brace.erecap.scorers import Predictor
from brace.training.erecap.examples import Example, packed
from brace.training.erecap.sources import SOURCES
from tiny_model import tiny

QUICK = ("--mixture", "instruct", "-n", 6, "--most-tokens", 1500, "--steps", 3, "--batch-tokens", 3000)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and some data."""
    folder = tmp_path_factory.mktemp("erecap")
    model, tokenizer = tiny()
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    for name, files in (("alpaca", alpaca(60)), ("dolly", dolly(60)), ("self_instruct", self_instruct(60))):
        for file, content in files.items():
            path = folder / "data" / SOURCES[name].folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return folder


def brace(*arguments: object, cwd: Path, expect: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "brace", "erecap", "train", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, timeout=240, check=False,
        env=os.environ | {"COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def test_a_predictor_is_made_that_fits_its_model_and_says_what_it_is(home: Path) -> None:
    said = brace("model", "--data", "data", *QUICK, "--out", "out", cwd=home)
    assert "README.md" in said
    predictor = Predictor(home / "out" / "predictor.safetensors")
    model, _ = tiny()
    Engine(model, predictor)
    card = (home / "out" / "README.md").read_text(encoding="utf-8")
    assert "NOT for every use" in card
    assert "alpaca: CC BY-NC 4.0" in card
    assert card.count("| recency |") == 1
    assert len((home / "out" / "curve.csv").read_text().splitlines()) == 1 + 3
    # Once more: everything is there already, and nothing changes.
    brace("model", "--data", "data", *QUICK, "--out", "out", cwd=home)
    again = Predictor(home / "out" / "predictor.safetensors").state_dict()
    assert all(torch.equal(value, again[name]) for name, value in predictor.state_dict().items())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("model", "--data", "data", "--mixture", "instuct"), "did you mean 'instruct'"),
        (("model", "--data", "data", "--labels", "salience"), "did you mean 'saliency'"),
        (("model", "--data", "data", "--mixture", "embodied"), "it comes from"),
        (("nowhere", "--data", "data", "--mixture", "instruct"), "no model at"),
        (("model", "--data", "data", "--mixture", "instruct", "--match", "-1"), "fitting"),
        (("model", "--data", "data", *QUICK[:2], "--most-tokens", "10"), "most_tokens"),
    ],
)
def test_mistakes_are_answered(home: Path, arguments: tuple[str, ...], told: str) -> None:
    assert told in brace(*arguments, "--out", "bad", cwd=home, expect=2)


def test_a_folder_of_another_training_is_not_mixed_up(home: Path) -> None:
    brace("model", "--data", "data", *QUICK, "--out", "mine", cwd=home)
    other = [8 if part == 6 else part for part in QUICK]
    assert "other settings" in brace("model", "--data", "data", *other, "--out", "mine", cwd=home, expect=2)


TEXT = st.text(st.characters(categories=["L"]), min_size=1, max_size=30).map(lambda word: word + "\n")
EXAMPLES = st.lists(
    st.builds(
        lambda lines, answer: Example(tuple(lines), answer, frozenset({0, len(lines) - 1})),
        st.lists(TEXT, min_size=2, max_size=6),
        st.text(st.characters(categories=["L"]), min_size=1, max_size=20),
    ),
    min_size=1,
    max_size=30,
)


@given(examples=EXAMPLES, seed=st.integers(0, 99))
def test_in_company_a_record_keeps_its_task_first_its_end_last_and_its_lines_in_order(
    examples: list[Example], seed: int
) -> None:
    found = list(packed(examples, 900, seed))
    assert found == list(packed(examples, 900, seed))
    for example, among in zip(examples, found, strict=True):
        assert among.answer == example.answer
        assert among.lines[0] == example.lines[0]
        assert among.lines[-1] == example.lines[-1]
        assert {among.lines[number] for number in among.protected} == {example.lines[0], example.lines[-1]}
        own = list(example.lines)
        for line in among.lines:
            if own and line == own[0]:
                own.pop(0)
        assert not own
        assert sum(map(len, among.lines)) <= max(900, sum(map(len, example.lines)))


def test_most_short_records_get_company() -> None:
    short = [Example((f"say {n}\n", "Answer:\n"), str(n), frozenset({0, 1})) for n in range(80)]
    found = list(packed(short, 1500, 1))
    assert sum(len(one.lines) > 10 for one in found) > 60
