"""From logs to a folder that `planner: embedded` can load: tokenizer, weights, curve, scores, card."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from brace.training.batches import BEGIN, END, PAD, PLAN_WEIGHT, Encoder, load_logs, train_tokenizer
from brace.training.lessons import make_lesson
from brace.training.logs import Log
from brace.training.planner import Recipe, train
from brace.training.readers import reader_of


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
        # A fixed seed: the same logs give the same tokenizer.
        draw = random.Random(0)
        logs = [log for mine in load_logs(files, exam=False).values() for log in mine[:300]]
        lessons = [make_lesson(log, reader_of(log), draw, 20_000) for log in logs]
        train_tokenizer((lesson.prompt + lesson.plan for lesson in lessons), tokenizer)
    model = train(
        files, tokenizer, out, minutes=minutes, total_minutes=total_minutes, workers=workers, recipe=recipe
    )
    exam = load_logs(files, exam=True)
    found = exact_plans(model, exam, Encoder(tokenizer), (512, 2048, 6000), each=24)
    scores = {f"{world} {length}": share for (world, length), share in sorted(found.items())}
    write_model(model, out, scores)
    practised = {world: len(logs) for world, logs in load_logs(files, exam=False).items()}
    state = torch.load(out / "checkpoint.pt", map_location="cpu", weights_only=True)
    card = model_card(recipe or Recipe(), state["step"], state["seconds"], practised, found)
    (out / "model" / "README.md").write_text(card, encoding="utf-8")
    return scores


def write_model(model: Any, out: Path, scores: dict[str, float]) -> None:
    """Weights as safetensors in bf16, with what `transformers` needs to load them."""
    model.to(torch.bfloat16).save_pretrained(out / "model")
    (out / "scores.json").write_text(json.dumps(scores, indent=1), encoding="utf-8")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "pad_token": PAD, "bos_token": BEGIN, "eos_token": END,
    }  # fmt: skip
    (out / "model" / "tokenizer.json").write_bytes((out / "tokenizer.json").read_bytes())
    (out / "model" / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def model_card(
    recipe: Recipe,
    steps: int,
    seconds: float,
    logs: Mapping[str, int],
    scores: Mapping[tuple[str, int], float],
) -> str:
    """What the model is, what it learnt from and how well: for whoever finds the folder."""
    tokens = steps * recipe.tokens_per_batch
    lengths = sorted({length for _, length in scores})
    table = [
        "| world | logs | " + " | ".join(f"{length} tokens" for length in lengths) + " |",
        "|---" * (2 + len(lengths)) + "|",
    ]
    for world in sorted(logs):
        shares = [scores.get((world, length)) for length in lengths]
        told = " | ".join("–" if share is None else f"{100 * share:.0f} %" for share in shares)
        table.append(f"| {world} | {logs[world]} | {told} |")
    return f"""# A planner for brace's worlds

A Llama of {recipe.layers} layers, width {recipe.hidden}, {recipe.positions} positions and its own byte-level
BPE in which numbers are single tokens. It reads the context of a world and writes the plan.

Trained from scratch by `brace planner train` for {seconds / 60:.1f} minutes on {tokens / 1e6:.0f} M
tokens ({steps} steps) of text that `brace planner data` recorded in brace's own worlds; the targets are the
plans of the worlds' perfect readers. Nothing else went in. It knows these worlds and no others, English least
of all. Licence: that of brace.

Share of plans that are exactly the reader's, token by token, on texts of held-out episodes:

{chr(10).join(table)}
"""


def exact_plans(
    model: Any,
    logs: dict[str, list[Log]],
    encoder: Encoder,
    lengths: tuple[int, ...],
    each: int,
    seed: int = 0,
) -> dict[tuple[str, int], float]:
    """By world and length: the share of lessons whose whole plan is the most likely text, token by token."""
    draw = random.Random(seed)
    hits: dict[tuple[str, int], list[bool]] = defaultdict(list)
    device = next(model.parameters()).device
    model.eval()
    for world, mine in logs.items():
        for length in lengths:
            for _ in range(each):
                log = draw.choice(mine)
                # Fewer characters than a token has on average, so that most texts keep to the length.
                lesson = make_lesson(log, reader_of(log), draw, int(length * 2.4))
                ids, weights, start = encoder.encode(lesson)
                end = start + weights[start:].count(PLAN_WEIGHT)
                # The model has no more positions.
                if end > 8192:
                    continue
                x = torch.tensor([ids[:end]], device=device)
                # Every text has a length of its own: compiling for each would take longer than reading.
                eager = torch.compiler.set_stance("force_eager")
                with eager, torch.inference_mode(), torch.autocast(device.type, torch.bfloat16):
                    hidden = model.model(x, use_cache=False).last_hidden_state[:, start - 1 : end - 1]
                    guess = model.lm_head(hidden)[0].argmax(-1).tolist()
                hits[world, length].append(guess == ids[start:end])
    model.train()
    return {key: sum(values) / len(values) for key, values in hits.items() if values}
