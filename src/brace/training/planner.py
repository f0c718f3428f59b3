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

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from brace.errors import BraceError
from brace.training.batches import PLAN_WEIGHT, QUESTION_WEIGHT, Encoder, Practice, load_logs, make_batch

LENGTHS = (512, 1024, 2048, 4096, 8192)
_OFTEN = (2.0, 2.0, 2.0, 1.0, 0.5)
"""How often each length is practised, once it is: plans are wanted of short texts more than of long ones."""
_IGNORED = -1


@dataclass(frozen=True)
class Recipe:
    """How to train. The defaults made the shipped planner."""

    hidden: int = 320
    """The model's width."""
    layers: int = 12
    feed_forward: int = 896
    heads: int = 5
    positions: int = 8192
    """Tokens a text may have."""
    rate: float = 1.5e-3
    """The learning rate at its highest."""
    warm_up: int = 200
    """Steps until then."""
    tokens_per_batch: int = 131_072
    stage_share: float = 0.1
    """The share of the time after which the next longer length joins in."""
    shares: dict[str, float] = field(default_factory=lambda: {"babyai-v1": 2.0})
    """How often each world is practised; 1 where nothing is said."""


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


def _work(
    files: Sequence[Path], tokenizer_file: Path, recipe: Recipe, seed: int, queue: Any, stage: Any
) -> None:
    draw = random.Random(seed)
    # Helpers work side by side: with more threads they would take each other's cores.
    torch.set_num_threads(1)
    practice, encoder = Practice(load_logs(files, exam=False)), Encoder(tokenizer_file)
    lengths = practice.lengths(LENGTHS)
    while True:
        known = 1 + min(len(lengths) - 1, int(stage.value))
        (length,) = draw.choices(lengths[:known], _OFTEN[:known])
        batch = make_batch(
            practice, encoder, draw, rows=max(1, recipe.tokens_per_batch // length), length=length,
            shares=recipe.shares,
        )  # fmt: skip

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
    optimisers = _optimisers(model, recipe)
    out.mkdir(parents=True, exist_ok=True)
    checkpoint = out / "checkpoint.pt"
    step, before = 0, 0.0
    if checkpoint.exists():
        # Our own file from an earlier sitting; tensors only, never pickled code.
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        for optimiser, kept in zip(optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(kept)
        step, before = state["step"], state["seconds"]
    if device == "cuda":
        for layer in model.model.layers:
            # Lengths are few and fixed, so a compiled form for each is worth its time.
            layer.compile(dynamic=False)
    total = 60 * (total_minutes or minutes)
    # CUDA does not survive a fork.
    context = multiprocessing.get_context("spawn")
    stage: Any = context.Value("d", before / total / recipe.stage_share)
    queue: Any = context.Queue(4 * workers)
    helpers = [
        context.Process(
            target=_work,
            # With the step, so that a later sitting does not practise the same lessons again.
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
            for optimiser in optimisers:
                for group in optimiser.param_groups:
                    group["lr"] = rate_at(recipe, step, share)
            ids, weights = _next(queue, helpers)
            losses = _train_step(model, optimisers, ids, weights, device)
            step += 1
            curve.add(step, before + spent, ids.shape[1], losses)
    finally:
        for helper in helpers:
            helper.terminate()
        curve.close()
    seconds = before + time.monotonic() - begun
    state = {
        "model": model.state_dict(),
        "optimisers": [optimiser.state_dict() for optimiser in optimisers],
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


def _optimisers(model: Any, recipe: Recipe) -> list[Any]:
    """Muon for the layers' matrices, which learn from less text with it; AdamW for all it is not made for."""
    if not hasattr(torch.optim, "Muon"):
        raise BraceError("training needs torch.optim.Muon; install torch>=2.9")
    matrices = [weight for weight in model.model.layers.parameters() if weight.ndim == 2]
    known = {id(weight) for weight in matrices}
    others = [weight for weight in model.parameters() if id(weight) not in known]
    return [
        # Its steps are scaled to those of AdamW, so that one rate serves both.
        torch.optim.Muon(matrices, lr=recipe.rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=recipe.rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def _train_step(model: Any, optimisers: Sequence[Any], ids: Any, weights: Any, device: str) -> dict[str, Any]:
    x = torch.from_numpy(ids).long().to(device, non_blocking=True)
    w = torch.from_numpy(weights).to(device, non_blocking=True)[:, 1:].flatten()
    targets = torch.where(w > 0, x[:, 1:].flatten(), _IGNORED)
    # Named, because cuDNN's attention, which may be chosen otherwise, plans anew for every length.
    backends = (
        [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH] if device == "cpu" else [SDPBackend.FLASH_ATTENTION]
    )
    with torch.autocast(device, torch.bfloat16), sdpa_kernel(backends):
        hidden = model.model(x, use_cache=False).last_hidden_state[:, :-1].flatten(0, 1)
        # Only where something is to be learnt: the logits are the largest tensor here.
        wanted = targets != _IGNORED
        logits = model.lm_head(hidden[wanted])
    each = functional.cross_entropy(logits.float(), targets[wanted], reduction="none")
    w = w[wanted]
    loss: Any = (each * w).sum() / w.sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimiser in optimisers:
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    each = each.detach()
    return {"plan": each[w == PLAN_WEIGHT].mean(), "facts": each[w == QUESTION_WEIGHT].mean()}


class _Curve:
    """Writes the losses of plans and answers down, by length, every so often."""

    EVERY = 50

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        new = not path.exists()
        self._file = path.open("a", newline="", encoding="utf-8")
        self._rows = csv.writer(self._file)
        self._tell = tell
        self._losses: dict[tuple[str, int], list[Any]] = {}
        if new:
            self._rows.writerow(["step", "seconds", "length", "of", "loss"])

    def add(self, step: int, seconds: float, length: int, losses: dict[str, Any]) -> None:
        for of, loss in losses.items():
            self._losses.setdefault((of, length), []).append(loss)
        if step % self.EVERY:
            return
        # A batch without plans, or without questions, has no mean.
        means = {key: float(torch.stack(found).nanmean()) for key, found in sorted(self._losses.items())}
        for (of, size), value in means.items():
            self._rows.writerow([step, round(seconds, 1), size, of, round(value, 5)])
        self._file.flush()
        told = "  ".join(f"{of} {size}: {value:.4f}" for (of, size), value in means.items())
        self._tell(f"{seconds:6.0f} s  step {step}  {told}")
        self._losses = {}

    def close(self) -> None:
        self._file.close()
