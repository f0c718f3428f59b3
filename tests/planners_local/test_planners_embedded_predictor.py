"""The predictors that come with the embedded planner: used by default, better than keeping the latest."""

from __future__ import annotations

import random
from statistics import mean

import pytest
import torch

from brace.callpath.compress import Erecap
from brace.erecap import Engine, Keep
from brace.erecap.models import LINES, TOKENS, load_model
from brace.erecap.scorers import Predictor, Random, Recency, Scorer
from brace.planners.local import EMBEDDED, EmbeddedPlanner
from brace.registry import compressors, worlds
from brace.training.erecap.encoding import Item, ItemEncoder
from brace.training.erecap.examples import Example
from brace.training.erecap.quality import Exam, Worth, by_chance, cut_lines, judged_by, newest_first
from brace.training.lessons import FOOT, make_lesson
from brace.training.logs import record_log
from brace.training.readers import reader_of

BUDGET, TEXTS = 448, 4


def test_it_is_what_the_planner_prunes_with() -> None:
    assert isinstance(EmbeddedPlanner()._engine.scorer, Predictor)
    assert not isinstance(EmbeddedPlanner(scorer="recency")._engine.scorer, Predictor)


@pytest.fixture(scope="module")
def exam() -> Exam:
    """Texts of episodes that no training has seen."""
    model, tokenizer = load_model(EMBEDDED, torch.float32)
    encoder, items = ItemEncoder(tokenizer), list[Item]()
    world = worlds.create("babyai-v1", {"agents": 4, "disturbance": "normal"})
    seed = 970_000
    while len(items) < TEXTS:
        log = record_log(world, seed)
        lesson = make_lesson(log, reader_of(log), random.Random(seed), 6000, first=len(log.segments))
        lines = tuple(lesson.prompt.splitlines(keepends=True))
        heads = ("[task", "[goal", "[safety", FOOT)
        fixed = {n for n, line in enumerate(lines) if not line.startswith("[") or line.startswith(heads)}
        item = encoder.encode(Example(lines, lesson.plan, frozenset(fixed)), 4096)
        if item is not None and item.prompt > 1.7 * BUDGET:
            items.append(item)
        seed += 1
    world.close()
    return Exam(Engine(model), items)


@pytest.mark.parametrize("rival", [Recency(), Random()], ids=lambda rival: str(rival.name))
def test_at_a_tight_budget_it_keeps_what_the_plan_needs(exam: Exam, rival: Scorer) -> None:
    keep = Keep(budget=BUDGET)
    ours = exam.measure(Predictor(EMBEDDED / TOKENS), keep)
    other = exam.measure(rival, keep)
    assert {one.kept for one in ours} == {BUDGET}
    assert mean(one.divergence for one in ours) < 0.5 * mean(one.divergence for one in other)


def test_its_predictor_of_lines_is_what_cuts_text_by_default() -> None:
    erecap: Erecap = compressors.create("erecap", {"model": "embedded"})
    assert erecap._engine.scorer.line_layer is not None


@pytest.mark.parametrize("rule", [newest_first, by_chance])
def test_lines_it_keeps_serve_the_plan_better_than_a_rule_s(exam: Exam, rule: Worth) -> None:
    engine = exam._engine
    judge = judged_by(engine, Predictor(EMBEDDED / LINES))
    ours, other = (
        exam.measure_texts([cut_lines(item, worth(item), 0.5) for item in exam.items])
        for worth in (judge, rule)
    )
    assert mean(one.divergence for one in ours) < mean(one.divergence for one in other)
