"""Labelled items on disk, in shards that are whole or not there: an interrupted labelling goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from brace.errors import BraceError, ConfigError
from brace.training.erecap.encoding import Item, batches_of, collate
from brace.training.erecap.frozen import FrozenModel
from brace.training.erecap.labels import LABELS

SHARD = 128
"""Items in one file."""
_ABOUT = "about.json"


@dataclass(frozen=True)
class Labelled:
    """An item and its labels, [layers, prompt tokens]."""

    item: Item
    labels: Tensor


def label_to_disk(
    model: FrozenModel,
    items: Iterable[Item],
    folder: Path,
    *,
    kind: str,
    layers: Sequence[int],
    about: dict[str, Any],
    batch_tokens: int,
) -> Iterator[int]:
    """Label items and write them to `folder`, going on after the shards that are there; how many, as it goes.

    `about` says what the labels are of (model, data, seed …): a folder of other labels is refused.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _same(folder / _ABOUT, {**about, "kind": kind, "layers": list(layers)})
    done = _shards(folder)
    source = iter(items)
    count = sum(1 for _ in islice(source, SHARD * len(done)))
    yield count
    number = len(done)
    while some := list(islice(source, SHARD)):
        found: list[Tensor] = [torch.empty(0)] * len(some)
        for group in batches_of(some, batch_tokens):
            batch = collate([some[place] for place in group]).to(model.backbone.device)
            labels = LABELS[kind](model, batch, layers).cpu()
            if not torch.isfinite(labels).all():
                raise BraceError(
                    f"labels of kind {kind!r} are not finite in shard {number}: use float32 or bfloat16"
                )
            for row, place in enumerate(group):
                found[place] = labels[:, row, : some[place].prompt].clone()
        _write(folder / f"{number:05d}.safetensors", some, found)
        count, number = count + len(some), number + 1
        yield count


def read_labelled(folder: Path) -> list[Labelled]:
    """All items of a folder."""
    shards = _shards(folder)
    if not shards:
        raise ConfigError(f"no labels in {folder}: make them with `brace erecap train`")
    return [labelled for shard in shards for labelled in _read(shard)]


def _shards(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.safetensors"))
    for number, shard in enumerate(found):
        if shard.name != f"{number:05d}.safetensors":
            raise BraceError(f"{folder} misses shard {number}; delete the folder and label again")
    return found


def _same(path: Path, about: dict[str, Any]) -> None:
    if not path.exists():
        path.write_text(json.dumps(about, indent=1), encoding="utf-8")
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    other = [key for key in {*before, *about} if before.get(key) != about.get(key)]
    if other:
        told = ", ".join(f"{key} = {before.get(key)!r}, not {about.get(key)!r}" for key in sorted(other))
        raise ConfigError(f"the labels in {path.parent} are of other settings ({told}); use another folder")


def _write(path: Path, items: Sequence[Item], labels: Sequence[Tensor]) -> None:
    flat = {
        "ids": torch.tensor([token for item in items for token in item.ids], dtype=torch.int32),
        "lengths": torch.tensor([len(item.ids) for item in items], dtype=torch.int32),
        "prompts": torch.tensor([item.prompt for item in items], dtype=torch.int32),
        "segments": torch.tensor([number for item in items for number in item.segments], dtype=torch.int32),
        "floor": torch.tensor([mark for item in items for mark in item.floor], dtype=torch.bool),
        "labels": torch.cat(list(labels), 1).contiguous(),
    }
    partial = path.with_suffix(".partial")
    try:
        save_file(flat, str(partial))
        os.replace(partial, path)
    except (OSError, SafetensorError) as error:
        partial.unlink(missing_ok=True)
        raise BraceError(
            f"cannot write {path.name} ({error}); the shards before it are whole: make room and run again"
        ) from error


def _read(path: Path) -> Iterator[Labelled]:
    try:
        with safe_open(str(path), framework="pt") as file:
            flat = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, SafetensorError) as error:
        raise BraceError(f"{path} cannot be read ({error}); delete it and run again") from error
    ids = flat["ids"].split(flat["lengths"].tolist())
    prompts = flat["prompts"].tolist()
    segments, floor = flat["segments"].split(prompts), flat["floor"].split(prompts)
    labels = flat["labels"].split(prompts, 1)
    for number, prompt in enumerate(prompts):
        item = Item(ids[number].tolist(), prompt, segments[number].tolist(), floor[number].tolist())
        yield Labelled(item, labels[number])
