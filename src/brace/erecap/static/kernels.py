"""The few operations that no library call does in one go, in torch and, on a GPU, in Triton.

All take one sequence, [tokens, …]. Lengths and places that a captured graph must not fix are tensors.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from brace.erecap.fused import Rotation, rotate

if TYPE_CHECKING:
    from brace.erecap.fused import FusedLayer


def use_triton(tensor: Tensor) -> bool:
    """Whether Triton's versions can be taken."""
    return tensor.is_cuda and importlib.util.find_spec("triton") is not None


def store(
    layer: FusedLayer, projected: Tensor, rotation: Rotation, keys: Tensor, values: Tensor, at: Tensor
) -> Tensor:
    """Rotate queries and keys, put keys and values into the arena from row `at` on; the queries.

    `projected` is [tokens, heads of all three × width]; cos and sin are [tokens, width]; the arena is
    [rows, heads, width]; `at` is one number on the device.
    """
    tokens = len(projected)
    if use_triton(projected) and layer.plain_rotation:
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
    """One token's attention on `length` rows of the arena from `start` on; [1, heads, width]."""
    if use_triton(queries):
        from brace.erecap.static.triton_kernels import attend_split  # noqa: PLC0415 - not everywhere

        return attend_split(queries, keys, values, start, length, scale)
    heads, width = queries.shape[1:]
    rows = slice(int(start), int(start) + int(length))
    grouped = queries.reshape(1, keys.shape[1], -1, width)
    out = functional.scaled_dot_product_attention(
        grouped, keys[rows].transpose(0, 1)[None], values[rows].transpose(0, 1)[None], scale=scale
    )
    return out.reshape(1, heads, width)


def gated(both: Tensor) -> Tensor:
    """silu(first half) × second half."""
    if use_triton(both):
        from brace.erecap.static.triton_kernels import silu_times  # noqa: PLC0415 - not everywhere

        return silu_times(both)
    gate, up = both.chunk(2, -1)
    return functional.silu(gate) * up
