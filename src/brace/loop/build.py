"""From a configuration to the parts of a loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from brace.callpath import CallPath, Fit, Mode, Retrieve, Stage
from brace.callpath.compress import Compressor
from brace.context import find_template
from brace.controller import Budget, Rules
from brace.errors import ConfigError
from brace.ledger.records import Call
from brace.ledger.scan import read_records
from brace.loop.clocks import Clock, ModelledClock, ReplayClock, WallClock
from brace.loop.config import ModeConfig, Part, RunConfig, naming
from brace.plan import SkillSet
from brace.planners import PlannerPool
from brace.registry import Parts, budget_policies, compressors, planners, retrievers, rules, worlds
from brace.worlds import World


def check_parts(config: RunConfig) -> None:
    """Refuse names and options that no part takes, by their key, before anything is built or written."""
    parts: list[tuple[str, Parts[Any], Part | None]] = [
        ("world", worlds, config.world), ("planner", planners, config.planner),
    ]  # fmt: skip
    for name, mode in config.modes.items():
        parts += [
            (f"modes.{name}.compress", compressors, mode.compress),
            (f"modes.{name}.retrieve", retrievers, mode.retrieve),
        ]
    with naming("rules"):
        rules.get(config.rules.name)
    with naming("budget"):
        build_rules(config)
    for name, mode in config.modes.items():
        with naming(f"modes.{name}.template"):
            find_template(mode.template)
    for key, registry, part in parts:
        with naming(key):
            if part is not None:
                registry.check(part.name, part.options)


def build_rules(config: RunConfig) -> Rules[Any]:
    """The controller alone: enough to decide a logged run again."""
    chosen = config.budget
    options = {
        "modes": {name: Budget(name, mode.tokens, mode.slo_ms) for name, mode in config.modes.items()},
        "mode": chosen.mode,
        "escalated": chosen.escalated,
        "escalate": chosen.escalate,
    }
    policy = budget_policies.create(chosen.policy.name, options | chosen.policy.options)
    made: Rules[Any] = rules.create(
        config.rules.name, {"config": config.controller, "policy": policy} | config.rules.options
    )
    return made


def build_world(config: RunConfig) -> World:
    """The world by its name."""
    if config.world.name == "live":
        raise ConfigError("world: none is given; name one, e.g. world: babyai-v1 (see: brace worlds list)")
    world: World = worlds.create(config.world.name, config.world.options)
    return world


def build_pool(config: RunConfig, world: World) -> PlannerPool:
    """The planner by its name, with its queue, shown the world."""
    planner = planners.create(config.planner.name, config.planner.options)
    planner.bind(world)
    return PlannerPool(planner)


def build_path(
    config: RunConfig, pool: PlannerPool, skills: SkillSet | None, compressor: Compressor | None = None
) -> CallPath:
    """The call path with every mode's stages; a budget below its template is refused here.

    `compressor` is one that a user made, for all modes.
    """
    words = skills.describe() if skills is not None else ""
    path = CallPath(
        pool,
        {
            name: Mode(find_template(mode.template).with_skills(words), _stages(mode, config, compressor))
            for name, mode in config.modes.items()
        },
        skills,
    )
    for name, mode in config.modes.items():
        path.check_budget(name, mode.tokens)
    return path


def _stages(mode: ModeConfig, config: RunConfig, compressor: Compressor | None) -> tuple[Stage, ...]:
    """A mode's row, in the order in which a call goes through it."""
    # Each mode has one of its own: some remember what they read last.
    made = compressor or compressors.create(mode.compress.name, mode.compress.options)
    row: list[Stage] = [Fit(made, allow_floor_overrun=config.loop.allow_floor_overrun)]
    if mode.retrieve is not None:
        row.append(Retrieve(retrievers.create(mode.retrieve.name, mode.retrieve.options)))
    return tuple(row)


def build_clock(config: RunConfig) -> Clock:
    """Wall, formula, or the recording's."""
    loop = config.loop
    if loop.clock == "replay" and loop.recording is not None:
        calls = (record for record in read_records(Path(loop.recording)) if isinstance(record, Call))
        return ReplayClock.of(calls)
    if loop.clock == "modelled" and loop.model is not None:
        return ModelledClock(loop.model.fixed_ms, loop.model.per_token_ms)
    return WallClock()
