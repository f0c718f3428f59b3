"""E-RECAP as a selector: the compressors' common rules, and its own: a model judges, in any tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from compress_contexts import TOKENIZERS, lines_of, total

from brace.callpath import CallPath, Fit, Mode, OpenCall
from brace.callpath.compress import Erecap
from brace.context import Line, PromptTemplate, Segment, plan_template
from brace.erecap.scorers import Predictor, ScoreInput, Scorer
from brace.errors import ConfigError
from brace.planners import Deadline, FunctionPlanner, PlannerPool
from brace.registry import compressors, scorers
from tiny_model import tiny

HISTORY = [
    Segment("task", "bring the red ball to the kitchen"),
    *[Segment("observation", f"door {n} is shut and lamp {n % 3} is on", n) for n in range(60)],
    Segment("failure", "the door was locked", 60),
]

both = pytest.mark.parametrize("grain", ["token", "segment"])
tokenizers = pytest.mark.parametrize("tokens", list(TOKENIZERS))


def floors(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line.floor]


def make(**options: Any) -> Erecap:
    model, tokenizer = tiny()
    made: Erecap = compressors.create("erecap", {"model": model, "tokenizer": tokenizer} | options)
    return made


@both
@tokenizers
def test_it_keeps_the_common_rules(grain: str, tokens: str) -> None:
    lines = lines_of(HISTORY, tokens)
    for share in (0.2, 0.5, 0.9):
        room = int(total(floors(lines)) + share * (total(lines) - total(floors(lines))))
        kept = make(granularity=grain).compress(
            OpenCall(lines=lines, room=room, tokenizer=TOKENIZERS[tokens])
        )
        assert total(kept) <= room
        assert [line.text for line in kept if line.floor] == [line.text for line in floors(lines)]
        if grain == "segment":
            assert {line.text for line in kept} <= {line.text for line in lines}
        elif tokens == "words":
            assert total(kept) == room
        again = make(granularity=grain).compress(
            OpenCall(lines=lines, room=room, tokenizer=TOKENIZERS[tokens])
        )
        assert [line.text for line in again] == [line.text for line in kept]


def test_an_empty_context_stays_empty() -> None:
    assert make().compress(OpenCall(lines=[], room=10, tokenizer=TOKENIZERS["words"])) == []


def test_what_the_scorer_values_survives_in_the_planner_s_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake scorer that loves the tokens of one line, in another tokenizer than the planner's."""
    _, tokenizer = tiny()
    wanted = "[observation 17] door 17 is shut and lamp 2 is on\n"

    class FakeLover(Scorer):
        name = "fake-lover"

        def prepare(self, backbone: object, ids: Any, valid: object) -> None:
            encoded = tokenizer("".join(line.text for line in lines), return_offsets_mapping=True)
            text = "".join(line.text for line in lines)
            start = text.index(wanted)
            self.loved = [start <= a < start + len(wanted) for a, _ in encoded.offset_mapping]

        def score(self, given: ScoreInput) -> Any:
            return given.positions.new_tensor(self.loved, dtype=float)[given.columns]

    monkeypatch.setitem(scorers._things, "fake-lover", FakeLover)
    lines = lines_of(HISTORY, "words")
    room = total(floors(lines)) + 20
    for grain in ("token", "segment"):
        kept = make(scorer="fake-lover", granularity=grain).compress(
            OpenCall(lines=lines, room=room, template=PromptTemplate("{context}"))
        )
        assert "door 17 is shut" in "".join(line.text for line in kept)


def test_a_context_longer_than_the_model_reads_is_taken_in_parts() -> None:
    model, _ = tiny()
    long = [HISTORY[0], *[Segment("observation", f"door {n} is shut", n) for n in range(900)]]
    lines = lines_of(long, "words")
    worth = make()._worth_by_line(lines)
    assert sum(len(line.text) for line in lines) > model.config.max_position_embeddings
    assert all(np.isfinite(values).all() and values.max() > 0 for values in worth)


def test_on_the_call_path_the_budget_holds_in_the_planner_s_tokens() -> None:
    prompts: list[str] = []

    def planner(prompt: str) -> str:
        prompts.append(prompt)
        return "wait()"

    for tokens, tokenizer in TOKENIZERS.items():
        path = CallPath(
            PlannerPool(FunctionPlanner(planner, tokenizer)),
            {"pruned": Mode(plan_template(), (Fit(make()),))},
        )
        result = path.run(
            path.open(lines_of(HISTORY, tokens), "pruned", budget=200, deadline=Deadline(60_000))
        )
        assert result.status == "ok"
        assert tokenizer.count(prompts[-1]) == result.tokens_after <= 200
        assert "the door was locked" in prompts[-1]


def test_unknown_scorers_and_missing_models_are_said() -> None:
    with pytest.raises(Exception, match="did you mean 'attention'"):
        make(scorer="attnetion")
    with pytest.raises(ConfigError, match="no-such-folder"):
        compressors.create("erecap", {"model": "no-such-folder"})


def lines_predictor(path: Path) -> Path:
    """One that values tokens by how late they stand: content does not count."""
    model, _ = tiny()
    made = Predictor.fresh(model.config.model_type, model.config.hidden_size, (3,), lines=True)
    with torch.no_grad():
        made.nets["3"].outer.weight.zero_()
        made.nets["3"].outer.bias.fill_(-5.0)
        made.nets["3"].ends.copy_(torch.tensor([0.0, -1.0]))
    made.save(path)
    return path


def test_a_predictor_of_lines_judges_by_the_mean_of_their_tokens(tmp_path: Path) -> None:
    path = lines_predictor(tmp_path / "lines.safetensors")
    lines = lines_of(HISTORY, "words")
    room = total(floors(lines)) + 40
    erecap = make(scorer="predictor", options={"path": str(path)})
    kept = erecap.compress(
        OpenCall(
            lines=lines,
            room=room,
            tokenizer=TOKENIZERS["words"],
            template=PromptTemplate("You plan.\n{context}"),
        )
    )
    loose = [line.segment.step for line in kept if not line.floor]
    assert loose == list(range(60 - len(loose), 60))


def test_a_folder_s_own_predictor_of_lines_is_taken_by_default(tmp_path: Path) -> None:
    model, tokenizer = tiny()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    lines_predictor(tmp_path / "lines.safetensors")
    lines = lines_of(HISTORY, "words")
    made: Erecap = compressors.create("erecap", {"model": str(tmp_path)})
    kept = made.compress(OpenCall(lines=lines, room=total(floors(lines)) + 40, tokenizer=TOKENIZERS["words"]))
    assert [line.segment.step for line in kept][-2] == 59


@both
def test_what_a_later_line_says_again_goes_first(grain: str) -> None:
    history = [
        HISTORY[0],
        *[Segment("message", "room 2: yellow box", n, n % 4) for n in range(30)],
        *[Segment("message", f"room {n}: nothing", 30 + n, 0) for n in range(3, 6)],
    ]
    lines = lines_of(history, "words")
    unique = [lines[30], *lines[31:]]
    room = total([lines[0], *unique])
    kept = make(granularity=grain).compress(OpenCall(lines=lines, room=room, tokenizer=TOKENIZERS["words"]))
    assert [line.text for line in kept] == [lines[0].text, *(line.text for line in unique)]


def test_the_same_context_is_read_once_for_several_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    erecap, lines = make(), lines_of(HISTORY, "words")
    read: list[int] = []
    prefill = erecap._engine.prefill

    def counted(ids: Any, **options: Any) -> Any:
        read.append(ids.shape[1])
        return prefill(ids, **options)

    monkeypatch.setattr(erecap._engine, "prefill", counted)
    for room in (300, 290, 200):
        erecap.compress(OpenCall(lines=lines, room=room, tokenizer=TOKENIZERS["words"]))
    assert len(read) == 1
    erecap.compress(OpenCall(lines=lines[:-2], room=200, tokenizer=TOKENIZERS["words"]))
    assert len(read) == 2
