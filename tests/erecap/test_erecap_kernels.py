"""The Triton kernels against torch: as they are on a GPU, elsewhere in Triton's interpreter."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch.nn import functional

from brace.erecap.fused import rotate

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
# Triton looks at this when it is first imported, and torch may have done so already: the target sets it.
if not ON_GPU and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs a GPU, or Triton's interpreter: make test-kernels", allow_module_level=True)

from brace.erecap.static import triton_kernels as kernels  # noqa: E402 - only where there is Triton

HEADS, KV_HEADS, WIDTH = 4, 2, 32
# The interpreter cannot compute with bfloat16.
DTYPES = [torch.float32, torch.float16, *([torch.bfloat16] if ON_GPU else [])]
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


def drawn(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(sum(shape))
    return torch.randn(shape, device=DEVICE).to(dtype)


def near(one: torch.Tensor, other: torch.Tensor) -> bool:
    half = one.dtype != torch.float32
    # bfloat16 has eight bits: the last one may differ.
    return torch.allclose(
        one.float(), other.float(), rtol=1e-2 if half else 1e-5, atol=1e-2 if half else 3e-6
    )


@each_dtype
@pytest.mark.parametrize("width", [64, 1500])
def test_gates(dtype: torch.dtype, width: int) -> None:
    both = drawn(3, 2 * width, dtype=dtype)
    gate, up = both.chunk(2, -1)
    assert near(kernels.silu_times(both), functional.silu(gate) * up)


@each_dtype
@pytest.mark.parametrize("tokens", [1, 5])
def test_keys_and_values_are_stored_where_they_belong_and_nowhere_else(
    dtype: torch.dtype, tokens: int
) -> None:
    projected = drawn(tokens, (HEADS + 2 * KV_HEADS) * WIDTH, dtype=dtype)
    rotation = drawn(tokens, WIDTH, dtype=dtype), drawn(tokens, WIDTH, dtype=dtype)
    keys, values = (torch.zeros(20, KV_HEADS, WIDTH, dtype=dtype, device=DEVICE) for _ in range(2))
    at = torch.tensor(7, device=DEVICE)
    found = kernels.store_rotated(projected, rotation, keys, values, at, HEADS, KV_HEADS)
    sizes = [HEADS * WIDTH, KV_HEADS * WIDTH, KV_HEADS * WIDTH]
    queries, new, plain = (part.view(1, tokens, -1, WIDTH) for part in torch.split(projected, sizes, -1))
    turn = (rotation[0][None], rotation[1][None])

    def turned(states: torch.Tensor) -> torch.Tensor:
        return rotate(states.transpose(1, 2), turn, interleaved=False)[0].transpose(0, 1)

    assert near(found, turned(queries))
    assert near(keys[7 : 7 + tokens], turned(new))
    assert torch.equal(values[7 : 7 + tokens], plain[0])
    for cache in (keys, values):
        assert not cache[:7].any()
        assert not cache[7 + tokens :].any()


@each_dtype
@pytest.mark.parametrize(("start", "length"), [(0, 1), (3, 63), (10, 64), (100, 700)])
@pytest.mark.parametrize("heads", [2, 4, 34])
def test_one_query_on_a_part_of_the_buffers(dtype: torch.dtype, start: int, length: int, heads: int) -> None:
    keys, values = drawn(900, KV_HEADS, WIDTH, dtype=dtype), drawn(900, KV_HEADS, WIDTH, dtype=dtype) * 2
    queries = drawn(1, heads, WIDTH, dtype=dtype)
    where: Any = (torch.tensor(start, device=DEVICE), torch.tensor(length, device=DEVICE))
    found = kernels.attend_split(queries, keys, values, *where, 0.2)
    rows = slice(start, start + length)
    wanted = functional.scaled_dot_product_attention(
        queries.view(1, KV_HEADS, -1, WIDTH).float(),
        keys[rows].transpose(0, 1)[None].float(),
        values[rows].transpose(0, 1)[None].float(),
        scale=0.2,
    ).reshape(1, heads, WIDTH)
    assert near(found, wanted.to(dtype))
