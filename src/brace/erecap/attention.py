"""Attention of a single query without repeating keys and values: what decoding does all day.

With grouped queries, SDPA on a CPU works on a copy of the keys for every query head. One query a head leaves
room for a view instead: the heads that share keys become rows of one head. Everything longer goes to
transformers' own SDPA function.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = "brace_sdpa"
_FEW = 4


def attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """As `sdpa`, folded where that is exact: one query, no dropout."""
    groups = query.shape[1] // key.shape[1]
    if query.shape[2] > 1 or groups == 1 or options.get("dropout"):
        attended, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return attended, None
    return attend_cached(query, key, value, attention_mask, options.get("scaling")), None


def attend_cached(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None
) -> Tensor:
    """[batch, tokens, heads, width]. Without a mask: one query, or as many as keys (then causally)."""
    batch, heads, tokens, width = query.shape
    attention = torch.nn.functional.scaled_dot_product_attention
    if tokens > 1:
        shared = heads != key.shape[1]
        causal = mask is None
        out = attention(query, key, value, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=shared)
        return out.transpose(1, 2)
    folded = query.reshape(batch, key.shape[1], heads // key.shape[1], width)
    rows = folded.shape[2]
    # In bfloat16 torch takes three times as long for one or two queries as for four, on a CPU.
    if query.dtype == torch.bfloat16 and query.device.type == "cpu" and rows < _FEW:
        folded = torch.nn.functional.pad(folded, (0, 0, 0, _FEW - rows))
    out = attention(folded, key, value, attn_mask=mask, scale=scale)
    return out[:, :, :rows].reshape(batch, 1, heads, value.shape[3])


AttentionInterface.register(NAME, attend)
# With SDPA's masks, should the model's own `generate` run while an engine has it switched in another thread.
AttentionMaskInterface.register(NAME, sdpa_mask)


@contextmanager
def folded(config: Any) -> Iterator[None]:
    """Let a model that uses SDPA use this instead, for the duration of a block."""
    before = config._attn_implementation
    # Any other implementation was chosen on purpose, and stays.
    if before == "sdpa":
        config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before
