"""Labels: what they are, that padding and company do not change them."""

from __future__ import annotations

import pytest
import torch
from erecap_training_kit import PRUNING, frozen, item, tiny_model

from brace.erecap.schedule import pruning_layers
from brace.training.erecap.encoding import batches_of, collate
from brace.training.erecap.frozen import FrozenModel
from brace.training.erecap.labels import LABELS, normalised, saliency

ITEMS = [item(60, 5, seed=1), item(41, 9, seed=2), item(30, 3, seed=3)]


@pytest.mark.parametrize("kind", LABELS)
def test_labels_are_the_same_alone_and_in_company_and_nought_outside_the_prompt(kind: str) -> None:
    model = frozen(torch.float64)
    together = LABELS[kind](model, collate(ITEMS), PRUNING)
    assert together.shape == (2, 3, 65)
    assert (together >= 0).all()
    for row, one in enumerate(ITEMS):
        alone = LABELS[kind](model, collate([one]), PRUNING)[:, 0]
        assert torch.allclose(together[:, row, : one.prompt], alone[:, : one.prompt], atol=1e-5)
        assert (together[:, row, one.prompt :] == 0).all()
        assert together[:, row, : one.prompt].max() > 0


def test_saliency_is_the_size_of_the_gradient_times_the_state() -> None:
    """By hand, through the model's own forward."""
    model, one = tiny_model(torch.float64), ITEMS[0]
    batch = collate([one])
    entered = {}

    def note(layer: int):  # type: ignore[no-untyped-def]
        def hook(_: object, given: tuple[torch.Tensor, ...]) -> None:
            given[0].retain_grad()
            entered[layer] = given[0]

        return hook

    hooks = [model.model.layers[layer].register_forward_pre_hook(note(layer)) for layer in PRUNING]
    embedded = model.model.embed_tokens(batch.ids).detach().requires_grad_()
    logits = model(inputs_embeds=embedded).logits[0, one.prompt - 1 : -1]
    torch.nn.functional.cross_entropy(logits, batch.ids[0, one.prompt :]).backward()
    for hook in hooks:
        hook.remove()
    found = saliency(FrozenModel(model), batch, PRUNING)
    for step, layer in enumerate(PRUNING):
        by_hand = (entered[layer].grad * entered[layer]).sum(-1).abs()[0, : one.prompt]
        assert torch.allclose(found[step, 0, : one.prompt], by_hand.float(), rtol=1e-4)


def test_a_closed_gate_is_a_token_that_nobody_sees() -> None:
    model = tiny_model(torch.float64)
    ids = torch.tensor([ITEMS[0].ids])
    gone = torch.tensor([[10 <= place < 20 for place in range(ids.shape[1])]])
    gates = torch.where(gone, -1e3, 0.0)
    read = FrozenModel(model).read(ids, lambda layer, _: gates if layer == 0 else None)
    causal = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
    look = (causal & ~gone)[None, None] | torch.eye(ids.shape[1], dtype=torch.bool)
    want = model.model(ids, attention_mask=look).last_hidden_state
    got = model.model.norm(read)
    assert torch.allclose(got[0, 20:], want[0, 20:], atol=1e-5)


def test_normalised_labels_have_mean_0_and_spread_1_over_the_prompt() -> None:
    batch = collate(ITEMS)
    found = normalised(saliency(frozen(), batch, PRUNING), batch.prompt)
    for row, one in enumerate(ITEMS):
        mine = found[:, row, : one.prompt]
        assert torch.allclose(mine.mean(-1), torch.zeros(2), atol=1e-3)
        assert torch.allclose(mine.std(-1, unbiased=False), torch.ones(2), atol=1e-2)
    assert (found[:, ~batch.prompt] == 0).all()


def test_batches_hold_every_item_once_and_keep_within_their_size() -> None:
    items = [item(10 + n * 7 % 90, 3, seed=n) for n in range(40)]
    groups = batches_of(items, 400)
    assert sorted(place for group in groups for place in group) == list(range(40))
    for group in groups:
        assert len(group) == 1 or len(group) * max(len(items[n].ids) for n in group) <= 400


def test_the_tiny_model_has_these_pruning_layers() -> None:
    assert pruning_layers(8) == PRUNING
