"""What a chat template adds counts against a text budget, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from planners_local_kit import TEAM, WORLD, history

from brace.callpath import CallPath, Fit, Mode
from brace.callpath.compress import Recency
from brace.context import ContextBuffer, plan_template
from brace.errors import ConfigError
from brace.planners import PlannerPool
from brace.planners.local import TransformersPlanner


@pytest.mark.parametrize("budget", [380, 420, 500])
def test_text_is_cut_so_that_the_chat_template_fits_the_budget(chat_folder: Path, budget: int) -> None:
    planner = TransformersPlanner(str(chat_folder), max_new_tokens=4)
    planner.bind(WORLD)
    mode = Mode(plan_template(TEAM.describe()), (Fit(Recency()),))
    path = CallPath(PlannerPool(planner), {"pruned": mode}, TEAM)
    buffer = ContextBuffer(planner.tokenizer)
    buffer.extend(history(60))
    call = path.run(path.open(buffer.lines(), "pruned", budget=budget))
    assert budget - 25 < call.tokens_after <= budget
    assert call.tokens_read == call.tokens_after
    assert call.slack == budget - call.tokens_after
    with pytest.raises(ConfigError, match="template alone"):
        path.check_budget("pruned", planner.tokenizer.count(plan_template(TEAM.describe()).render([])) + 1)
