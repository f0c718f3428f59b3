"""From logs to a folder that `planner: embedded` can load: tokenizer, weights, curve, card."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from brace.training.batches import Encoder, load_logs
from brace.training.lessons import make_lesson
from brace.training.planner import Recipe, train
from brace.training.readers import reader_of
from brace.training.scoring import exact_plans
from brace.training.tokenizer import BEGIN, END, PAD, train_tokenizer


def train_and_write(
    files: Sequence[Path],
    out: Path,
    *,
    minutes: float,
    total_minutes: float | None = None,
    workers: int = 2,
    recipe: Recipe | None = None,
) -> dict[str, float]:
    """Train, score on held-out logs, write the model; the scores."""
    tokenizer = out / "tokenizer.json"
    if not tokenizer.exists():
        train_tokenizer(_sample_texts(load_logs(files, exam=False)), tokenizer)
    model = train(
        files, tokenizer, out, minutes=minutes, total_minutes=total_minutes, workers=workers, recipe=recipe
    )
    exam = load_logs(files, exam=True)
    found = exact_plans(model, exam, Encoder(tokenizer), (512, 2048, 6000), each=24)
    scores = {f"{world} {length}": share for (world, length), share in sorted(found.items())}
    write_model(model, out, scores)
    return scores


def write_model(model: Any, out: Path, scores: dict[str, float]) -> None:
    """Weights as safetensors in bf16, with what `transformers` needs to load them."""
    import torch  # noqa: PLC0415 - an extra

    model.to(torch.bfloat16).save_pretrained(out / "model")
    (out / "scores.json").write_text(json.dumps(scores, indent=1), encoding="utf-8")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "pad_token": PAD, "bos_token": BEGIN, "eos_token": END,
    }  # fmt: skip
    (out / "model" / "tokenizer.json").write_bytes((out / "tokenizer.json").read_bytes())
    (out / "model" / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def _sample_texts(logs: dict[str, Any], each: int = 300) -> list[str]:
    draw = random.Random(0)
    texts = []
    for mine in logs.values():
        for log in islice(mine, each):
            lesson = make_lesson(log, reader_of(log), draw, 20_000)
            texts.append(lesson.prompt + lesson.plan)
    return texts
