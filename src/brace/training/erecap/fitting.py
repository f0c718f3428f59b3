"""Stage 2: predictors learn from labelled items. An interrupted training resumes to the same result."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from brace.erecap.scorers import Predictor
from brace.errors import BraceError, ConfigError
from brace.training.erecap.encoding import batches_of, collate
from brace.training.erecap.frozen import FrozenModel
from brace.training.erecap.labels import Labelled, normalised
from brace.training.erecap.losses import terms

CHECKPOINT = "checkpoint.pt"
CURVE = "curve.csv"


@dataclass(frozen=True)
class Recipe:
    """How to fit. What the shipped predictors were fitted with stands on their cards."""

    steps: int = 1500
    rate: float = 2e-3
    ends_rate: float = 2e-2
    """Of the weights on the distance to either end: two numbers, with a longer way to go than others."""
    match: float = 1.0
    """λ1."""
    ranking: float = 1.0
    """λ2."""
    language: float = 1.0
    """The weight of the answer's loss; the paper has 1."""
    keeps: tuple[float, ...] = (0.5, 0.25, 0.12, 0.06, 0.03)
    """What the last pruning layer keeps of the tokens that may go: one of these, at random, in each step."""
    temperatures: tuple[float, float] = (0.2, 0.03)
    """Of the gates, at the beginning and at the end: from rather hard to hard."""
    batch_tokens: int = 16_384
    seed: int = 1

    def __post_init__(self) -> None:
        if (
            self.steps < 1
            or min(self.rate, self.ends_rate) <= 0
            or not all(0 < keep < 1 for keep in self.keeps)
        ):
            raise ConfigError("fitting: steps ≥ 1, rates > 0 and keeps between 0 and 1 are needed")
        if min(self.match, self.ranking, self.language) < 0 or self.match + self.ranking + self.language == 0:
            raise ConfigError("fitting: the weights of the three losses must be ≥ 0, and not all 0")


@dataclass(frozen=True)
class Progress:
    """One step's losses."""

    step: int
    language: float
    match: float
    ranking: float


def fit(
    model: FrozenModel,
    labelled: Sequence[Labelled],
    predictor: Predictor,
    recipe: Recipe,
    out: Path,
    *,
    checkpoint_every: int = 100,
) -> Iterator[Progress]:
    """Train `predictor` in place, telling each step. What is in `out` from before is gone on from."""
    device = model.backbone.device
    predictor.to(device).train()
    optimiser = torch.optim.AdamW(_weights(predictor, recipe), weight_decay=0.01)
    out.mkdir(parents=True, exist_ok=True)
    start = _resume(out / CHECKPOINT, predictor, optimiser, recipe, device)
    curve = _Curve(out / CURVE, start)
    groups = batches_of([one.item for one in labelled], recipe.batch_tokens)
    for step in range(start, recipe.steps):
        share = step / recipe.steps
        # All that is random in a step comes from its number: resuming needs no other state.
        # The factor keeps the steps of different seeds apart.
        choose = random.Random(recipe.seed * 1_000_003 + step)
        group = [labelled[place] for place in choose.choice(groups)]
        batch = collate([one.item for one in group]).to(device)
        targets = normalised(_stacked(group, batch.ids.shape[1]).to(device), batch.prompt)
        if not torch.isfinite(targets).all():
            raise BraceError("a label is not a finite number; delete the labels and make them again")
        first, last = recipe.temperatures
        found = terms(
            model,
            predictor,
            batch,
            targets,
            keep=choose.choice(recipe.keeps),
            temperature=first * (last / first) ** share,
            draw=torch.Generator(device).manual_seed(recipe.seed * 1_000_003 + step),
        )
        loss = recipe.language * found.language + recipe.match * found.match + recipe.ranking * found.ranking
        if not torch.isfinite(loss):
            raise BraceError(
                f"the loss of step {step} is not a finite number; lower the rate ({recipe.rate})"
            )
        for weights in optimiser.param_groups:
            warm = min(1.0, (step + 1) / 50)
            weights["lr"] = (
                weights["full_rate"] * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))
            )
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(predictor.parameters(), 1.0)
        optimiser.step()
        losses = torch.stack([found.language, found.match, found.ranking]).detach().tolist()
        progress = Progress(step + 1, *losses)
        curve.add(progress)
        if (step + 1) % checkpoint_every == 0 or step + 1 == recipe.steps:
            _save(out / CHECKPOINT, predictor, optimiser, recipe, step + 1)
        yield progress
    predictor.eval()


def _weights(predictor: Predictor, recipe: Recipe) -> list[dict[str, Any]]:
    """Two groups, each with the rate it has at its fastest."""
    ends = [weights for name, weights in predictor.named_parameters() if name.endswith(".ends")]
    others = [weights for name, weights in predictor.named_parameters() if not name.endswith(".ends")]
    rates = (recipe.rate, recipe.ends_rate)
    return [
        {"params": some, "lr": rate, "full_rate": rate}
        for some, rate in zip((others, ends), rates, strict=True)
    ]


def _stacked(group: Sequence[Labelled], tokens: int) -> Tensor:
    labels = torch.zeros(len(group[0].labels), len(group), tokens)
    for row, one in enumerate(group):
        labels[:, row, : one.item.prompt] = one.labels
    return labels


def _save(
    path: Path, predictor: Predictor, optimiser: torch.optim.Optimizer, recipe: Recipe, step: int
) -> None:
    state = {
        "predictor": predictor.state_dict(),
        "optimiser": optimiser.state_dict(),
        "recipe": _plain(recipe),
        "step": step,
    }
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    # Renamed when it is whole: an interruption leaves the checkpoint before.
    partial.replace(path)


def _resume(
    path: Path, predictor: Predictor, optimiser: torch.optim.Optimizer, recipe: Recipe, device: torch.device
) -> int:
    if not path.exists():
        return 0
    # Our own file from an earlier sitting; tensors only, never pickled code.
    state = torch.load(path, map_location=device, weights_only=True)
    if state["recipe"] != _plain(recipe):
        raise ConfigError(f"{path} is of a training with other settings; use another folder, or delete it")
    predictor.load_state_dict(state["predictor"])
    optimiser.load_state_dict(state["optimiser"])
    return int(state["step"])


def _plain(recipe: Recipe) -> dict[str, object]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(recipe).items()}


class _Curve:
    """The losses of all steps, as CSV. Steps after the last checkpoint are written again."""

    def __init__(self, path: Path, start: int) -> None:
        rows: list[list[str]] = []
        if path.exists() and start:
            with path.open(newline="", encoding="utf-8") as file:
                rows = list(csv.reader(file))[1 : start + 1]
        self._path = path
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["step", "language", "match", "ranking"], *rows])

    def add(self, told: Progress) -> None:
        with self._path.open("a", newline="", encoding="utf-8") as file:
            losses = (f"{value:.5f}" for value in (told.language, told.match, told.ranking))
            csv.writer(file).writerow([told.step, *losses])
