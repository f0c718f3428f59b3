"""Mixtures of sources to train on, and drawing examples from them.

Which records are drawn is decided by number before any is taken apart, over the whole of a source: ALFRED,
for one, lies sorted by kind of task, and its first thousand would all be of one kind. An archive is therefore
gone through once to count it (seconds) and once for each thousand examples, up to the last record wanted;
only records that were drawn are parsed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

from brace.errors import ConfigError, suggestion
from brace.training.erecap.examples import MOST_CHARS, Example, Faults
from brace.training.erecap.sources import SOURCES, Source

HELD_OUT = 20
"""One record in so many of each source is never trained on."""
_BLOCK = 1000
"""So many examples of a source are in memory at a time."""


def _with(base: Mapping[str, int], percent: int, **others: int) -> dict[str, int]:
    """So many percent of a mixture, and percents of other sources."""
    mixed = {name: part * percent for name, part in base.items()}
    return mixed | {name: part * sum(base.values()) for name, part in others.items()}


# About in proportion to how many records each has.
_INSTRUCT = {"alpaca": 72, "dolly": 24, "self_instruct": 4}
_PERMISSIVE_INSTRUCT = {"dolly": 88, "self_instruct": 12}

RECIPES: dict[str, dict[str, int]] = {
    "instruct": _INSTRUCT,
    "instruct+alfred": _with(_INSTRUCT, 90, alfred=10),
    "instruct+teach": _with(_INSTRUCT, 90, teach=10),
    "instruct+babyai": _with(_INSTRUCT, 90, babyai_runs=10),
    "mixed": _with(_INSTRUCT, 85, alfred=5, teach=5, babyai_runs=5),
    "permissive": _with(_PERMISSIVE_INSTRUCT, 85, alfred=5, teach=5, babyai_runs=5),
    "broad": _with(
        _PERMISSIVE_INSTRUCT, 50, alfred=10, teach=10, babyai_runs=10, multi_agent=10, multi_news=5, keys=5
    ),
    "embodied": {"alfred": 1, "teach": 1, "babyai_runs": 1, "multi_agent": 1},
    "worlds": {"worlds": 1},
}
"""Parts of each source. The first five are the paper's; `permissive` is `mixed` without Alpaca, `broad` has
more of the embodied in it, and news and made-up facts."""


def draw_examples(
    recipe: str,
    data_root: Path,
    count: int,
    seed: int,
    faults: Faults,
    *,
    held_out: bool,
    most_chars: int = MOST_CHARS,
) -> Iterator[Example]:
    """So many examples in random order, the same for the same seed and data.

    Held-out records and those to train on are never the same. A source with too few records is gone through
    again; its episodes are then cut elsewhere.
    """
    if recipe not in RECIPES:
        raise ConfigError(f"unknown recipe {recipe!r}{suggestion(recipe, RECIPES)}")
    counts = shares_of(RECIPES[recipe], count)
    for name in counts:
        SOURCES[name].require(data_root / SOURCES[name].folder)
    return _drawn(counts, data_root, seed, faults, held_out, most_chars)


def shares_of(parts: Mapping[str, int], count: int) -> dict[str, int]:
    """How many of each, in whole numbers that sum up to the count; each is off by less than one."""
    total = sum(parts.values())
    whole = {name: count * part // total for name, part in parts.items()}
    by_rest = sorted(parts, key=lambda name: (-(count * parts[name] % total), name))
    for name in by_rest[: count - sum(whole.values())]:
        whole[name] += 1
    return {name: share for name, share in whole.items() if share}


def _drawn(
    counts: Mapping[str, int], data_root: Path, seed: int, faults: Faults, held_out: bool, most_chars: int
) -> Iterator[Example]:
    streams = {
        name: _endless(SOURCES[name], data_root, share, seed, faults, held_out, most_chars)
        for name, share in counts.items()
    }
    chance, left = random.Random(seed), dict(counts)
    while left:
        # As from an urn, so that the shares are met exactly.
        (name,) = chance.choices(list(left), list(left.values()))
        yield next(streams[name])
        left[name] -= 1
        if not left[name]:
            del left[name]


def _endless(
    source: Source, data_root: Path, share: int, seed: int, faults: Faults, held_out: bool, most_chars: int
) -> Iterator[Example]:
    """A source's examples, over and over."""
    path = data_root / source.folder
    # By source, so that others in the mixture change nothing of its draws.
    chance = random.Random(f"{source.name} {seed}")
    numbers = [n for n in range(source.count(path, faults)) if (n % HELD_OUT == 0) == held_out]
    size = min(share, _BLOCK)
    while True:
        chance.shuffle(numbers)
        cuts = chance.getrandbits(32)
        found = False
        for start in range(0, len(numbers), size):
            only = set(numbers[start : start + size])
            block = list(source.load(path, faults, only=only, seed=cuts, most_chars=most_chars))
            chance.shuffle(block)
            found = found or bool(block)
            yield from block
        if not found:
            kind = "held-out" if held_out else "training"
            raise ConfigError(
                f"{path} has no good {kind} record for {source.name!r}; it comes from {source.origin}"
            )
