"""One decoder layer of the static path: keys and values go to their rows, then attention looks there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from brace.erecap.backbone import Backbone
from brace.erecap.fused import FusedLayer, Rotation, norm
from brace.erecap.static.buckets import quantum_step
from brace.erecap.static.kernels import gated, store
from brace.errors import BraceError

Attend = Callable[[Tensor], Tensor]
"""Queries, [tokens, heads, width] → what they found, of the same shape."""
_LONG = 512
"""From so many tokens on cuDNN's attention is faster than flash. It plans for every length anew, for some 40
ms: lengths come in buckets."""
_FAR = 16384
"""From so many cached tokens on two kernels for those and the new ones are faster than one."""


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
    queries = before(layer, hidden, rotation, keys, values, at)
    return after(layer, hidden, attend(queries).flatten(1))


def before(
    layer: FusedLayer, hidden: Tensor, rotation: Rotation, keys: Tensor, values: Tensor, at: Tensor
) -> Tensor:
    """What of a layer comes before its attention; the queries."""
    projected = functional.linear(norm(layer.before, hidden), layer.qkv, layer.qkv_bias)
    return store(layer, projected, rotation, keys, values, at)


def after(layer: FusedLayer, hidden: Tensor, attended: Tensor) -> Tensor:
    """What of a layer comes after it; `hidden` is changed where that saves a copy."""
    hidden = _add(hidden, attended, layer.out, layer.after_attention)
    both = functional.linear(norm(layer.between, hidden), layer.gate_up, layer.gate_up_bias)
    return _add(hidden, gated(both), layer.down, layer.after_mlp)


def causal(queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """Causal attention of the last `len(queries)` of all keys; [tokens, heads, width] each."""
    q, k, v = (part.transpose(0, 1)[None] for part in (queries, keys, values))
    if len(queries) == len(keys):
        with _backend(q):
            out = functional.scaled_dot_product_attention(
                q, k, v, is_causal=True, scale=scale, enable_gqa=True
            )
    elif _half_on_gpu(q):
        out = _after(q, k, v, scale)
    else:
        groups = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        mask: Any = causal_lower_right(len(queries), len(keys))
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return out[0].transpose(0, 1)


def _after(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """New tokens after many others, on a GPU: [1, heads, tokens, width] each.

    By its own name flash takes grouped heads as they are, lines up the last query with the last key and tells
    the weight of what it saw; through the public function a bias asks for repeated keys. cuDNN is faster
    but knows causality only from the first key on: it takes the far keys, which all queries see.
    """
    before = k.shape[2] - q.shape[2]
    far = before - before % quantum_step(before) if before >= _FAR else 0
    flash = torch.ops.aten._scaled_dot_product_flash_attention
    near, near_weight = flash(q, k[:, :, far:], v[:, :, far:], 0.0, True, False, scale=scale)[:2]
    if not far:
        return cast("Tensor", near)
    cudnn = torch.ops.aten._scaled_dot_product_cudnn_attention
    past, past_weight = cudnn(q, k[:, :, :far], v[:, :, :far], None, True, 0.0, False, False, scale=scale)[:2]
    share = torch.sigmoid(past_weight.view(near_weight.shape) - near_weight)[..., None]
    return torch.lerp(near.float(), past.float(), share).to(q.dtype)


def _add(hidden: Tensor, states: Tensor, linear: Any, after: Any) -> Tensor:
    """hidden + linear(states), in place and in one product where nothing comes between."""
    if after is None and linear.bias is None:
        return hidden.addmm_(states, linear.weight.t())
    made = functional.linear(states, linear.weight, linear.bias)
    return hidden + (made if after is None else norm(after, made))


def _half_on_gpu(states: Tensor) -> bool:
    return states.is_cuda and states.dtype in (torch.bfloat16, torch.float16)


def _backend(queries: Tensor) -> AbstractContextManager[None]:
    if not _half_on_gpu(queries):
        return nullcontext()
    long = queries.shape[2] >= _LONG
    return sdpa_kernel([SDPBackend.CUDNN_ATTENTION] if long else [SDPBackend.FLASH_ATTENTION])
