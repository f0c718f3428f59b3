"""What pruning costs, measured: nothing when nothing is pruned, the same alone and in company."""

from __future__ import annotations

import pytest
import torch
from erecap_training_kit import LAYERS, fresh, item, tiny_model

from brace.erecap import Engine, Keep
from brace.erecap.scorers import Random, Recency
from brace.training.erecap.quality import Exam, keep_share

ITEMS = [item(90, 5, seed=1), item(60, 1, seed=2), item(120, 9, seed=3)]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(tiny_model(torch.float64))


def test_unpruned_there_is_no_divergence_and_the_loss_is_the_model_s_own(engine: Engine) -> None:
    found = Exam(engine, ITEMS).measure(Recency(), Keep())
    for one, quality in zip(ITEMS, found, strict=True):
        with torch.no_grad():
            logits = engine.backbone.model(torch.tensor([one.ids])).logits[0, one.prompt - 1 : -1]
        target = torch.tensor(one.ids[one.prompt :])
        assert quality.loss == pytest.approx(float(torch.nn.functional.cross_entropy(logits, target)), 1e-4)
        assert quality.divergence == pytest.approx(0, abs=1e-6)
        assert quality.exact == bool((logits.argmax(-1) == target).all())
        assert quality.kept == one.prompt


@pytest.mark.parametrize("whole_lines", [False, True])
def test_company_does_not_matter(engine: Engine, whole_lines: bool) -> None:
    keep, scorer = keep_share(0.4, LAYERS), fresh().eval()
    together = Exam(engine, ITEMS, 1000).measure(scorer, keep, whole_lines=whole_lines)
    for one, quality in zip(ITEMS, together, strict=True):
        (alone,) = Exam(engine, [one]).measure(scorer, keep, whole_lines=whole_lines)
        assert alone.loss == pytest.approx(quality.loss, rel=1e-4)
        assert alone.divergence == pytest.approx(quality.divergence, rel=1e-3, abs=1e-6)
        assert alone.kept == quality.kept < one.prompt


def test_less_kept_is_further_from_the_whole_model(engine: Engine) -> None:
    exam = Exam(engine, [item(200, 6, seed=n) for n in range(12)])
    by_share = [
        sum(one.divergence for one in exam.measure(Random(), keep_share(share, LAYERS)))
        for share in (0.9, 0.5, 0.2)
    ]
    assert by_share == sorted(by_share)


def test_a_share_is_about_what_the_last_layer_keeps(engine: Engine) -> None:
    exam = Exam(engine, [item(300, 2, seed=5)])
    (quality,) = exam.measure(Random(), keep_share(0.3, LAYERS))
    assert quality.kept == pytest.approx(90, abs=3)
