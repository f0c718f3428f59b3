"""Texts cut by whole lines before they are read: what a predictor of lines is tried on."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from brace.erecap import Engine, PrefixScorer
from brace.erecap.scorers import Predictor
from brace.training.erecap.encoding import Item

Worth = Callable[[Item], Mapping[int, float]]
"""Of each line of an item."""


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
