"""A tiny planner learns, its training goes on after a break, and what is written loads."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from brace.context import Segment
from brace.errors import BraceError
from brace.training.batches import (
    CONTEXT_WEIGHT,
    PLAN_WEIGHT,
    Encoder,
    Practice,
    load_logs,
    make_batch,
    train_tokenizer,
)
from brace.training.lessons import make_lesson
from brace.training.logs import Log, write_logs
from brace.training.planner import LENGTHS, Recipe, build_model, rate_at, train
from brace.training.readers import reader_of
from brace.training.shipping import train_and_write

TINY = Recipe(hidden=32, layers=2, feed_forward=64, heads=2, tokens_per_batch=1024, warm_up=2)


def log(seed: int) -> Log:
    draw = random.Random(seed)
    said = [Segment("task", "agent 0: put the red ball next to the blue box")]
    for step in range(40):
        thing = draw.choice(("red ball", "blue box", "grey key", "nothing"))
        said.append(Segment("message", f"room {draw.randint(1, 9)}: {thing}", step, 1))
    return Log("babyai-v1", 2, "Write a plan.\n", tuple(said), (10, 20, 30))


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    file = tmp_path / "logs" / "babyai-v1.1.xz"
    write_logs(file, [log(seed) for seed in range(30)])
    return [file]


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    path = tmp_path / "tokenizer.json"
    train_tokenizer(["".join(log(1).lines(40))], path)
    return path


def test_numbers_are_single_tokens_and_text_comes_back(tokenizer: Path) -> None:
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(tokenizer))
    assert [
        len(made.encode(text, add_special_tokens=False).ids) for text in ("0", " 7", "42", " 999", "-12")
    ] == [1, 1, 1, 1, 2]
    text = "[message 3 a1] room 4: grëy key\n"
    assert made.decode(made.encode(text).ids) == text


def test_weights_tell_context_plan_and_answers_apart(tokenizer: Path) -> None:
    encoder = Encoder(tokenizer)
    lesson = make_lesson(log(2), reader_of(log(2)), random.Random(0), 2000)
    ids, weights, start = encoder.encode(lesson)
    assert len(ids) == len(weights)
    assert set(weights[:start]) == {CONTEXT_WEIGHT}
    plan = weights[start:].count(PLAN_WEIGHT)
    assert weights[start : start + plan] == [PLAN_WEIGHT] * plan
    assert ids[start + plan - 1] == 2  # <end>


def test_a_lesson_without_its_plan_asks_at_once(tokenizer: Path) -> None:
    lesson = make_lesson(log(2), reader_of(log(2)), random.Random(0), 2000)
    ids, weights, start = Encoder(tokenizer).encode(lesson, plan=False)
    assert PLAN_WEIGHT not in weights
    assert weights[start] == 0.0
    assert len(ids) < len(Encoder(tokenizer).encode(lesson)[0])


@pytest.mark.parametrize("length", LENGTHS[:3])
def test_a_batch_holds_whole_plans_or_none(files: list[Path], tokenizer: Path, length: int) -> None:
    practice = Practice(load_logs(files, exam=False))
    batch = make_batch(practice, Encoder(tokenizer), random.Random(3), rows=12, length=length, shares={})
    assert batch.ids.shape == (12, length)
    with_plan = [PLAN_WEIGHT in row for row in batch.weights]
    assert 4 < sum(with_plan) < 12
    ends = [
        ids[row == PLAN_WEIGHT][-1]
        for ids, row in zip(batch.ids, batch.weights, strict=True)
        if PLAN_WEIGHT in row
    ]
    assert set(ends) == {2}  # <end>
    assert not batch.weights[batch.ids == 0].any()


def test_the_exam_is_never_practised_on(files: list[Path]) -> None:
    practice, exam = (load_logs(files, exam=which)["babyai-v1"] for which in (False, True))
    assert (len(practice), len(exam)) == (28, 2)
    assert not [one for one in exam if one in practice]


def test_no_logs_say_how_to_make_some() -> None:
    with pytest.raises(BraceError, match="brace planner data"):
        load_logs([], exam=False)


def test_the_rate_warms_up_and_comes_down() -> None:
    rates = [rate_at(TINY, step, share) for step, share in ((0, 0.0), (2, 0.0), (9, 0.5), (99, 1.0))]
    assert rates[0] < rates[1] > rates[2] > rates[3] == pytest.approx(TINY.rate * 0.05)


def test_training_goes_on_after_a_break_and_writes_a_model_that_loads(
    files: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "model"
    scores = train_and_write(files, out, minutes=0.08, total_minutes=0.16, workers=1, recipe=TINY)
    first = torch.load(out / "checkpoint.pt", weights_only=True)["step"]
    train(files, out / "tokenizer.json", out, minutes=0.08, total_minutes=0.16, workers=1, recipe=TINY)
    second = torch.load(out / "checkpoint.pt", weights_only=True)
    assert second["step"] > first > 0
    assert second["seconds"] > 4
    assert json.loads((out / "scores.json").read_text()) == scores
    loaded = AutoModelForCausalLM.from_pretrained(out / "model", dtype=torch.bfloat16)
    assert loaded.config.num_hidden_layers == 2
    assert "tokens (" in (out / "model" / "README.md").read_text()
    assert (out / "curve.csv").read_text().startswith("step,seconds,length,of,loss")


def test_the_shipped_shape_is_within_its_bounds() -> None:
    recipe = Recipe()
    with torch.device("meta"):
        size = sum(weight.numel() for weight in build_model(recipe, 4096).parameters())
    assert size * 2 < 40e6
    assert recipe.layers >= 12
    assert recipe.positions >= 8192
