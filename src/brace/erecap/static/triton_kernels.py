"""Triton versions of what `layer` has in torch, for one sequence on a GPU."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 64
"""Keys read at a time."""
_PROGRAMS = 256
"""About as many parts of an attention as keep a large GPU busy."""
_LEAST_ROWS = 16
"""A product needs at least so many rows; a group of query heads is filled up to it."""


_HEADS = 16
"""Heads of a token that are rotated together."""


@triton.jit
def _sum_rounded(one, other, kind: tl.constexpr):
    return (one.to(kind).to(tl.float32) + other.to(kind).to(tl.float32)).to(kind)


@triton.jit
def _store_rotated(
    projected, cos, sin, keys, values, at, queries,
    row, heads: tl.constexpr, kv_heads: tl.constexpr, width: tl.constexpr, some: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0)
    head = (tl.program_id(1) * some + tl.arange(0, some))[:, None]
    half: tl.constexpr = width // 2
    low = tl.arange(0, half)[None, :]
    there = head < heads + 2 * kv_heads
    source = projected + token * row + head * width + low
    first, second = tl.load(source, mask=there, other=0.0), tl.load(source + half, mask=there, other=0.0)
    c1, c2 = tl.load(cos + token * width + low), tl.load(cos + token * width + half + low)
    s1, s2 = tl.load(sin + token * width + low), tl.load(sin + token * width + half + low)
    # Rounded where torch rounds, so that both ways give the same.
    kind = first.dtype
    x, y = first.to(tl.float32), second.to(tl.float32)
    turned = head < heads + kv_heads
    first = tl.where(turned, _sum_rounded(x * c1.to(tl.float32), -y * s1.to(tl.float32), kind), first)
    second = tl.where(turned, _sum_rounded(y * c2.to(tl.float32), x * s2.to(tl.float32), kind), second)
    asks = queries + (token * heads + head) * width + low
    tl.store(asks, first, mask=head < heads)
    tl.store(asks + half, second, mask=head < heads)
    place = tl.load(at) + token
    offers = keys + (place * kv_heads + head - heads) * width + low
    tl.store(offers, first, mask=(head >= heads) & turned)
    tl.store(offers + half, second, mask=(head >= heads) & turned)
    gives = values + (place * kv_heads + head - heads - kv_heads) * width + low
    tl.store(gives, first, mask=there & (head >= heads + kv_heads))
    tl.store(gives + half, second, mask=there & (head >= heads + kv_heads))


def store_rotated(
    projected: Tensor,
    rotation: tuple[Tensor, Tensor],
    keys: Tensor,
    values: Tensor,
    at: Tensor,
    heads: int,
    kv_heads: int,
) -> Tensor:
    """One program for a token and some heads."""
    tokens, width = len(projected), keys.shape[2]
    queries = projected.new_empty((tokens, heads, width))
    launch: Any = _store_rotated[(tokens, triton.cdiv(heads + 2 * kv_heads, _HEADS))]
    launch(
        projected, rotation[0], rotation[1], keys, values, at, queries,
        projected.stride(0), heads, kv_heads, width, _HEADS, num_warps=2,
    )  # fmt: skip
    return queries


@triton.jit
def _attend_part(
    queries, keys, values, start_at, length, sums, best, weighted, scale,
    kv_heads: tl.constexpr, group: tl.constexpr, rows: tl.constexpr, width: tl.constexpr,
    block: tl.constexpr, parts: tl.constexpr,
):  # fmt: skip
    head, part = tl.program_id(0), tl.program_id(1)
    # The offset in 64 bits: places in the buffers of all contexts may not fit into 32.
    filled, offset = tl.load(length).to(tl.int32), tl.load(start_at).to(tl.int64)
    share = tl.cdiv(tl.cdiv(filled, parts), block) * block
    start = part * share
    end = tl.minimum(start + share, filled)
    row, column, key = tl.arange(0, rows), tl.arange(0, width), tl.arange(0, block)
    asked = tl.load(
        queries + (head * group + row[:, None]) * width + column[None, :],
        mask=row[:, None] < group,
        other=0.0,
    )
    most = tl.full((rows,), float("-inf"), tl.float32)
    total = tl.zeros((rows,), tl.float32)
    out = tl.zeros((rows, width), tl.float32)
    for first in range(start, end, block):
        there = first + key < end
        place = (offset + first + key) * kv_heads + head
        k = tl.load(keys + place[None, :] * width + column[:, None], mask=there[None, :], other=0.0)
        # Not Triton's default for float32, which is TF32 and coarser than torch's result.
        scores = tl.dot(asked, k, input_precision="ieee") * scale
        scores = tl.where(there[None, :], scores, float("-inf"))
        now = tl.maximum(most, tl.max(scores, 1))
        weights = tl.exp(scores - now[:, None])
        fade = tl.exp(most - now)
        v = tl.load(values + place[:, None] * width + column[None, :], mask=there[:, None], other=0.0)
        out = out * fade[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        total = total * fade + tl.sum(weights, 1)
        most = now
    slot = (head * parts + part) * rows + row
    tl.store(sums + slot, total)
    tl.store(best + slot, most)
    tl.store(weighted + slot[:, None] * width + column[None, :], out)


@triton.jit
def _join_parts(
    sums, best, weighted, out,
    group: tl.constexpr, rows: tl.constexpr, width: tl.constexpr, parts: tl.constexpr,
):  # fmt: skip
    head, row = tl.program_id(0), tl.program_id(1)
    part, column = tl.arange(0, parts), tl.arange(0, width)
    slot = (head * parts + part) * rows + row
    most = tl.load(best + slot)
    # A part that had no keys has -inf and counts nothing.
    fade = tl.exp(most - tl.max(most, 0))
    total = tl.sum(tl.load(sums + slot) * fade, 0)
    all_out = tl.sum(tl.load(weighted + slot[:, None] * width + column[None, :]) * fade[:, None], 0)
    tl.store(out + (head * group + row) * width + column, (all_out / total).to(out.dtype.element_ty))


def attend_split(
    queries: Tensor, keys: Tensor, values: Tensor, start: Tensor, length: Tensor, scale: float
) -> Tensor:
    """The cache in parts that are read side by side, then joined."""
    heads, width = queries.shape[1:]
    kv_heads = keys.shape[1]
    group = heads // kv_heads
    rows = max(_LEAST_ROWS, triton.next_power_of_2(group))
    parts = max(1, triton.next_power_of_2(_PROGRAMS // kv_heads))
    sums = torch.empty((kv_heads, parts, rows), dtype=torch.float32, device=queries.device)
    best = torch.empty_like(sums)
    weighted = sums.new_empty((*sums.shape, width))
    out = torch.empty_like(queries)
    attend: Any = _attend_part[(kv_heads, parts)]
    attend(
        queries, keys, values, start, length, sums, best, weighted, scale,
        kv_heads, group, rows, width, _BLOCK, parts, num_warps=4,
    )  # fmt: skip
    join: Any = _join_parts[(kv_heads, group)]
    join(sums, best, weighted, out, group, rows, width, parts, num_warps=4)
    return out


@triton.jit
def _silu_times(both, out, width, block: tl.constexpr):
    token, column = tl.program_id(0), tl.program_id(1) * block + tl.arange(0, block)
    inside = column < width
    gate = tl.load(both + token * 2 * width + column, mask=inside, other=0.0)
    up = tl.load(both + token * 2 * width + width + column, mask=inside, other=0.0)
    opened = gate.to(tl.float32)
    # Rounded between the two steps, as torch rounds, so that both ways give the same.
    opened = (opened / (1 + tl.exp(-opened))).to(gate.dtype)
    made = (opened.to(tl.float32) * up.to(tl.float32)).to(gate.dtype)
    tl.store(out + token * width + column, made, mask=inside)


def silu_times(both: Tensor) -> Tensor:
    """One pass over what two would read twice."""
    width = both.shape[-1] // 2
    out = both.new_empty((*both.shape[:-1], width))
    launch: Any = _silu_times[(both.numel() // (2 * width), triton.cdiv(width, 1024))]
    launch(both, out, width, 1024, num_warps=4)
    return out
