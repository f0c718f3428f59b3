"""The planner that comes with the package: it reads, and what it writes moves robots."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from planners_local_kit import FakeLimits
from safetensors import safe_open

from brace.bench.runner import prepare_run, run_tasks
from brace.context import ContextBuffer, plan_template
from brace.ledger.reader import load_run
from brace.loop.config import load_config
from brace.plan import parse
from brace.planners import Prompt
from brace.planners.local import EMBEDDED, EmbeddedPlanner
from brace.registry import worlds

WORLDS = {"babyai-v1": "minigrid", "drones-v1": "PyFlyt"} | dict.fromkeys(
    ("lift-v1", "handover-v1", "peg-v1"), "robosuite"
)
SEEDS = (900_001, 900_002, 900_003)


@pytest.fixture(scope="module")
def planner() -> EmbeddedPlanner:
    return EmbeddedPlanner()


def plan_of(planner: EmbeddedPlanner, text: str) -> str:
    prompt = Prompt(text, tokens=0)
    return "".join(piece for piece in planner.stream(prompt, FakeLimits()) if isinstance(piece, str))


def test_it_is_small_deep_and_long_enough() -> None:
    assert (EMBEDDED / "model.safetensors").stat().st_size < 40e6
    with safe_open(EMBEDDED / "model.safetensors", "pt") as file:
        kinds = {str(file.get_slice(name).get_dtype()) for name in file.keys()}  # noqa: SIM118 - no mapping
    assert kinds == {"BF16"}
    backbone = EmbeddedPlanner()._engine.backbone
    assert backbone.n_layers >= 12
    assert backbone.max_positions >= 8192
    assert "brace planner train" in (EMBEDDED / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", WORLDS)
def test_it_plans_as_the_perfect_reader_does_and_not_without_reading(
    planner: EmbeddedPlanner, name: str
) -> None:
    pytest.importorskip(WORLDS[name])
    world: Any = worlds.create(name)
    planner.bind(world)
    template = plan_template(world.skills.describe())
    alike = blind = 0
    for seed in SEEDS:
        world.reset(seed)
        buffer = ContextBuffer(planner.tokenizer)
        for _ in range(40):
            buffer.extend(world.observe())
            world.step(hold=False)
        text = template.head + "".join(line.text for line in buffer.lines()) + template.foot
        wanted = str(world.read(text))
        alike += str(parse(plan_of(planner, text), world.skills)) == wanted
        blind += str(parse(plan_of(planner, template.head + template.foot), world.skills)) == wanted
    world.close()
    assert alike >= 2
    assert blind == 0


def test_it_gets_the_job_done(tmp_path: Path) -> None:
    pytest.importorskip("minigrid")
    settings = {
        "world": {"name": "babyai-v1", "options": {"agents": 2, "difficulty": "easy"}},
        "episodes": 3,
        "seed": SEEDS[0],
        "controller": {"divergence_limit": 0.5},
        "modes": {"full": {}},
        "budget": {"mode": "full"},
        "loop": {"clock": "modelled", "model": {"fixed_ms": 0, "per_token_ms": 0}, "while_thinking": "hold"},
    }
    run_tasks(prepare_run(load_config(settings), tmp_path / "run", resume=False))
    run = load_run(tmp_path / "run")
    assert int(run.episodes["success"].sum()) >= 2
    assert set(run.calls["planner"]) == {"embedded"}
    assert set(run.calls["status"]) == {"ok"}


def test_in_a_user_s_own_loop_it_takes_skills_without_a_world(planner: EmbeddedPlanner) -> None:
    pytest.importorskip("minigrid")
    world = worlds.create("babyai-v1")
    planner.bind(SimpleNamespace(skills=world.skills, names={}))
    assert parse(plan_of(planner, "Plan:\n"), world.skills)
