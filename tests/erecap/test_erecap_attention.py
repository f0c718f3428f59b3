"""The attention of a single query: the same as SDPA's, and the model is left as it was found."""

from __future__ import annotations

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from brace.erecap import Engine
from brace.erecap.attention import NAME, attend
from tiny_model import tiny


@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("masked", [False, True])
def test_it_equals_sdpa(queries: int, masked: bool) -> None:
    torch.manual_seed(1)
    module = tiny()[0].model.layers[0].self_attn
    query = torch.randn(2, 4, queries, 8, dtype=torch.float64)
    key, value = torch.randn(2, 2, 9, 8, dtype=torch.float64), torch.randn(2, 2, 9, 8, dtype=torch.float64)
    mask = torch.rand(2, 1, queries, 9) > 0.3 if masked or queries > 1 else None
    if mask is not None:
        mask[..., 0] = True
    ours, _ = attend(module, query, key, value, mask, scaling=0.3)
    theirs, _ = sdpa_attention_forward(module, query, key, value, mask, scaling=0.3)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_the_model_is_left_as_it_was_found_and_generates_the_same_even_if_switched() -> None:
    model, _ = tiny()
    ids = torch.randint(1, 250, (2, 40), generator=torch.Generator().manual_seed(3))
    mask = torch.ones_like(ids)
    mask[0, :7] = 0
    before = model.generate(ids, attention_mask=mask, max_new_tokens=8, do_sample=False)
    Engine(model).prefill(ids, mask)
    assert model.config._attn_implementation == "sdpa"
    model.config._attn_implementation = NAME
    try:
        switched = model.generate(ids, attention_mask=mask, max_new_tokens=8, do_sample=False)
    finally:
        model.config._attn_implementation = "sdpa"
    assert torch.equal(before, switched)
