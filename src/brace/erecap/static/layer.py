"""One decoder layer of the static path: keys and values go to their rows, then attention looks there.

Everything takes one sequence, [tokens, …]. Lengths and places that a captured graph must not fix are tensors.
What no library call does in one go is in torch and, on a GPU, in Triton.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from brace.erecap.backbone import Backbone
from brace.erecap.fused import FusedLayer, Rotation, norm, rotate
from brace.erecap.static.buckets import quantum_step
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
    return _store(layer, projected, rotation, keys, values, at)


def after(layer: FusedLayer, hidden: Tensor, attended: Tensor) -> Tensor:
    """What of a layer comes after it; `hidden` is changed where that saves a copy."""
    hidden = _add(hidden, attended, layer.out, layer.after_attention)
    both = functional.linear(norm(layer.between, hidden), layer.gate_up, layer.gate_up_bias)
    return _add(hidden, _gated(both), layer.down, layer.after_mlp)


def causal(queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """Causal attention of the last `len(queries)` of all keys; [tokens, heads, width] each."""
    q, k, v = (part.transpose(0, 1)[None] for part in (queries, keys, values))
    if len(queries) == len(keys):
        backend = SDPBackend.CUDNN_ATTENTION if len(queries) >= _LONG else SDPBackend.FLASH_ATTENTION
        with sdpa_kernel([backend]) if _half_on_gpu(q) else nullcontext():
            out = functional.scaled_dot_product_attention(
                q, k, v, is_causal=True, scale=scale, enable_gqa=True
            )
    elif _half_on_gpu(q):
        out = _after(q, k, v, scale)
    else:
        groups = q.shape[1] // k.shape[1]
        # With this mask SDPA wants a head of keys for each head of queries.
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
    # The weights are logarithms of sums, so the share of one of two parts is a sigmoid of their difference.
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


def _use_triton(tensor: Tensor) -> bool:
    """Whether Triton's versions can be taken."""
    return tensor.is_cuda and importlib.util.find_spec("triton") is not None


def _store(
    layer: FusedLayer, projected: Tensor, rotation: Rotation, keys: Tensor, values: Tensor, at: Tensor
) -> Tensor:
    """Rotate queries and keys, put keys and values into the buffers from row `at` on; the queries.

    `projected` is [tokens, heads of all three × width]; cos and sin are [tokens, width]; the buffers
    are [rows, heads, width]; `at` is one number on the device.
    """
    tokens = len(projected)
    if _use_triton(projected) and layer.plain_rotation:
        from brace.erecap.static.triton_kernels import store_rotated  # noqa: PLC0415 - not everywhere

        return store_rotated(projected, rotation, keys, values, at, layer.heads, layer.kv_heads)
    sizes = [layer.width * heads for heads in (layer.heads, layer.kv_heads, layer.kv_heads)]
    q, k, v = (part.view(1, tokens, -1, layer.width) for part in torch.split(projected, sizes, -1))
    q, k = layer.normed(q, k)
    turned = (rotation[0][None], rotation[1][None])
    q = rotate(q.transpose(1, 2), turned, layer.interleaved)
    k = rotate(k.transpose(1, 2), turned, layer.interleaved)
    rows = at + torch.arange(tokens, device=at.device)
    keys.index_copy_(0, rows, k[0].transpose(0, 1))
    values.index_copy_(0, rows, v[0])
    return q[0].transpose(0, 1)


def attend_one(
    queries: Tensor, keys: Tensor, values: Tensor, start: Tensor, length: Tensor, scale: float
) -> Tensor:
    """One token's attention on `length` rows of the buffers from `start` on; [1, heads, width]."""
    if _use_triton(queries):
        from brace.erecap.static.triton_kernels import attend_split  # noqa: PLC0415 - not everywhere

        return attend_split(queries, keys, values, start, length, scale)
    heads, width = queries.shape[1:]
    rows = slice(int(start), int(start) + int(length))
    grouped = queries.reshape(1, keys.shape[1], -1, width)
    out = functional.scaled_dot_product_attention(
        grouped, keys[rows].transpose(0, 1)[None], values[rows].transpose(0, 1)[None], scale=scale
    )
    return out.reshape(1, heads, width)


def _gated(both: Tensor) -> Tensor:
    """silu(first half) × second half."""
    if _use_triton(both):
        from brace.erecap.static.triton_kernels import silu_times  # noqa: PLC0415 - not everywhere

        return silu_times(both)
    gate, up = both.chunk(2, -1)
    return functional.silu(gate) * up
