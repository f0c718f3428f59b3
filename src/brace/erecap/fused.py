"""A decoder layer in few operations: projections of one input are one product, and no module is called.

At a token a time a layer's arithmetic is short and its bookkeeping is not: running transformers' modules
costs a small model more than its weights do. Here the same weights (the module's own become views of the
joined ones, so memory stays what it was) are used by a plain function. It stands in for the module wherever
that is exact; `fuse` says when it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Rotation = tuple[Tensor, Tensor]
"""cos and sin of each token's position."""
Check = Callable[[], None]
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Queries, keys, values, [batch, heads, tokens, width] each → [batch, tokens, heads, width]."""
_FEW = 64
"""Up to so many tokens a layer's time goes into starting operations, not into their arithmetic."""
_INTERLEAVED = {"glm", "glm4"}
"""Families that rotate neighbours of a head, and only the first part of it; others rotate its two halves."""


def no_check() -> None:
    """The check where nothing limits the time."""


class FusedLayer:
    """One decoder layer of transformers, taken apart and joined."""

    def __init__(self, layer: Any, interleaved: bool) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self._layer, self.interleaved = layer, interleaved
        self.width, self.scale = int(attention.head_dim), float(attention.scaling)
        self.qkv, self.qkv_bias = _join([attention.q_proj, attention.k_proj, attention.v_proj])
        self.heads = attention.q_proj.out_features // self.width
        self.kv_heads = attention.k_proj.out_features // self.width
        # GLM has them joined already.
        if hasattr(mlp, "gate_up_proj"):
            self.gate_up, self.gate_up_bias = mlp.gate_up_proj.weight, mlp.gate_up_proj.bias
        else:
            self.gate_up, self.gate_up_bias = _join([mlp.gate_proj, mlp.up_proj])
        self.out, self.down = attention.o_proj, mlp.down_proj
        self.before = layer.input_layernorm
        self.between = layer.post_attention_layernorm
        # GLM-4-0414 also norms what the attention and the MLP give; the others do not.
        self.after_attention = getattr(layer, "post_self_attn_layernorm", None)
        self.after_mlp = getattr(layer, "post_mlp_layernorm", None)
        self.q_norm, self.k_norm = getattr(attention, "q_norm", None), getattr(attention, "k_norm", None)

    @property
    def plain_rotation(self) -> bool:
        """Whether queries and keys are turned by their halves, and nothing else is done to them."""
        return not self.interleaved and self.q_norm is None

    def stale(self) -> bool:
        """Whether the module's weights have been moved or replaced since."""
        # One of them tells: who moves a model moves all its weights.
        return bool(self._layer.self_attn.q_proj.weight.data_ptr() != self.qkv.data_ptr())

    def __call__(self, hidden: Tensor, rotation: Rotation, attend: Attend, check: Check = no_check) -> Tensor:
        """As the module, but for the attention, which is given; `check` is called before larger parts."""
        check()
        queries, keys, values = self.project(norm(self.before, hidden), rotation)
        check()
        attended = attend(queries, keys, values)
        check()
        attended = functional.linear(attended.flatten(2), self.out.weight, self.out.bias)
        if self.after_attention is not None:
            attended = norm(self.after_attention, attended)
        hidden = hidden + attended
        check()
        gate, up = self.gates(norm(self.between, hidden))
        check()
        made = functional.linear(functional.silu(gate) * up, self.down.weight, self.down.bias)
        return hidden + (made if self.after_mlp is None else norm(self.after_mlp, made))

    def gates(self, states: Tensor) -> tuple[Tensor, ...]:
        """What opens, and what is let through."""
        half = len(self.gate_up) // 2
        return _products(states, self.gate_up, self.gate_up_bias, [half, half])

    def project(self, states: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys, rotated, and values: [batch, heads, tokens, width] each."""
        sizes = [self.width * heads for heads in (self.heads, self.kv_heads, self.kv_heads)]
        shape = (*states.shape[:2], -1, self.width)
        queries, keys, values = (
            part.view(shape) for part in _products(states, self.qkv, self.qkv_bias, sizes)
        )
        queries, keys = self.normed(queries, keys)
        queries = rotate(queries.transpose(1, 2), rotation, self.interleaved)
        keys = rotate(keys.transpose(1, 2), rotation, self.interleaved)
        return queries, keys, values.transpose(1, 2)

    def normed(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """As some families want them before they are rotated."""
        if self.q_norm is None or self.k_norm is None:
            return queries, keys
        return norm(self.q_norm, queries), norm(self.k_norm, keys)


def _products(states: Tensor, weights: Tensor, bias: Tensor | None, sizes: list[int]) -> tuple[Tensor, ...]:
    """What several joined linear layers give. Of few tokens in one product; of many one by one, which takes
    no longer, and leaves each result in one piece for what follows."""
    if states.shape[1] <= _FEW:
        return torch.split(functional.linear(states, weights, bias), sizes, -1)
    biases = [None] * len(sizes) if bias is None else torch.split(bias, sizes)
    parts = zip(torch.split(weights, sizes), biases, strict=True)
    return tuple(functional.linear(states, part, its_bias) for part, its_bias in parts)


def fuse(layer: Any, config: Any) -> FusedLayer | None:
    """None where a module is more than its weights: adapters, quantised parts, hooks, other activations."""
    parts = [part for part in layer.modules() if next(part.children(), None) is None]
    linear = [part for part in parts if hasattr(part, "out_features")]
    # Not `isinstance`: quantised and adapted layers are often subclasses, with more than a weight.
    plain = all(type(part) is nn.Linear for part in linear) and config.hidden_act in ("silu", "swish")
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in layer.modules())
    if not plain or hooked:
        return None
    # The joined weights become the module's: gradients must still go through them.
    with torch.inference_mode(False), torch.no_grad():
        return FusedLayer(layer, config.model_type in _INTERLEAVED)


def rotate(states: Tensor, rotation: Rotation, interleaved: bool) -> Tensor:
    """Turn each head by its token's position. `states` is [batch, heads, tokens, width]."""
    cos, sin = rotation[0][:, None], rotation[1][:, None]
    if not interleaved:
        half = states.shape[-1] // 2
        turned = torch.cat([-states[..., half:], states[..., :half]], -1)
        return states * cos + turned * sin
    half = cos.shape[-1] // 2
    cos, sin = cos[..., :half].repeat_interleave(2, -1), sin[..., :half].repeat_interleave(2, -1)
    moving, still = states[..., : 2 * half], states[..., 2 * half :]
    turned = torch.stack([-moving[..., 1::2], moving[..., ::2]], -1).flatten(-2)
    return torch.cat([moving * cos + turned * sin, still], -1)


def _join(parts: list[Any]) -> tuple[Tensor, Tensor | None]:
    """Several linear layers of one input as one; their own weights become views of it."""
    joined = _joined([part.weight.data for part in parts])
    bias = None if parts[0].bias is None else _joined([part.bias.data for part in parts])
    start = 0
    for part in parts:
        end = start + part.out_features
        part.weight.data = joined[start:end]
        if bias is not None:
            part.bias.data = bias[start:end]
        start = end
    return joined, bias


def _joined(parts: list[Tensor]) -> Tensor:
    """Their concatenation; what was joined before is not copied again."""
    ends = [part.data_ptr() + part.nbytes for part in parts]
    starts = [part.data_ptr() for part in parts[1:]]
    shared = {part.untyped_storage().data_ptr() for part in parts}
    if len(shared) == 1 and starts == ends[:-1] and all(part.is_contiguous() for part in parts):
        rows = sum(len(part) for part in parts)
        return parts[0].as_strided((rows, *parts[0].shape[1:]), parts[0].stride())
    return torch.cat(parts)


def norm(module: Any, states: Tensor) -> Tensor:
    """An RMS norm, by its module's weights."""
    if states.dtype == torch.float64:
        # The modules' norms are in float32, whatever they are given; torch's would be more exact.
        exact: Tensor = module(states)
        return exact
    return functional.rms_norm(states, module.weight.shape, module.weight, module.variance_epsilon)
