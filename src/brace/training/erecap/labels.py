"""What a token is worth, by several yardsticks: the targets that predictors learn, and their place on disk.

All look at the answer: what of the prompt does the model need to write it? Each gives, per pruning layer, one
number of at least 0 for every prompt token; `normalised` makes them comparable between texts. Labelled items
are kept in shards that are whole or not there: an interrupted labelling goes on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from brace.errors import BraceError, ConfigError
from brace.training.erecap.encoding import Batch, Item, batches_of, collate
from brace.training.erecap.frozen import GONE, FrozenModel

Labeller = Callable[[FrozenModel, Batch, Sequence[int]], Tensor]
"""(model, batch, pruning layers) → [layers, rows, tokens]."""
_ROWS_AT_ONCE = 16
_LEAST = 1e-6
SHARD = 128
"""Items in one file."""
_ABOUT = "about.json"


def saliency(model: FrozenModel, batch: Batch, layers: Sequence[int]) -> Tensor:
    """|<∂ℓ/∂h, h>| of the answer's loss. Unsigned: what raises it and what lowers it both matter."""
    entered: dict[int, Tensor] = {}

    def note(layer: int, hidden: Tensor) -> None:
        if layer in layers:
            entered[layer] = hidden

    with torch.enable_grad():
        hidden = model.read(batch.ids, note)
        # The sum over rows: one row's gradient does not depend on the others.
        loss = model.answer_losses(hidden, batch.ids, batch.answer).sum()
        states = [entered[layer] for layer in layers]
        grads = torch.autograd.grad(loss, states)
    products = [
        (grad.float() * state.detach().float()).sum(-1).abs()
        for grad, state in zip(grads, states, strict=True)
    ]
    return torch.stack(products) * batch.prompt


@torch.no_grad()
def attention(model: FrozenModel, batch: Batch, layers: Sequence[int]) -> Tensor:
    """The attention a prompt token gets from the answer's, mean over heads, in each pruning layer."""
    found: dict[int, Tensor] = {}
    backbone = model.backbone
    positions = torch.arange(batch.ids.shape[1], device=batch.ids.device)[None]
    causal = positions[0][None, :] <= positions[0][:, None]

    def look(layer: int, hidden: Tensor) -> None:
        if layer not in layers:
            return
        queries, keys = backbone.queries_and_keys(layer, hidden, backbone.rotate(hidden, positions))
        keys = keys.repeat_interleave(queries.shape[1] // keys.shape[1], 1)
        rows = []
        for row in range(len(batch.ids)):
            asking = batch.answer[row]
            scores = queries[row][:, asking].float() @ keys[row].float().transpose(1, 2)
            scores = scores / queries.shape[-1] ** 0.5
            scores = scores.masked_fill(~causal[asking], -torch.inf)
            rows.append(scores.softmax(-1).mean((0, 1)))
        found[layer] = torch.stack(rows)

    model.read(batch.ids, look)
    return torch.stack([found[layer] for layer in layers]) * batch.prompt


def counterfactual(model: FrozenModel, batch: Batch, layers: Sequence[int]) -> Tensor:
    """By how much the answer's loss grows when the token's line is not there."""
    return _removal(model, batch, layers, by_loss=True)


def next_action(model: FrozenModel, batch: Batch, layers: Sequence[int]) -> Tensor:
    """How much of the answer would be written otherwise if the token's line were not there."""
    return _removal(model, batch, layers, by_loss=False)


LABELS: dict[str, Labeller] = {
    "saliency": saliency,
    "attention": attention,
    "counterfactual": counterfactual,
    "next-action": next_action,
}


def normalised(labels: Tensor, prompt: Tensor) -> Tensor:
    """Logarithms with mean 0 and spread 1 over each row's prompt; 0 elsewhere. [layers, rows, tokens]."""
    # Relative to the largest, because the scale of labels differs from text to text.
    logs = (labels.float() + _LEAST * (1 + labels.amax(-1, keepdim=True))).log()
    count = prompt.sum(-1, keepdim=True).clamp(min=1)
    mean = (logs * prompt).sum(-1, keepdim=True) / count
    spread = (((logs - mean) ** 2 * prompt).sum(-1, keepdim=True) / count).sqrt()
    return (logs - mean) / (spread + 1e-4) * prompt


def _from_the_first(gates: Tensor, layer: int, _: Tensor) -> Tensor | None:
    return gates if layer == 0 else None


@torch.no_grad()
def _removal(model: FrozenModel, batch: Batch, layers: Sequence[int], *, by_loss: bool) -> Tensor:
    found = torch.zeros(batch.ids.shape, device=batch.ids.device)
    for row in range(len(batch.ids)):
        length = int(batch.valid[row].sum())
        ids, answer = batch.ids[row : row + 1, :length], batch.answer[row : row + 1, :length]
        segments = batch.segments[row, :length]
        whole = model.read(ids)
        loss, written = model.answer_losses(whole, ids, answer), model.answer_tokens(whole, answer)
        numbers = torch.unique(segments[segments >= 0])
        for some in numbers.split(_ROWS_AT_ONCE):
            gone = segments[None, :] == some[:, None]
            gates = torch.where(gone, GONE, 0.0)
            many = ids.expand(len(some), -1), answer.expand(len(some), -1)
            hidden = model.read(many[0], partial(_from_the_first, gates))
            if by_loss:
                change = (model.answer_losses(hidden, *many) - loss).clamp(min=0)
            else:
                tokens = model.answer_tokens(hidden, many[1]).view(len(some), -1)
                change = (tokens != written).float().mean(1)
            found[row, :length] += (change[:, None] * gone).sum(0)
    # A line that is not there is missing from the first layer on, so all layers have the same labels.
    return found.expand(len(layers), -1, -1) * batch.prompt


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
    # Items of finished shards are made and passed over: a source cannot begin in the middle.
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
                # A mere slice would keep the whole batch in memory.
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
