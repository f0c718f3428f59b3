"""The engine equals the plain model, and when it prunes, the plain model with the dropped tokens masked."""

from __future__ import annotations

import pytest
import torch
from erecap_kit import (
    EVERY,
    FAMILIES,
    LAYERS,
    RATIO,
    close,
    engine_of,
    generated,
    greedy,
    kept_of,
    model_of,
    padded,
    reference,
    row,
    text,
)

from brace.erecap import Keep, Writing, write

LENGTHS = (61, 34, 47)
NEW = 6
families = pytest.mark.parametrize(("name", "attention"), EVERY)
sides = pytest.mark.parametrize("side", ["left", "right"])


@families
@pytest.mark.parametrize("keep", [None, Keep(ratio=1), Keep(budget=61)], ids=["none", "ratio", "budget"])
def test_keeping_everything_writes_what_generate_writes(name: str, attention: str, keep: Keep | None) -> None:
    engine, ids = engine_of(name, attention), row(text(61))
    prefill = engine.prefill(ids, keep=keep)
    assert prefill.context.lengths() == [61] * LAYERS
    written = write(engine, prefill.context, Writing(NEW))
    assert written.tokens == generated(engine.backbone.model, ids, torch.ones_like(ids), NEW)
    assert written.reasons == ["length"]


@pytest.mark.parametrize("name", FAMILIES)
def test_left_padded_batch_writes_what_generate_writes(name: str) -> None:
    engine = engine_of(name)
    ids, mask = padded([text(n) for n in LENGTHS], "left")
    written = write(engine, engine.prefill(ids, mask).context, Writing(NEW))
    assert written.tokens == generated(engine.backbone.model, ids, mask, NEW)


@families
@sides
def test_padded_batch_writes_what_each_row_alone_gets_from_generate(
    name: str, attention: str, side: str
) -> None:
    engine = engine_of(name, attention)
    rows = [text(n) for n in LENGTHS]
    written = write(engine, engine.prefill(*padded(rows, side)).context, Writing(NEW))
    model = engine.backbone.model
    alone = [generated(model, row(one), torch.ones_like(row(one)), NEW)[0] for one in rows]
    assert written.tokens == alone


@families
@pytest.mark.parametrize("keep", [RATIO, Keep(budget=24), Keep(ratio=0.6, layers=(1, 2, 7))], ids=str)
def test_pruned_reading_and_writing_equal_the_masked_model(name: str, attention: str, keep: Keep) -> None:
    engine, ids = engine_of(name, attention), text(61)
    prefill = engine.prefill(row(ids), keep=keep)
    kept = kept_of(prefill, 0, torch.ones(1, 61))
    assert kept[-1].sum() < 61
    tokens, logits = greedy(engine, prefill.context, 5)
    close(logits, reference(name, attention, ids, kept, tokens[:-1]), attention)


@families
def test_pruning_changes_what_the_model_says(name: str, attention: str) -> None:
    engine, ids = engine_of(name, attention), row(text(61))
    whole, cut = engine.prefill(ids), engine.prefill(ids, keep=Keep(budget=24))
    assert (whole.context.logits - cut.context.logits).abs().max() > 1e-3


@families
@sides
def test_padded_pruned_batch_equals_each_row_alone_and_the_masked_model(
    name: str, attention: str, side: str
) -> None:
    engine = engine_of(name, attention)
    rows = [text(n) for n in LENGTHS]
    ids, mask = padded(rows, side)
    batch = engine.prefill(ids, mask, keep=RATIO)
    kept = [kept_of(batch, index, mask) for index in range(len(rows))]
    steps, tokens = [batch.context.logits.clone()], []
    for _ in range(3):
        tokens.append(steps[-1].argmax(-1))
        steps.append(engine.extend(batch.context, tokens[-1][:, None]).clone())
    for index, one in enumerate(rows):
        alone = engine.prefill(row(one), keep=RATIO)
        assert batch.schedules[index] == alone.schedules[0]
        for layer in range(LAYERS):
            assert torch.equal(kept[index][layer], alone.survivors[layer][0])
        said = torch.stack([step[index] for step in steps])
        more = [int(token[index]) for token in tokens]
        close(said, reference(name, attention, one, kept[index], more), attention)
        close(said[0], alone.context.logits[0], attention)


@families
def test_rows_too_short_to_prune_live_whole_beside_longer_ones(name: str, attention: str) -> None:
    engine = engine_of(name, attention)
    rows = [text(70), text(20), text(3)]
    ids, mask = padded(rows, "left")
    batch = engine.prefill(ids, mask, keep=Keep(budget=40))
    assert [int(batch.survivors[-1][index].sum()) for index in range(3)] == [40, 20, 3]
    for index, one in enumerate(rows):
        expected = reference(name, attention, one, kept_of(batch, index, mask))[0]
        close(batch.context.logits[index], expected, attention)


@families
def test_many_tokens_read_at_once_equal_one_by_one(name: str, attention: str) -> None:
    engine, ids, more = engine_of(name, attention), text(61), text(9, seed=4)
    one, other = (engine.prefill(row(ids), keep=RATIO).context for _ in range(2))
    at_once = engine.extend(one, row(more))
    for token in more:
        stepped = engine.extend(other, row([token]))
    close(at_once, stepped, attention)
    assert one.lengths() == other.lengths()
    assert [p.tolist() for p in one.positions] == [p.tolist() for p in other.positions]
    close(engine.extend(one, row([5])), engine.extend(other, row([5])), attention)


@families
@sides
def test_padded_turns_on_a_padded_pruned_batch_equal_each_row_alone(
    name: str, attention: str, side: str
) -> None:
    engine = engine_of(name, attention)
    rows, turns = [text(n) for n in LENGTHS], [text(3, seed=1), text(8, seed=2), text(5, seed=3)]
    context = engine.prefill(*padded(rows, side), keep=RATIO).context
    engine.extend(context, *padded(turns, side))
    after = engine.extend(context, torch.tensor([[9], [8], [7]]))
    for index, token in enumerate([9, 8, 7]):
        alone = engine.prefill(row(rows[index]), keep=RATIO).context
        engine.extend(alone, row(turns[index]))
        close(after[index], engine.extend(alone, row([token]))[0], attention)
    assert context.next_position.tolist() == [len(a) + len(b) + 1 for a, b in zip(rows, turns, strict=True)]


def test_models_are_decisive_and_differ_between_families() -> None:
    said = {name: tuple(generated(model_of(name), *[row(text(61))] * 2, 8)[0]) for name, _ in EVERY}
    assert all(len(set(tokens)) > 2 for tokens in said.values())
    assert len(set(said.values())) >= len(said) - 1
