"""From a configuration to the parts of a loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from brace.callpath import CallPath, Mode, PlannerPool
from brace.context import plan_template
from brace.controller import Budget, Controller, Rules
from brace.controller.authors import AuthorsRules
from brace.errors import ConfigError
from brace.ledger.records import Call
from brace.ledger.scan import read_records
from brace.loop.clocks import Clock, ModelledClock, ReplayClock, WallClock
from brace.loop.config import RunConfig
from brace.plan import SkillSet
from brace.registry import budget_policies, compressors, planners, retrievers, worlds
from brace.worlds import World


def build_rules(config: RunConfig) -> Rules[Any]:
    """The controller alone: enough to decide a logged run again."""
    budgets = {name: Budget(name, mode.tokens, mode.slo_ms) for name, mode in config.modes.items()}
    if config.rules == "authors-proxy":
        knobs = config.controller
        try:
            return AuthorsRules(
                knobs.cooldown, knobs.commit, knobs.window, budgets["full"], budgets["pruned"]
            )
        except KeyError as error:
            raise ConfigError(
                f"rules 'authors-proxy' need the modes full and pruned; {error} is missing"
            ) from error
    chosen = config.budget
    options = {
        "modes": budgets,
        "mode": chosen.mode,
        "escalated": chosen.escalated,
        "escalate": chosen.escalate,
    }
    return Controller(config.controller, budget_policies.create(chosen.policy, options))


def build_world(config: RunConfig) -> World:
    """The world by its name."""
    world: World = worlds.create(config.world.name, config.world.options)
    return world


def build_pool(config: RunConfig, world: World) -> PlannerPool:
    """The planner by its name, with its queue. A reference planner is shown the world."""
    planner = planners.create(config.planner.name, config.planner.options)
    if hasattr(planner, "bind"):
        planner.bind(world)
    return PlannerPool(planner)


def build_path(config: RunConfig, pool: PlannerPool, skills: SkillSet) -> CallPath:
    """The call path with every mode's modules; a budget below its template is refused here."""
    template = plan_template(skills.describe())
    modes = {
        name: Mode(
            compressors.create(mode.compress.name, mode.compress.options),
            template,
            retrievers.create(mode.retrieve.name, mode.retrieve.options) if mode.retrieve else None,
        )
        for name, mode in config.modes.items()
    }
    path = CallPath(pool, modes, skills, allow_floor_overrun=config.loop.allow_floor_overrun)
    for name, mode in config.modes.items():
        path.check_budget(name, mode.tokens)
    return path


def build_clock(config: RunConfig) -> Clock:
    """Wall, formula, or the recording's."""
    loop = config.loop
    if loop.clock == "replay" and loop.recording is not None:
        calls = (record for record in read_records(Path(loop.recording)) if isinstance(record, Call))
        return ReplayClock.of(calls)
    if loop.clock == "modelled" and loop.model is not None:
        return ModelledClock(loop.model.fixed_ms, loop.model.per_token_ms)
    return WallClock()
