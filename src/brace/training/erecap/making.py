"""From data to a predictor that can be shipped: examples, labels, fitting, a check on unseen texts, card."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from brace.erecap import Engine, pruning_layers
from brace.erecap.models import LINES, TOKENS
from brace.erecap.scorers import Predictor, Random, Recency, Scorer
from brace.errors import ConfigError, suggestion
from brace.training.erecap.encoding import Item, ItemEncoder
from brace.training.erecap.examples import Faults, packed, said_once
from brace.training.erecap.fitting import Recipe, fit
from brace.training.erecap.frozen import FrozenModel
from brace.training.erecap.labels import LABELS, label_to_disk, read_labelled
from brace.training.erecap.quality import (
    Exam,
    Quality,
    by_chance,
    cut_lines,
    judged_by,
    keep_share,
    newest_first,
)
from brace.training.erecap.recipes import RECIPES, draw_examples
from brace.training.erecap.sources import SOURCES

WORLDS = "worlds"
"""Our own worlds' contexts are as long as they come: they are read alone."""
CARD = "README.md"
SHARES = (0.5, 0.25, 0.1, 0.06)
# An estimate: what turns out too long is left out when it has been encoded.
_CHARS_PER_TOKEN = 3.0
_ENOUGH = 10
"""So many times the wanted number of examples are looked at before it is said that too few fit."""

Tell = Callable[[str, int, int], None]
"""(what is being done, how far, of how much)."""


@dataclass(frozen=True)
class Job:
    """What to make a predictor from."""

    mixture: str
    """A recipe of `recipes.RECIPES`."""
    data: Path
    examples: int = 2000
    most_tokens: int = 1024
    labels: str = "saliency"
    lines: bool = False
    """Learn to rank whole lines of a text that is cut before it is read, instead of tokens in the model."""
    held_out: int = 48
    fitting: Recipe = field(default_factory=Recipe)

    def __post_init__(self) -> None:
        if self.labels not in LABELS:
            raise ConfigError(f"unknown labels {self.labels!r}{suggestion(self.labels, LABELS)}")
        if self.mixture not in RECIPES:
            raise ConfigError(f"unknown recipe {self.mixture!r}{suggestion(self.mixture, RECIPES)}")
        if self.examples < 1 or self.held_out < 1 or self.most_tokens < 64:
            raise ConfigError("examples ≥ 1, held_out ≥ 1 and most_tokens ≥ 64 are needed")


def make_predictor(model: Any, tokenizer: Any, job: Job, out: Path, tell: Tell) -> Predictor:
    """Label, fit, check; the predictor and its card go to `out`. Goes on where it was stopped."""
    encoder, faults = ItemEncoder(tokenizer), Faults()
    job = replace(job, most_tokens=min(job.most_tokens, model.config.max_position_embeddings))
    items = items_of(job, encoder, job.examples, faults, held_out=False)
    predictor = train_on(model, items, job, out, tell)
    unseen = list(items_of(job, encoder, job.held_out, faults, held_out=True))
    scores = held_out_scores(Engine(model), unseen, predictor)
    predictor.cpu().save(
        out / (LINES if job.lines else TOKENS),
        data=job.mixture,
        labels=job.labels,
        licences="; ".join(f"{name}: {SOURCES[name].licence}" for name in RECIPES[job.mixture]),
    )
    (out / CARD).write_text(_card(job, predictor, scores, faults), encoding="utf-8")
    return predictor


def train_on(model: Any, items: Iterable[Item], job: Job, out: Path, tell: Tell) -> Predictor:
    """Both stages, on items that are at hand."""
    frozen = FrozenModel(model)
    backbone = frozen.backbone
    layers = pruning_layers(backbone.n_layers)
    if not layers:
        raise ConfigError(f"a model of {backbone.n_layers} layers has no pruning layer")
    # Lines are judged where most has been understood: as late as pruning goes.
    layers = layers[-1:] if job.lines else layers
    about = {
        "model": backbone.config.model_type, "width": backbone.hidden, "mixture": job.mixture,
        "examples": job.examples, "most_tokens": job.most_tokens, "seed": job.fitting.seed,
    }  # fmt: skip
    for count in label_to_disk(
        frozen, items, out / "labels", kind=job.labels, layers=layers, about=about,
        batch_tokens=job.fitting.batch_tokens,
    ):  # fmt: skip
        tell("labelling", count, job.examples)
    # Here, so that fresh weights are the same whether labels were made now or before.
    torch.manual_seed(job.fitting.seed)
    predictor = Predictor.fresh(backbone.config.model_type, backbone.hidden, layers, lines=job.lines)
    for progress in fit(frozen, read_labelled(out / "labels"), predictor, job.fitting, out):
        tell("fitting", progress.step, job.fitting.steps)
    return predictor.eval()


def items_of(job: Job, encoder: ItemEncoder, count: int, faults: Faults, *, held_out: bool) -> Iterator[Item]:
    """So many items that are short enough."""
    seed, most_chars = job.fitting.seed, int(job.most_tokens * _CHARS_PER_TOKEN)
    examples = draw_examples(
        job.mixture, job.data, _ENOUGH * count, seed, faults, held_out=held_out, most_chars=most_chars
    )
    if job.mixture != WORLDS:
        examples = packed(examples, most_chars, seed)
    if job.lines:
        examples = map(said_once, examples)
    return _first(count, (encoder.encode(example, job.most_tokens) for example in examples), job)


def _first(count: int, items: Iterable[Item | None], job: Job) -> Iterator[Item]:
    for item in items:
        if count == 0:
            return
        if item is not None:
            count -= 1
            yield item
    if count:
        raise ConfigError(
            f"too few examples of {job.mixture!r} fit {job.most_tokens} tokens; allow longer ones"
        )


def held_out_scores(engine: Engine, items: list[Item], predictor: Predictor) -> dict[str, list[float]]:
    """The mean divergence from the whole model at each of `SHARES`, of the predictor and simple rules."""
    exam = Exam(engine, items)
    if predictor.lines:
        rules = {"E-RECAP": judged_by(engine, predictor), "recency": newest_first, "random": by_chance}
        worths = {name: [rule(item) for item in items] for name, rule in rules.items()}
        return {
            name: [
                _mean(
                    exam.measure_texts([cut_lines(*pair, share) for pair in zip(items, worth, strict=True)])
                )
                for share in SHARES
            ]
            for name, worth in worths.items()
        }
    n_layers = engine.backbone.n_layers
    rivals: dict[str, Scorer] = {"E-RECAP": predictor, "recency": Recency(), "random": Random()}
    return {
        name: [_mean(exam.measure(scorer, keep_share(share, n_layers))) for share in SHARES]
        for name, scorer in rivals.items()
    }


def _mean(qualities: list[Quality]) -> float:
    return statistics.mean(one.divergence for one in qualities)


def _card(job: Job, predictor: Predictor, scores: dict[str, list[float]], faults: Faults) -> str:
    rows = [
        f"| {name} | " + " | ".join(f"{value:.3f}" for value in values) + " |"
        for name, values in scores.items()
    ]
    shares = " | ".join(f"{share:.0%}" for share in SHARES)
    sources = "\n".join(
        f"- {name}: {SOURCES[name].licence}; {SOURCES[name].origin}" for name in RECIPES[job.mixture]
    )
    kept = "what may be cut that is kept, by whole lines" if job.lines else "tokens kept in the last layer"
    free = all(SOURCES[name].permissive for name in RECIPES[job.mixture])
    return f"""# An E-RECAP predictor

For a {predictor.model} of width {predictor.width}; layers {", ".join(map(str, predictor.layers))}.
Made by `brace erecap train`: {job.examples} examples of the mixture `{job.mixture}`, of up to
{job.most_tokens} tokens, labels `{job.labels}`, {job.fitting.steps} steps ({job.fitting.language:g} L_L +
{job.fitting.match:g} L_M + {job.fitting.ranking:g} L_R). Records left out as broken: {faults.count}.

Data and licences ({"for any use" if free else "NOT for every use: see below"}):
{sources}

On {job.held_out} held-out texts: how far the next-token distribution over the answer moves from the whole
model's (KL, mean), by the share of {kept}:

| | {shares} |
|---{"|---" * len(SHARES)}|
{chr(10).join(rows)}
"""
