"""What cannot be read is refused by name before any layer runs, and the context stays usable."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import transformers
from erecap_kit import POSITIONS, RATIO, SHAPE, close, engine_of, model_of, padded, row, text
from torch import Tensor

from brace.erecap import FAMILIES, Engine, Keep
from brace.errors import ConfigError

ENGINE = engine_of("llama")


@pytest.fixture
def untouched() -> Iterator[None]:
    """Fails when a layer of the model ran."""
    ran: list[int] = []
    hook = model_of("llama").model.layers[0].register_forward_pre_hook(lambda *_: ran.append(1))
    yield
    hook.remove()
    assert ran == []


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("shape", [(0,), (5,), (0, 5), (1, 0), (1, 5, 2)], ids=str)
def test_ids_that_hold_no_text_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="batch, tokens"):
        ENGINE.prefill(torch.ones(shape, dtype=torch.long))


@pytest.mark.usefixtures("untouched")
def test_a_row_of_padding_is_refused() -> None:
    mask = torch.tensor([[1, 1, 1], [0, 0, 0]])
    with pytest.raises(ConfigError, match="all padding"):
        ENGINE.prefill(torch.ones(2, 3, dtype=torch.long), mask)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("keep", [None, RATIO, Keep(budget=60)])
def test_a_context_beyond_the_positions_is_refused(keep: Keep | None) -> None:
    with pytest.raises(ConfigError, match=f"{POSITIONS + 1} tokens.*{POSITIONS} positions"):
        ENGINE.prefill(row(text(POSITIONS + 1)), keep=keep)


def test_the_last_position_can_be_used_and_padding_does_not_count() -> None:
    ids, mask = padded([text(POSITIONS), text(9)], "left")
    assert torch.isfinite(ENGINE.prefill(ids, mask, keep=RATIO).context.logits).all()
    wider = torch.cat([torch.zeros(2, 5, dtype=torch.long), ids], 1)
    more = torch.cat([torch.zeros(2, 5, dtype=torch.long), mask], 1)
    assert ENGINE.prefill(wider, more, keep=RATIO).context.next_position.tolist() == [POSITIONS, 9]


def test_more_than_the_positions_cannot_be_read_on_and_nothing_is_lost() -> None:
    context = ENGINE.prefill(row(text(POSITIONS - 4)), keep=RATIO).context
    other = ENGINE.prefill(row(text(POSITIONS - 4)), keep=RATIO).context
    with pytest.raises(ConfigError, match="positions"):
        ENGINE.extend(context, row(text(5)))
    assert context.lengths() == other.lengths()
    close(ENGINE.extend(context, row([5, 6, 7, 8])), ENGINE.extend(other, row([5, 6, 7, 8])))


def test_padding_of_a_turn_does_not_count_as_positions() -> None:
    context = ENGINE.prefill(row(text(POSITIONS - 2)), keep=RATIO).context
    ENGINE.extend(context, row([0, 0, 0, 0, 5, 6]), row([0, 0, 0, 0, 1, 1]))
    assert context.next_position.tolist() == [POSITIONS]


def test_an_unsupported_architecture_is_named_with_the_supported_ones() -> None:
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=20, n_positions=16)
    with pytest.raises(ConfigError, match="gpt2") as refused:
        Engine(transformers.GPT2LMHeadModel(config))
    assert all(kind in str(refused.value) for kind in FAMILIES)


def test_a_supported_model_without_a_language_head_is_refused() -> None:
    bare = transformers.LlamaModel(transformers.LlamaConfig(**SHAPE))
    with pytest.raises(ConfigError, match="LlamaModel"):
        Engine(bare)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("layers", [(0,), (5, 3), (3, 3), (8,), (-1,)], ids=str)
def test_pruning_layers_out_of_place_are_refused(layers: tuple[int, ...]) -> None:
    for keep in (Keep(ratio=0.5, layers=layers), Keep(budget=30, layers=layers)):
        with pytest.raises(ConfigError, match="pruning layers"):
            ENGINE.prefill(row(text(80)), keep=keep)


@pytest.mark.usefixtures("untouched")
def test_floors_larger_than_the_budget_are_refused() -> None:
    floor = torch.zeros(1, 80, dtype=torch.bool)
    floor[0, 10:40] = True
    with pytest.raises(ConfigError, match=r"budget of 40.*30"):
        ENGINE.prefill(row(text(80)), keep=Keep(budget=40), floor=floor)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("what", ["attention_mask", "floor", "segments"])
def test_marks_of_another_shape_than_the_ids_are_refused(what: str) -> None:
    wrong: dict[str, Tensor] = {what: torch.ones(1, 79, dtype=torch.long)}
    with pytest.raises(ConfigError, match="shape"):
        ENGINE.prefill(row(text(80)), keep=RATIO, **wrong)  # type: ignore[arg-type]


def test_a_turn_for_another_number_of_rows_is_refused_and_nothing_is_lost() -> None:
    context, other = (ENGINE.prefill(*padded([text(40), text(30)], "left")).context for _ in range(2))
    with pytest.raises(ConfigError, match="rows"):
        ENGINE.extend(context, row([5]))
    turn = torch.tensor([[5], [6]])
    close(ENGINE.extend(context, turn), ENGINE.extend(other, turn))
