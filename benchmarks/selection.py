"""Which selector keeps what the answer needs? Held-out texts, pruned in the model by each, to like lengths.

    python benchmarks/selection.py embedded --data runs/planner/logs --sets babyai-v1 lift-v1 --keep 1024 512
    python benchmarks/selection.py smollm2 --data data --sets dolly teach --keep 0.25 0.1 \\
        --predictor ours=runs/erecap/predictor.safetensors

A keep of 1 or less is a share of the tokens in the last layer, above that a budget. Shown: the share of exact
answers, the answer's loss, and the divergence (KL) from the whole model's next-token distribution, each with
its 95 % interval over the texts. On a GPU if there is one.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from brace.erecap import Engine, Keep
from brace.erecap.models import TOKENS, load_model
from brace.erecap.schedule import HEAD, TAIL_LEAST
from brace.erecap.scorers import Predictor, Scorer
from brace.errors import ConfigError
from brace.ledger.intervals import wilson
from brace.planners.local import EMBEDDED
from brace.registry import scorers
from brace.training.erecap.encoding import Item, ItemEncoder
from brace.training.erecap.examples import Example, Faults, packed
from brace.training.erecap.quality import Exam, Quality, keep_share
from brace.training.erecap.recipes import HELD_OUT
from brace.training.erecap.sources import SOURCES

RULES = ("random", "recency", "head-tail", "hidden-norm", "attention")
_CHARS_PER_TOKEN = 2.9
_ROUNDS = 40


def unseen(name: str, data: Path, most_chars: int) -> Iterator[Example]:
    """Held-out examples of a source, or of a world's logs, over and over with other cuts."""
    source = SOURCES.get(name, SOURCES["worlds"])
    files = [data / source.folder] if name in SOURCES else sorted(data.glob(f"{name}.*.xz"))
    faults = Faults()
    for seed in range(_ROUNDS):
        for file in files:
            only = set(range(0, source.count(file, faults), HELD_OUT))
            yield from source.load(file, faults, only=only, seed=seed, most_chars=most_chars)


def items_of(name: str, data: Path, encoder: ItemEncoder, count: int, most: int) -> list[Item]:
    """So many texts of 45 % to 100 % of the longest length."""
    chars = int(most * _CHARS_PER_TOKEN)
    examples = unseen(name, data, chars)
    found: list[Item] = []
    for example in examples if name not in SOURCES else packed(examples, chars, 0):
        item = encoder.encode(example, 2 * most)
        if item is not None and item.prompt > 0.45 * most:
            found.append(item)
        if len(found) == 4 * count:
            break
    random.Random(0).shuffle(found)
    return found[:count]


def can_be_cut(item: Item, keeps: list[Keep], n_layers: int) -> bool:
    """Whether there is room beside what may never be pruned, at every one of these."""
    floors = sum(item.floor[HEAD : item.prompt - TAIL_LEAST])
    try:
        for keep in keeps:
            keep.schedule(item.prompt, n_layers, floors)
    except ConfigError:
        return False
    return True


def summary(qualities: list[Quality]) -> dict[str, Any]:
    """Means with their intervals."""
    exact = [one.exact for one in qualities]
    low, high = wilson(sum(exact), len(exact))
    row = {"n": len(exact), "exact": np.mean(exact), "exact_low": low, "exact_high": high}
    for name in ("loss", "divergence"):
        values = np.array([getattr(one, name) for one in qualities])
        again = np.random.default_rng(0).choice(values, (2000, len(values))).mean(1)
        row[name] = values.mean()
        row[f"{name}_low"], row[f"{name}_high"] = np.percentile(again, (2.5, 97.5))
    row["kept"] = np.mean([one.kept for one in qualities])
    return {key: round(float(value), 4) for key, value in row.items()}


def selectors(given: argparse.Namespace) -> dict[str, Scorer]:
    """The simple rules, the shipped predictor of the embedded planner, and those named."""
    found: dict[str, Scorer] = {name: scorers.create(name) for name in given.rules}
    if given.model == "embedded":
        found = {"erecap": Predictor(EMBEDDED / TOKENS), **found}
    for named in given.predictor:
        name, _, path = named.partition("=")
        found[name] = Predictor(path)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="embedded, smollm2 or a folder")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", required=True, help="sources, or worlds with logs")
    parser.add_argument("--keep", nargs="+", type=float, default=[0.5, 0.25, 0.1, 0.06])
    parser.add_argument("--rules", nargs="+", default=list(RULES))
    parser.add_argument("--predictor", nargs="*", default=[], metavar="NAME=PATH")
    parser.add_argument("--texts", type=int, default=48)
    parser.add_argument("--most-tokens", type=int, default=4000)
    parser.add_argument("--out", type=Path, default=None, help="a CSV file to write")
    given = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    dtype = torch.bfloat16 if on_gpu else torch.float32
    model, tokenizer = load_model(EMBEDDED if given.model == "embedded" else given.model, dtype)
    engine = Engine(model.to("cuda") if on_gpu else model)
    encoder, console, rows = ItemEncoder(tokenizer), Console(), []
    n_layers = engine.backbone.n_layers
    keeps = {keep: keep_share(keep, n_layers) if keep <= 1 else Keep(budget=int(keep)) for keep in given.keep}
    for name in given.sets:
        items = items_of(name, given.data, encoder, given.texts, given.most_tokens)
        fit = [item for item in items if can_be_cut(item, list(keeps.values()), n_layers)]
        if len(fit) < len(items):
            console.print(f"{name}: {len(items) - len(fit)} of {len(items)} texts left out: too many floors")
        if not fit:
            continue
        exam = Exam(engine, fit)
        rows.append(
            {"set": name, "selector": "whole", "keep": 1, **summary(exam.measure(engine.scorer, Keep()))}
        )
        for keep, kept in keeps.items():
            for selector, scorer in selectors(given).items():
                measured = summary(exam.measure(scorer, kept))
                rows.append({"set": name, "selector": selector, "keep": keep, **measured})
        table = Table("selector", "keep", "exact", "loss", "KL", "kept", title=name)
        for row in rows:
            if row["set"] == name:
                shown = [row["selector"], f"{row['keep']:g}", f"{row['exact']:.0%}"]
                table.add_row(*shown, f"{row['loss']:.3f}", f"{row['divergence']:.3f}", f"{row['kept']:.0f}")
        console.print(table)
    if not rows:
        raise SystemExit("no text has room beside its floors at these keeps; try larger ones")
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with given.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
