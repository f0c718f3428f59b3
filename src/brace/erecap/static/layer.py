"""One decoder layer of the static path: keys and values go to their rows, then attention looks there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from brace.erecap.backbone import Backbone
from brace.erecap.fused import FusedLayer, Rotation, norm
from brace.erecap.static.kernels import gated, store
from brace.errors import BraceError

Attend = Callable[[Tensor], Tensor]
"""Queries, [tokens, heads, width] → what they found, of the same shape."""
_LONG = 512
"""From so many tokens on cuDNN's attention is faster than flash. It plans for every length anew, for some 40
ms: lengths come in buckets."""


def fused(backbone: Backbone, index: int) -> FusedLayer:
    """A layer's joined weights."""
    layer = backbone.fused_layer(index)
    if layer is None:
        raise BraceError("a layer was changed while it was in use (an adapter or a hook was put in)")
    return layer


def run(
    layer: FusedLayer,
    hidden: Tensor,
    rotation: Rotation,
    keys: Tensor,
    values: Tensor,
    at: Tensor,
    attend: Attend,
) -> Tensor:
    """One layer. Its keys and values go to `keys` and `values`, [rows, heads, width], from row `at` on."""
    projected = functional.linear(norm(layer.before, hidden), layer.qkv, layer.qkv_bias)
    queries = store(layer, projected, rotation, keys, values, at)
    hidden = _add(hidden, attend(queries).flatten(1), layer.out, layer.after_attention)
    both = functional.linear(norm(layer.between, hidden), layer.gate_up, layer.gate_up_bias)
    return _add(hidden, gated(both), layer.down, layer.after_mlp)


def causal(queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """Causal attention of the last `len(queries)` of all keys; [tokens, heads, width] each."""
    q, k, v = (part.transpose(0, 1)[None] for part in (queries, keys, values))
    with _backend(q, len(keys)):
        if len(queries) == len(keys):
            out = functional.scaled_dot_product_attention(
                q, k, v, is_causal=True, scale=scale, enable_gqa=True
            )
        elif _half_on_gpu(q):
            # By its own name flash takes grouped heads as they are and lines up the last query with the last
            # key; through the public function a bias asks for repeated keys, which costs more than it saves.
            out = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True, False, scale=scale)[
                0
            ]
        else:
            groups = q.shape[1] // k.shape[1]
            k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
            mask: Any = causal_lower_right(len(queries), len(keys))
            out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return out[0].transpose(0, 1)


def _add(hidden: Tensor, states: Tensor, linear: Any, after: Any) -> Tensor:
    """hidden + linear(states), in place and in one product where nothing comes between."""
    if after is None and linear.bias is None:
        return hidden.addmm_(states, linear.weight.t())
    made = functional.linear(states, linear.weight, linear.bias)
    return hidden + (made if after is None else norm(after, made))


def _half_on_gpu(states: Tensor) -> bool:
    return states.is_cuda and states.dtype in (torch.bfloat16, torch.float16)


def _backend(queries: Tensor, keys: int) -> AbstractContextManager[None]:
    if not _half_on_gpu(queries):
        return nullcontext()
    long = keys >= _LONG and queries.shape[2] == keys
    return sdpa_kernel([SDPBackend.CUDNN_ATTENTION] if long else [SDPBackend.FLASH_ATTENTION])
