"""Writing on: greedy or drawn, stopped by length, end tokens, texts or a deadline, steered by a hook."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from erecap_kit import POSITIONS, RATIO, VOCAB, close, engine_of, greedy, padded, row, text
from torch import Tensor

from brace.erecap import Context, Writing, write
from brace.erecap.eager import EagerContext
from brace.errors import ConfigError

ENGINE = engine_of("llama")
PROMPT = text(60)


def context(ids: Sequence[int] = PROMPT) -> Context:
    return ENGINE.prefill(row(ids), keep=RATIO).context


def expected(count: int) -> list[int]:
    return greedy(ENGINE, context(), count)[0]


class FakeLimits:
    """Expires once it has been asked more than `asks` times."""

    def __init__(self, asks: int) -> None:
        self.asks = asks

    def expired(self) -> bool:
        self.asks -= 1
        return self.asks < 0


class FakeTokenizer:
    """Each token is a number and a comma."""

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(f"{token}," for token in ids)


def planted(chances: Sequence[float], rows: int) -> Context:
    """Nothing but the next token's chances."""
    logits = torch.full((rows, VOCAB), -torch.inf, dtype=torch.float64)
    logits[:, : len(chances)] = torch.tensor(chances, dtype=torch.float64).log()
    made = EagerContext(rows, 0, logits.device)
    made.logits = logits
    return made


def shares(chances: Sequence[float], how: Writing, rows: int = 4000) -> list[float]:
    tokens = torch.tensor(write(ENGINE, planted(chances, rows), how).tokens)[:, 0]
    return [float((tokens == token).double().mean()) for token in range(len(chances))]


def test_greedy_writes_the_most_likely_tokens() -> None:
    written = write(ENGINE, context(), Writing(8))
    assert written.tokens == [expected(8)]
    assert written.reasons == ["length"]
    assert len(write(ENGINE, context()).tokens[0]) == 64


def test_every_token_is_told_as_it_comes() -> None:
    told: list[list[int]] = []
    written = write(ENGINE, context(), Writing(5), on_token=lambda step: told.append(step.tolist()))
    assert [tokens[0] for tokens in told] == written.tokens[0]


@pytest.mark.parametrize("count", [1, 4])
def test_afterwards_the_context_holds_all_but_the_last_token(count: int) -> None:
    one = context()
    tokens = write(ENGINE, one, Writing(count)).tokens[0]
    assert int(one.next_position) == 60 + count - 1
    close(ENGINE.extend(one, row(tokens[-1:]))[0], greedy(ENGINE, context(), count + 1)[1][-1])


def test_drawn_tokens_follow_the_seed() -> None:
    def drawn(seed: int) -> list[int]:
        return write(ENGINE, context(), Writing(12, temperature=3.0, top_p=0.95, seed=seed)).tokens[0]

    assert drawn(1) == drawn(1)
    assert len({tuple(drawn(seed)) for seed in range(4)}) > 1


def test_a_tiny_temperature_or_top_p_is_greedy() -> None:
    assert write(ENGINE, context(), Writing(6, temperature=1e-3)).tokens == [expected(6)]
    assert write(ENGINE, context(), Writing(6, temperature=2.0, top_p=1e-6)).tokens == [expected(6)]


def test_top_p_keeps_the_fewest_tokens_that_reach_it_in_their_proportion() -> None:
    chances = [0.05, 0.5, 0.15, 0.3]
    assert shares(chances, Writing(1, temperature=1.0, top_p=0.7)) == pytest.approx(
        [0, 0.625, 0, 0.375], abs=0.03
    )
    assert shares(chances, Writing(1, temperature=1.0, top_p=0.9)) == pytest.approx(
        [0, 0.526, 0.158, 0.316], abs=0.03
    )
    assert shares(chances, Writing(1, temperature=1.0)) == pytest.approx(chances, abs=0.03)


def test_temperature_sharpens_and_flattens() -> None:
    assert shares([0.8, 0.2], Writing(1, temperature=0.5)) == pytest.approx([0.941, 0.059], abs=0.03)
    assert shares([0.8, 0.2], Writing(1, temperature=2.0)) == pytest.approx([0.667, 0.333], abs=0.03)


def test_an_end_token_ends_its_row_and_belongs_to_it() -> None:
    tokens = expected(8)
    stop = next(index for index, token in enumerate(tokens) if token not in tokens[:index] and index > 1)
    written = write(ENGINE, context(), Writing(8, end_tokens=(0, tokens[stop])))
    assert written.tokens == [tokens[: stop + 1]]
    assert written.reasons == ["end"]


def test_rows_end_by_themselves_and_the_others_go_on_unmoved() -> None:
    rows = [text(60), text(45), text(52)]
    free = [greedy(ENGINE, context(one), 8)[0] for one in rows]
    batch = ENGINE.prefill(*padded(rows, "left"), keep=RATIO).context
    written = write(ENGINE, batch, Writing(8, end_tokens=(free[1][2],)))
    assert written.reasons[1] == "end"
    for got, whole, reason in zip(written.tokens, free, written.reasons, strict=True):
        assert got == whole[: len(got)]
        assert (len(got) == 8) == (reason == "length")
        assert (got[-1] == free[1][2]) == (reason == "end")


def test_a_stop_text_across_tokens_is_seen() -> None:
    tokens = expected(8)
    stop = f"{tokens[2]},{tokens[3]},"
    written = write(ENGINE, context(), Writing(8, stop_texts=("nope", stop)), tokenizer=FakeTokenizer())
    assert written.tokens == [tokens[:4]]
    assert written.reasons == ["text"]


@pytest.mark.parametrize("asks", [0, 1, 5])
def test_a_deadline_stops_between_two_tokens(asks: int) -> None:
    written = write(ENGINE, context(), Writing(8), limits=FakeLimits(asks))
    assert written.reasons == ["deadline"]
    assert written.tokens == [expected(8)[: len(written.tokens[0])]]
    assert len(written.tokens[0]) == asks


def test_after_a_deadline_the_context_can_be_written_on_as_after_any_other_end() -> None:
    one = context()
    tokens = write(ENGINE, one, Writing(8), limits=FakeLimits(3)).tokens[0]
    assert int(one.next_position) == 60 + len(tokens) - 1
    close(ENGINE.extend(one, row(tokens[-1:]))[0], greedy(ENGINE, context(), len(tokens) + 1)[1][-1])


def test_a_hook_constrains_what_is_written_and_sees_what_was() -> None:
    seen: list[list[int]] = []

    def only_seven_then_even(history: Tensor, logits: Tensor) -> Tensor:
        seen.append(history[0].tolist())
        allowed = torch.zeros(VOCAB, dtype=torch.bool)
        if history.shape[1] == 0:
            allowed[7] = True
        else:
            allowed[::2] = True
        return logits.masked_fill(~allowed, -torch.inf)

    for how in (Writing(6), Writing(6, temperature=2.0, top_p=0.9)):
        seen.clear()
        tokens = write(ENGINE, context(), how, logits_hook=only_seven_then_even).tokens[0]
        assert tokens[0] == 7
        assert all(token % 2 == 0 for token in tokens[1:])
        assert seen == [tokens[:count] for count in range(6)]


@pytest.mark.parametrize(
    "bad",
    [
        {"max_new_tokens": 0},
        {"temperature": -1.0},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"temperature": float("nan")},
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="writing"):
        Writing(**bad)  # type: ignore[arg-type]


def test_stop_texts_without_a_tokenizer_are_refused() -> None:
    with pytest.raises(ConfigError, match="tokenizer"):
        write(ENGINE, context(), Writing(stop_texts=("x",)))


def test_writing_up_to_the_last_position_ends_by_length_with_what_was_written() -> None:
    ids = text(POSITIONS - 3)
    written = write(ENGINE, ENGINE.prefill(row(ids), keep=RATIO).context, Writing(20))
    # The last position holds a token that is read; the one chosen after it is written and never read.
    assert len(written.tokens[0]) == 4
    assert written.reasons == ["length"]
