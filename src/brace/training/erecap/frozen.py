"""A frozen model that gradients pass through: hidden states at each pruning layer, and gates on what is read.

A gate makes a token harder to look at: its logarithm is added to every query's score for it, in all layers
from there on. One is no gate; nought is a token that has been pruned. It travels as one more dimension of
queries and keys, so that attention stays causal and fast and nothing quadratic is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from brace.erecap.backbone import Backbone
from brace.erecap.fused import fuse
from brace.errors import ConfigError

Enter = Callable[[int, Tensor], Tensor | None]
"""Told each layer and the hidden states that enter it; gives the gates' logarithms from there on, or None."""
GONE = -30.0
"""The logarithm of a closed gate: nothing of the token is left after a softmax."""
_PAD = 8
"""Fast attention wants a head's width to be a multiple of this."""


class FrozenModel:
    """The layers of a model whose weights do not learn."""

    def __init__(self, model: Any) -> None:
        self.backbone = Backbone(model)
        model.requires_grad_(False)
        fused = [fuse(layer, self.backbone.config) for layer in self.backbone.layers]
        self._layers = [layer for layer in fused if layer is not None]
        if len(self._layers) < self.backbone.n_layers:
            raise ConfigError(
                "predictors are trained on plain models: merge adapters, use no quantised parts"
            )

    def read(self, ids: Tensor, enter: Enter | None = None) -> Tensor:
        """The last hidden states of right-padded rows, [rows, tokens, width]."""
        backbone = self.backbone
        if any(window is not None and window < ids.shape[1] for window in backbone.windows):
            raise ConfigError(
                f"a text of {ids.shape[1]} tokens is longer than this model's window; train on shorter ones"
            )
        hidden = backbone.embed(ids)
        # Where nothing else wants a gradient, the states themselves do: saliency asks for theirs.
        hidden = hidden.detach().requires_grad_(torch.is_grad_enabled())
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        rotation = backbone.rotate(hidden, positions)
        gates: Tensor | None = None
        for index, layer in enumerate(self._layers):
            if enter is not None:
                given = enter(index, hidden)
                gates = given if given is not None else gates
            hidden = layer(hidden, rotation, _attention(gates, layer.scale))
        return hidden

    def answer_losses(self, hidden: Tensor, ids: Tensor, answer: Tensor) -> Tensor:
        """Mean next-token loss of each row's answer, [rows]."""
        each = functional.cross_entropy(
            self.answer_logits(hidden, answer), ids[:, 1:][answer[:, 1:]], reduction="none"
        )
        return _row_means(each, answer)

    def answer_divergences(self, hidden: Tensor, whole: Tensor, answer: Tensor) -> Tensor:
        """How far each row's next-token distributions over the answer are from `whole`'s, mean KL, [rows]."""
        found = self.answer_logits(hidden, answer).log_softmax(-1)
        wanted = self.answer_logits(whole, answer).log_softmax(-1)
        return _row_means((wanted.exp() * (wanted - found)).sum(-1), answer)

    def answer_logits(self, hidden: Tensor, answer: Tensor) -> Tensor:
        """Logits at each place of the answers, one after the other, [places, vocabulary]."""
        return self.backbone.logits(hidden[:, :-1][answer[:, 1:]]).float()

    def answer_tokens(self, hidden: Tensor, answer: Tensor) -> Tensor:
        """The likeliest token at each place of the answers, one after the other."""
        return self.answer_logits(hidden, answer).argmax(-1)


def _row_means(each: Tensor, answer: Tensor) -> Tensor:
    wanted = answer[:, 1:]
    sums = torch.zeros(len(answer), device=each.device).index_add(0, wanted.nonzero()[:, 0], each)
    return sums / wanted.sum(1).clamp(min=1)


def _attention(gates: Tensor | None, scale: float) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        groups = queries.shape[1] // keys.shape[1]
        keys, values = keys.repeat_interleave(groups, 1), values.repeat_interleave(groups, 1)
        width = values.shape[-1]
        if gates is not None:
            queries, keys = functional.pad(queries, (0, _PAD)), functional.pad(keys, (0, _PAD))
            # Flash attention wants values as wide as queries and keys.
            values = functional.pad(values, (0, _PAD))
            mark = torch.zeros(keys.shape[-1], dtype=keys.dtype, device=keys.device)
            mark[width] = 1
            queries = queries + mark
            # Divided, because attention multiplies by the scale again.
            keys = keys + (gates / scale).to(keys.dtype)[:, None, :, None] * mark
        out = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True, scale=scale)
        return out[..., :width].transpose(1, 2)

    return attend
