"""What a token is worth, by several yardsticks: the targets that predictors learn.

All look at the answer: what of the prompt does the model need to write it? Each gives, per pruning layer, one
number of at least 0 for every prompt token; `normalised` makes them comparable between texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from brace.training.erecap.encoding import Batch
from brace.training.erecap.frozen import GONE, FrozenModel

Labeller = Callable[[FrozenModel, Batch, Sequence[int]], Tensor]
"""(model, batch, pruning layers) → [layers, rows, tokens]."""
_ROWS_AT_ONCE = 16
_LEAST = 1e-6


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
    return found.expand(len(layers), -1, -1) * batch.prompt
