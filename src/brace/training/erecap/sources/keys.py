"""Facts by key, made up: several are given, one is asked for. Packing puts other records around them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from brace.training.erecap.examples import Example, Faults
from brace.training.erecap.sources.source import Record

_COUNT = 4000
_KEYS = [
    "amber", "basalt", "cedar", "delta", "ember", "fjord", "garnet", "harbor", "indigo", "juniper", "kelp",
    "lagoon", "maple", "nectar", "onyx", "pebble", "quartz", "raven", "saffron", "topaz", "umber", "velvet",
    "willow", "xenon", "yarrow", "zephyr",
]  # fmt: skip
_FACTS = 5


def key_records(_: Path, __: Faults) -> Iterator[Record]:
    """So many questions; nothing is read."""
    for number in range(_COUNT):
        yield Record(f"keys:{number}", partial(_made, number))


def _made(number: int, _: random.Random, __: int) -> Example:
    chance = random.Random(number)
    keys = chance.sample(_KEYS, _FACTS)
    codes = [str(chance.randrange(100_000, 1_000_000)) for _ in keys]
    facts = [f"The code of {key} is {code}.\n" for key, code in zip(keys, codes, strict=True)]
    task = f"Task: find the code of {keys[0]} in the notes.\n"
    asked = f"What is the code of {keys[0]}?\n"
    chance.shuffle(facts)
    return Example((task, *facts, asked), f"The code of {keys[0]} is {codes[0]}.", frozenset({0, _FACTS + 1}))
