"""Where joined operations stand in for a layer's modules, and where the modules have to run."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from brace.erecap import Engine
from brace.erecap.fused import fuse
from tiny_model import tiny

IDS = torch.randint(1, 250, (1, 90), generator=torch.Generator().manual_seed(3))


def logits_of(model: nn.Module) -> torch.Tensor:
    engine = Engine(model)
    context = engine.prefill(IDS[:, :80]).context
    return engine.extend(context, IDS[:, 80:], every=True)


def expected_of(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(IDS).logits[:, 80:]
    return logits


class DoubledLinear(nn.Linear):
    """Stands for an adapter or a quantised part: more than its weight."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(states)


def test_a_part_that_is_more_than_its_weight_runs_as_it_is() -> None:
    model = copy.deepcopy(tiny()[0])
    old = model.model.layers[2].mlp.down_proj
    new = DoubledLinear(old.in_features, old.out_features, bias=False)
    new.weight = old.weight
    model.model.layers[2].mlp.down_proj = new
    assert fuse(model.model.layers[2], model.config) is None
    assert fuse(model.model.layers[1], model.config) is not None
    assert torch.allclose(logits_of(model), expected_of(model), atol=1e-3)


@pytest.mark.parametrize("inner", [False, True])
def test_hooks_are_called(inner: bool) -> None:
    model = copy.deepcopy(tiny()[0])
    layer = model.model.layers[3]
    called: list[int] = []
    (layer.mlp if inner else layer).register_forward_hook(lambda *_: called.append(1))
    logits_of(model)
    assert len(called) == 2, "one reading, one extension"


def test_weights_that_were_replaced_later_are_the_ones_used() -> None:
    model = copy.deepcopy(tiny()[0])
    engine = Engine(model)
    before = engine.prefill(IDS).context.logits
    for layer in model.model.layers:
        layer.self_attn.q_proj.weight = nn.Parameter(0.5 * layer.self_attn.q_proj.weight.detach())
    after = engine.prefill(IDS).context.logits
    assert not torch.allclose(before, after, atol=1e-2)
    with torch.no_grad():
        assert torch.allclose(after, model(IDS).logits[:, -1], atol=1e-3)


def test_joined_weights_are_the_modules_own_and_are_joined_once() -> None:
    model = copy.deepcopy(tiny()[0])
    first, second = (fuse(model.model.layers[0], model.config) for _ in range(2))
    assert first is not None
    assert second is not None
    attention = model.model.layers[0].self_attn
    assert first.qkv.data_ptr() == second.qkv.data_ptr() == attention.q_proj.weight.data_ptr()
    assert torch.equal(first.qkv[-len(attention.v_proj.weight) :], attention.v_proj.weight)
