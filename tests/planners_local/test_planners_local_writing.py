"""Writing with drafts: the same text as without, in fewer readings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from planners_local_kit import NAMES, TEAM, FakeLimits, byte_level_tokenizer, save_tiny

from brace.erecap import Engine, Session, Writing, write
from brace.erecap.models import load_model
from brace.planners.constrained import PlanConstraint, Vocabulary
from brace.planners.plan_writing import DRAFT, PlanWriter, draft

TOKENIZER = byte_level_tokenizer()
END = TOKENIZER.eos_token_id
PROMPT = TOKENIZER("[observation 12 a1] goto(red ball, room 3); wait()\n1: layer(2)\nPlan:\n").input_ids


class CountedEngine(Engine):
    """Counts what is read at once."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.rows: list[int] = []

    def extend(self, context: Any, ids: torch.Tensor, *rest: Any, **options: Any) -> torch.Tensor:
        self.rows.append(ids.shape[1])
        return super().extend(context, ids, *rest, **options)


@pytest.fixture(params=range(3))
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> CountedEngine:
    model, _ = load_model(str(save_tiny(tmp_path, TOKENIZER, seed=request.param)), torch.float64)
    return CountedEngine(model)


def text_of(writer: PlanWriter, engine: Engine, mask: Any, looks: float = float("inf")) -> str:
    session = Session(engine)
    session.read(PROMPT)
    return "".join(writer.write(session.context, mask, FakeLimits(looks), PROMPT))


@pytest.mark.parametrize("constrained", [False, True])
def test_a_draft_changes_nothing_but_the_number_of_readings(engine: CountedEngine, constrained: bool) -> None:
    size = engine.backbone.config.vocab_size
    constraint = PlanConstraint(Vocabulary(TOKENIZER, size, [END]), TEAM, NAMES)

    def mask() -> Any:
        return constraint.begin() if constrained else None

    session = Session(engine)
    session.read(PROMPT)
    plain = write(engine, session.context, Writing(60, end_tokens=(END,)), logits_hook=mask())
    tokens = [token for token in plain.tokens[0] if token != END]
    writer = PlanWriter(engine, TOKENIZER, [END], 60)
    engine.rows.clear()
    first = text_of(writer, engine, mask())
    readings = len(engine.rows)
    engine.rows.clear()
    again = text_of(writer, engine, mask())
    expected = TOKENIZER.decode(tokens, skip_special_tokens=True)
    # A grammar forces tokens together, which may go past the limit by some.
    assert first.startswith(expected.rstrip("\ufffd"))
    assert again == first
    assert len(engine.rows) <= max(1, -(-len(tokens) // (DRAFT + 1))) + 1, "its last text is a perfect draft"
    assert len(engine.rows) <= readings


def test_what_was_read_along_in_vain_is_forgotten(engine: CountedEngine) -> None:
    session = Session(engine)
    session.read(PROMPT)
    writer = PlanWriter(engine, TOKENIZER, [END], 30)
    # A draft that is wrong somewhere in its middle.
    writer._last = [5] * DRAFT
    list(writer.write(session.context, None, FakeLimits(), PROMPT))
    held = session.context.lengths()
    assert set(held) == {int(session.context.next_position[0])}
    assert held[0] <= len(PROMPT) + 30
    once = [*PROMPT, *writer._last[: held[0] - len(PROMPT)]]
    ids = torch.tensor([[*once, 7]])
    expected = engine.prefill(ids).context.logits
    assert torch.allclose(engine.extend(session.context, torch.tensor([[7]])), expected, atol=1e-6)


def test_it_stops_between_two_readings_when_time_is_up(engine: CountedEngine) -> None:
    writer = PlanWriter(engine, TOKENIZER, [END], 60)
    whole = text_of(writer, engine, None)
    engine.rows.clear()
    cut = text_of(PlanWriter(engine, TOKENIZER, [END], 60), engine, None, looks=2)
    assert len(engine.rows) == 2
    assert whole.startswith(cut)
    assert len(cut) < len(whole)


@given(
    seen=st.lists(st.integers(0, 4), max_size=40),
    prompt=st.lists(st.integers(0, 4), max_size=10),
    written=st.lists(st.integers(0, 4), max_size=10),
)
def test_a_draft_is_what_followed_the_longest_clue_the_latest_time(
    seen: list[int], prompt: list[int], written: list[int]
) -> None:
    found = draft(np.array(seen, dtype=np.int64), prompt, written)
    ends = [*prompt[-4:], *written][-4:]
    before = [*seen, *written]
    for length in range(len(ends), 0, -1):
        clue = ends[-length:]
        at = [end for end in range(length, len(before)) if before[end - length : end] == clue]
        if at:
            assert found == before[at[-1] : at[-1] + DRAFT]
            return
    assert found == []
