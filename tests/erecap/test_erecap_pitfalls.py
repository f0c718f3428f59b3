"""Known traps of transformers (see the notes on its internals), each with the engine on the right side."""

from __future__ import annotations

import pytest
import torch
import transformers
from erecap_kit import (
    FAMILIES,
    LAYERS,
    VOCAB,
    WINDOW,
    close,
    engine_of,
    generated,
    kept_of,
    model_of,
    padded,
    reference,
    row,
    text,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from brace.erecap import Engine, Keep, Writing, write
from brace.erecap.scorers import Attention
from brace.errors import ConfigError

WINDOWED = [name for name, family in FAMILIES.items() if any(family.windows)]
STEEP = Keep(budget=26, layers=(2, 4, 6))


def test_layers_of_uneven_length_stay_uneven_and_right_over_many_tokens() -> None:
    # More tokens than the room that is made at a time, so that every buffer grows.
    engine, ids = engine_of("qwen2"), text(120)
    prefill = engine.prefill(row(ids), keep=STEEP)
    kept = kept_of(prefill, 0, torch.ones(1, 120))
    start = prefill.context.lengths()
    assert len(set(start)) == 4
    more = text(150, seed=6)
    engine.extend(prefill.context, row(more[:70]))
    for token in more[70:]:
        logits = engine.extend(prefill.context, row([token]))
    assert prefill.context.lengths() == [length + 150 for length in start]
    close(logits[0], reference("qwen2", "sdpa", ids, kept, more)[-1])


def test_several_queries_on_a_longer_cache_see_all_of_it() -> None:
    # The trap: without a mask, three queries on ten keys look at the first three keys only.
    attention = model_of("qwen2").model.layers[0].self_attn
    query, key = torch.randn(1, 4, 3, 16).double(), torch.randn(1, 2, 10, 16).double()
    with torch.no_grad():
        blind = sdpa_attention_forward(attention, query, key, key, None)[0]
        first = sdpa_attention_forward(attention, query, key[:, :, :3], key[:, :, :3], None)[0]
    assert torch.allclose(blind, first)
    engine, ids, turn = engine_of("qwen2"), text(60), text(3, seed=1)
    prefill = engine.prefill(row(ids), keep=STEEP)
    kept = kept_of(prefill, 0, torch.ones(1, 60))
    close(
        engine.extend(prefill.context, row(turn))[0],
        reference("qwen2", "sdpa", ids, kept, turn)[-1],
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_is_dropped_before_the_first_layer(name: str) -> None:
    with pytest.raises(ConfigError, match="pruning layers"):
        engine_of(name).prefill(row(text(60)), keep=Keep(ratio=0.5, layers=(0,)))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_next_position_follows_the_uncut_text_however_much_was_dropped(name: str) -> None:
    engine = engine_of(name)
    context = engine.prefill(row(text(200)), keep=Keep(budget=40, layers=(1, 2, 3))).context
    write(engine, context, Writing(3))
    assert [positions[0, -3:].tolist() for positions in context.positions[1:]] == [
        [199, 200, 201] for _ in range(LAYERS - 1)
    ]


@pytest.mark.parametrize("name", WINDOWED)
@pytest.mark.parametrize("length", [WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW + 1])
def test_a_window_begins_to_bind_at_exactly_its_length(name: str, length: int) -> None:
    engine, ids = engine_of(name), row(text(length))
    written = write(engine, engine.prefill(ids).context, Writing(6))
    assert written.tokens == generated(engine.backbone.model, ids, torch.ones_like(ids), 6)


@pytest.mark.parametrize("name", WINDOWED)
def test_a_window_counts_positions_not_survivors(name: str) -> None:
    engine, ids = engine_of(name), text(100)
    prefill = engine.prefill(row(ids), keep=STEEP)
    kept = kept_of(prefill, 0, torch.ones(1, 100))
    turn = text(5, seed=3)
    logits = engine.extend(prefill.context, row(turn))[0]
    close(logits, reference(name, "sdpa", ids, kept, turn)[-1])


@pytest.mark.parametrize("name", WINDOWED)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_and_a_window_are_both_in_the_mask(name: str, side: str) -> None:
    engine, rows = engine_of(name), [text(70), text(21), text(40)]
    ids, mask = padded(rows, side)
    prefill = engine.prefill(ids, mask, keep=STEEP)
    kept = [kept_of(prefill, index, mask) for index in range(3)]
    turns = torch.tensor([text(4, seed=index) for index in range(3)])
    logits = engine.extend(prefill.context, turns)
    for index, one in enumerate(rows):
        close(logits[index], reference(name, "sdpa", one, kept[index], turns[index].tolist())[-1])


def test_mistrals_own_default_window_is_heeded() -> None:
    assert transformers.MistralConfig().sliding_window == 4096
    config = transformers.MistralConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16,
    )  # fmt: skip
    assert Engine(transformers.MistralForCausalLM(config)).backbone.windows == [4096, 4096]


def test_padding_tokens_may_be_anything() -> None:
    engine, rows = engine_of("glm4"), [text(50), text(33)]
    ids, mask = padded(rows, "left")
    other = ids.masked_fill(mask == 0, 17)
    one, same = (engine.prefill(given, mask, keep=Keep(ratio=0.7)).context for given in (ids, other))
    close(one.logits, same.logits)


def test_attention_scores_need_no_attentions_from_sdpa() -> None:
    # The trap: sdpa returns none.
    picks = [
        Engine(model_of("qwen3", attention), Attention()).prefill(row(text(80)), keep=STEEP).survivors
        for attention in ("sdpa", "eager")
    ]
    assert all(map(torch.equal, *picks))
