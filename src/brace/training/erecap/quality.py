"""What cutting costs: the answer's loss, how far the next-token distribution moves, and exact answers.

Tokens are cut in the model; whole lines are cut before the text is read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from brace.erecap import Engine, Keep, PrefixScorer
from brace.erecap.schedule import pruning_layers
from brace.erecap.scorers import Predictor, Scorer
from brace.training.erecap.encoding import Item, batches_of, collate

Worth = Callable[[Item], Mapping[int, float]]
"""Of each line of an item."""


@dataclass(frozen=True)
class Quality:
    """Of one item."""

    loss: float
    """Mean next-token loss of the answer."""
    divergence: float
    """KL of the pruned model's next-token distribution from the whole one's, mean over the answer."""
    exact: bool
    """Every token of the answer is the likeliest."""
    kept: int
    """Tokens in the last layer."""


def keep_share(share: float, n_layers: int) -> Keep:
    """Even ratios that leave about this share in the last layer; 1 keeps all."""
    return Keep() if share >= 1 else Keep(ratio=share ** (1 / len(pruning_layers(n_layers))))


class Exam:
    """Items, and what the whole model writes after each: read once, compared with often."""

    def __init__(self, engine: Engine, items: Sequence[Item], batch_tokens: int = 8192) -> None:
        self.items = items
        self._engine, self._groups = engine, batches_of(items, batch_tokens)
        self._whole = [self._answers(group, Keep(), whole_lines=False) for group in self._groups]

    def measure(self, scorer: Scorer, keep: Keep, *, whole_lines: bool = False) -> list[Quality]:
        """With this scorer: one a piece, in their order."""
        scorer.check(self._engine.backbone)
        self._engine.scorer = scorer
        found: dict[int, Quality] = {}
        for group, whole in zip(self._groups, self._whole, strict=True):
            cut = whole if keep == Keep() else self._answers(group, keep, whole_lines=whole_lines)
            for place, before, after in zip(group, whole, cut, strict=True):
                found[place] = _quality(self.items[place], before[0], *after)
        return [found[place] for place in range(len(self.items))]

    def measure_texts(self, texts: Sequence[Item]) -> list[Quality]:
        """With other texts before the same answers, read whole."""
        found: dict[int, Quality] = {}
        for group, whole in zip(self._groups, self._whole, strict=True):
            cut = _answers(self._engine, [texts[place] for place in group], Keep(), whole_lines=False)
            for place, before, after in zip(group, whole, cut, strict=True):
                found[place] = _quality(texts[place], before[0], *after)
        return [found[place] for place in range(len(texts))]

    def _answers(self, group: Sequence[int], keep: Keep, *, whole_lines: bool) -> list[tuple[Tensor, int]]:
        return _answers(self._engine, [self.items[place] for place in group], keep, whole_lines=whole_lines)


def _answers(
    engine: Engine, items: Sequence[Item], keep: Keep, *, whole_lines: bool
) -> list[tuple[Tensor, int]]:
    """Logits of each item's answer, [tokens, vocabulary], and the tokens held in the last layer."""
    device = engine.backbone.device
    batch = collate([Item(item.ids[: item.prompt], item.prompt, item.segments, item.floor) for item in items])
    prefill = engine.prefill(
        batch.ids,
        batch.valid,
        keep=keep,
        floor=batch.floor,
        segments=batch.segments.to(device) if whole_lines else None,
    )
    held = prefill.survivors[-1].sum(1).tolist()
    first = prefill.context.logits[:, None]
    answers = [torch.tensor(item.ids[item.prompt : -1], dtype=torch.long) for item in items]
    longest = max(len(answer) for answer in answers)
    logits = first
    if longest:
        # A row whose answer is one token has nothing left to read: it reads a token that nobody looks at.
        ids = torch.stack([functional.pad(answer, (0, longest - len(answer))) for answer in answers])
        valid = torch.stack([torch.arange(longest) < max(1, len(answer)) for answer in answers])
        logits = torch.cat([first, engine.extend(prefill.context, ids, valid, every=True)], 1)
    return [(logits[row, : len(answers[row]) + 1], held[row]) for row in range(len(items))]


def _quality(item: Item, whole: Tensor, cut: Tensor, held: int) -> Quality:
    target = torch.tensor(item.ids[item.prompt :], device=cut.device)
    log_whole, log_cut = whole.float().log_softmax(-1), cut.float().log_softmax(-1)
    divergence = (log_whole.exp() * (log_whole - log_cut)).sum(-1).mean()
    return Quality(
        float(functional.nll_loss(log_cut, target)),
        float(divergence),
        bool((cut.argmax(-1) == target).all()),
        held,
    )


def judged_by(engine: Engine, predictor: Predictor) -> Worth:
    """By the mean of what the predictor says of a line's tokens."""

    def worth(item: Item) -> Mapping[int, float]:
        engine.scorer = predictor
        scores = PrefixScorer(engine, predictor.layers[0]).scores(item.ids[: item.prompt]).tolist()
        return {
            number: sum(scores[place] for place in places) / len(places)
            for number, places in _places(item).items()
        }

    return worth


def newest_first(item: Item) -> Mapping[int, float]:
    """The later, the better."""
    return {number: float(number) for number in _places(item)}


def by_chance(item: Item) -> Mapping[int, float]:
    """The same for the same item."""
    draw = random.Random(len(item.ids))
    return {number: draw.random() for number in _places(item)}


def cut_lines(item: Item, worth: Mapping[int, float], share: float) -> Item:
    """The item with the best lines that fit this share of the tokens that may go; protected ones stay."""
    places = _places(item)
    loose = {number for number, own in places.items() if not any(item.floor[place] for place in own)}
    room = share * sum(len(places[number]) for number in loose)
    gone = set(loose)
    for number in sorted(loose, key=lambda number: (worth[number], number), reverse=True):
        if len(places[number]) <= room:
            room -= len(places[number])
            gone.remove(number)
    kept = [place for place in range(item.prompt) if item.segments[place] not in gone]
    return Item(
        [*(item.ids[place] for place in kept), *item.ids[item.prompt :]],
        len(kept),
        [item.segments[place] for place in kept],
        [item.floor[place] for place in kept],
    )


def _places(item: Item) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for place, number in enumerate(item.segments):
        if number >= 0:
            places.setdefault(number, []).append(place)
    return places
