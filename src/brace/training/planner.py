"""Training the embedded planner: a small Llama learns to read long logs and write the plan they call for."""

from __future__ import annotations

import csv
import math
import multiprocessing
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from brace.errors import BraceError
from brace.training.lessons import ANSWER, QUESTION, Lesson, make_lesson
from brace.training.logs import Log, read_logs
from brace.training.readers import reader_of
from brace.training.tokenizer import BEGIN, END

HELD_OUT = 25
"""One log in so many is never practised on."""
LENGTHS = (512, 1024, 2048, 4096, 8192)
CONTEXT_WEIGHT, QUESTION_WEIGHT, PLAN_WEIGHT = 0.1, 0.5, 1.0
_CHARS_PER_TOKEN = 2.6
_IGNORED = -1


@dataclass(frozen=True)
class Recipe:
    """How to train. The defaults made the shipped planner."""

    hidden: int = 320
    layers: int = 12
    feed_forward: int = 896
    heads: int = 5
    positions: int = 8192
    rate: float = 1.5e-3
    warm_up: int = 200
    tokens_per_batch: int = 131_072
    stage_share: float = 0.1
    """The share of the time after which the next longer length joins in."""
    weights: dict[str, float] = field(default_factory=dict)
    """How often each world is practised; 1 where nothing is said."""


@dataclass(frozen=True)
class Batch:
    """Token ids and the weight of predicting each."""

    ids: NDArray[np.int32]
    weights: NDArray[np.float32]


def build_model(recipe: Recipe, vocabulary: int) -> Any:
    """A fresh model of the recipe's shape."""
    import transformers  # noqa: PLC0415 - an extra

    # Their signatures differ between versions.
    library: Any = transformers
    config = library.LlamaConfig(
        vocab_size=vocabulary, hidden_size=recipe.hidden, intermediate_size=recipe.feed_forward,
        num_hidden_layers=recipe.layers, num_attention_heads=recipe.heads, num_key_value_heads=recipe.heads,
        max_position_embeddings=recipe.positions, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 5e5},
        attn_implementation="sdpa", pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return library.LlamaForCausalLM(config)


class Encoder:
    """Lessons as ids and weights."""

    def __init__(self, tokenizer_file: Path) -> None:
        import tokenizers  # noqa: PLC0415 - an extra

        library: Any = tokenizers
        self._tokenizer = library.Tokenizer.from_file(str(tokenizer_file))
        self.size: int = self._tokenizer.get_vocab_size()
        self._begin = int(self._tokenizer.token_to_id(BEGIN))
        self._end = int(self._tokenizer.token_to_id(END))

    def encode(self, lesson: Lesson) -> tuple[list[int], list[float], int]:
        """Ids, weights, and where the plan begins."""
        ids = [self._begin, *self._ids(lesson.prompt)]
        weights = [CONTEXT_WEIGHT] * len(ids)
        start = len(ids)
        plan = [*self._ids(lesson.plan), self._end]
        ids, weights = ids + plan, weights + [PLAN_WEIGHT] * len(plan)
        for question, answer in lesson.questions:
            asked = self._ids(QUESTION + question + ANSWER)
            told = [*self._ids(answer), self._end]
            ids += asked + told
            weights += [0.0] * len(asked) + [QUESTION_WEIGHT] * len(told)
        return ids, weights, start

    def _ids(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return found


def load_logs(files: Sequence[Path], *, exam: bool) -> dict[str, list[Log]]:
    """Logs by world: those to practise on, or the one in `HELD_OUT` kept for the exam."""
    logs: dict[str, list[Log]] = {}
    for file in files:
        for number, log in enumerate(read_logs(file)):
            if (number % HELD_OUT == 0) == exam:
                logs.setdefault(log.world, []).append(log)
    if not logs:
        raise BraceError("no logs to learn from; make some with: brace planner data")
    return logs


def make_batch(
    logs: dict[str, list[Log]], encoder: Encoder, recipe: Recipe, draw: random.Random, length: int
) -> Batch:
    """Lessons of one length, as many as fill a batch."""
    rows = max(1, recipe.tokens_per_batch // length)
    ids = np.zeros((rows, length), np.int32)
    weights = np.zeros((rows, length), np.float32)
    names = list(logs)
    chances = [recipe.weights.get(name, 1.0) for name in names]
    row = 0
    while row < rows:
        (name,) = draw.choices(names, chances)
        log = draw.choice(logs[name])
        most = int(length * _CHARS_PER_TOKEN * draw.uniform(0.3, 1.0))
        lesson = make_lesson(log, reader_of(log), draw, most)
        found, weighed, start = encoder.encode(lesson)
        # Questions may be cut off, the plan may not.
        plan_end = start + weighed[start:].count(PLAN_WEIGHT)
        if plan_end > length:
            continue
        found, weighed = found[:length], weighed[:length]
        ids[row, : len(found)], weights[row, : len(found)] = found, weighed
        row += 1
    return Batch(ids, weights)


def _work(
    files: Sequence[Path], tokenizer_file: Path, recipe: Recipe, seed: int, queue: Any, stage: Any
) -> None:
    draw = random.Random(seed)
    torch.set_num_threads(1)
    logs, encoder = load_logs(files, exam=False), Encoder(tokenizer_file)
    while True:
        lengths = LENGTHS[: 1 + min(len(LENGTHS) - 1, int(stage.value))]
        length = draw.choice(lengths[-4:])
        batch = make_batch(logs, encoder, recipe, draw, length)
        queue.put((batch.ids, batch.weights))


def train(
    files: Sequence[Path],
    tokenizer_file: Path,
    out: Path,
    *,
    minutes: float,
    total_minutes: float | None = None,
    recipe: Recipe | None = None,
    seed: int = 1,
    workers: int = 2,
    tell: Callable[[str], None] = print,
) -> Any:
    """Train for so many minutes, going on from the checkpoint in `out` if there is one; the model.

    `total_minutes` is the length of the whole training if this is one sitting of several: the learning rate
    and the lengths follow it.
    """
    recipe = recipe or Recipe()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(seed)
    encoder = Encoder(tokenizer_file)
    model = build_model(recipe, encoder.size).to(device)
    fused = device == "cuda"
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=recipe.rate, betas=(0.9, 0.95), weight_decay=0.05, fused=fused
    )
    out.mkdir(parents=True, exist_ok=True)
    checkpoint = out / "checkpoint.pt"
    step, before = 0, 0.0
    if checkpoint.exists():
        # Our own file from an earlier sitting; tensors only, never pickled code.
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        step, before = state["step"], state["seconds"]
    total = 60 * (total_minutes or minutes)
    context = multiprocessing.get_context("spawn")
    stage: Any = context.Value("d", before / total / recipe.stage_share)
    queue: Any = context.Queue(4 * workers)
    helpers = [
        context.Process(
            target=_work,
            args=(files, tokenizer_file, recipe, 1000 * seed + step + number, queue, stage),
            daemon=True,
        )
        for number in range(workers)
    ]
    for helper in helpers:
        helper.start()
    curve = _Curve(out / "curve.csv", tell)
    begun = time.monotonic()
    try:
        while (spent := time.monotonic() - begun) < 60 * minutes:
            share = min(1.0, (before + spent) / total)
            stage.value = share / recipe.stage_share
            for group in optimiser.param_groups:
                group["lr"] = rate_at(recipe, step, share)
            ids, weights = _next(queue, helpers)
            loss, plan_loss = _train_step(model, optimiser, ids, weights, device)
            step += 1
            curve.add(step, before + spent, ids.shape[1], loss, plan_loss)
    finally:
        for helper in helpers:
            helper.terminate()
        curve.close()
    seconds = before + time.monotonic() - begun
    state = {
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
        "step": step,
        "seconds": seconds,
    }
    torch.save(state, checkpoint)
    return model


def _next(queue: Any, helpers: Sequence[Any]) -> tuple[Any, Any]:
    """The next batch; when those who make them have died, say so instead of waiting for ever."""
    while True:
        try:
            batch: tuple[Any, Any] = queue.get(timeout=5)
        except Empty:
            if not any(helper.is_alive() for helper in helpers):
                raise BraceError(
                    "the processes that make lessons have died; their errors are above"
                ) from None
        else:
            return batch


def rate_at(recipe: Recipe, step: int, share: float) -> float:
    """Warm up, then a cosine down to a twentieth."""
    warm = min(1.0, (step + 1) / recipe.warm_up)
    return recipe.rate * warm * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * share)))


def _train_step(model: Any, optimiser: Any, ids: Any, weights: Any, device: str) -> tuple[Any, Any]:
    x = torch.from_numpy(ids).long().to(device, non_blocking=True)
    w = torch.from_numpy(weights).to(device, non_blocking=True)[:, 1:].flatten()
    targets = torch.where(w > 0, x[:, 1:].flatten(), _IGNORED)
    backends = (
        [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH] if device == "cpu" else [SDPBackend.FLASH_ATTENTION]
    )
    with torch.autocast(device, torch.bfloat16), sdpa_kernel(backends):
        hidden = model.model(x).last_hidden_state[:, :-1].flatten(0, 1)
        # Only where something is to be learnt: the logits are the largest tensor here.
        wanted = targets != _IGNORED
        logits = model.lm_head(hidden[wanted])
    each = functional.cross_entropy(logits.float(), targets[wanted], reduction="none")
    w = w[wanted]
    loss: Any = (each * w).sum() / w.sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    with torch.no_grad():
        plan_loss = each[w == PLAN_WEIGHT].mean()
    return loss.detach(), plan_loss


class _Curve:
    """Writes the losses down, smoothed by length, every so often."""

    EVERY = 50

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        new = not path.exists()
        self._file = path.open("a", newline="", encoding="utf-8")
        self._rows = csv.writer(self._file)
        self._tell = tell
        self._plan: dict[int, list[Any]] = {}
        if new:
            self._rows.writerow(["step", "seconds", "length", "plan_loss"])

    def add(self, step: int, seconds: float, length: int, loss: Any, plan_loss: Any) -> None:
        self._plan.setdefault(length, []).append(plan_loss)
        if step % self.EVERY:
            return
        means = {size: float(torch.stack(values).mean()) for size, values in sorted(self._plan.items())}
        for size, value in means.items():
            self._rows.writerow([step, round(seconds, 1), size, round(value, 5)])
        self._file.flush()
        self._tell(
            f"{seconds:6.0f} s  step {step}  loss {float(loss):.3f}  plan "
            + "  ".join(f"{k}: {v:.4f}" for k, v in means.items())
        )
        self._plan = {}

    def close(self) -> None:
        self._file.close()
