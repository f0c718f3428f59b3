"""One configuration: everything a run needs, as plain data that YAML can hold and a manifest can keep."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from brace.callpath.fallback import LADDER, check_ladder
from brace.controller import ControllerConfig
from brace.controller.signals import Trigger
from brace.errors import ConfigError, suggestion
from brace.ledger.records import Fallback

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """Something by name, with its options. In YAML a bare name will do."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModeConfig:
    """What a mode may spend and what it switches on."""

    tokens: int | None = None
    """The budget B, template included; None means the whole context."""
    slo_ms: float | None = None
    """The latency target; None means none."""
    compress: Part = Part("none")
    retrieve: Part | None = None


@dataclass(frozen=True)
class BudgetConfig:
    """Which policy picks the mode."""

    policy: str = "fixed"
    mode: str = "pruned"
    escalated: str = "full"
    escalate: tuple[Trigger, ...] = ()


@dataclass(frozen=True)
class LatencyModel:
    """A formula instead of a measurement: `fixed_ms + per_token_ms · tokens_after`."""

    fixed_ms: float
    per_token_ms: float


@dataclass(frozen=True)
class LoopConfig:
    """How time passes and what happens when a plan does not come."""

    clock: Literal["wall", "replay", "modelled"] = "wall"
    recording: str | None = None
    """The run directory whose latencies and answers are replayed (`clock: replay`)."""
    model: LatencyModel | None = None
    """The formula of `clock: modelled`."""
    while_thinking: Literal["hold", "continue"] = "hold"
    enforce_deadline: bool = True
    """Cut a call at its SLO. Off only for the No BRACE baseline, which then merely counts misses."""
    give_up_s: float = 120.0
    """The longest any call may take, SLO or not."""
    fallback: tuple[Fallback, ...] = LADDER
    start_with_default: bool = False
    """Begin with the world's default plan. With `controller.triggers: []` this is the open-loop baseline."""
    stored_plan: str = ""
    """The plan of the `stored` fallback."""
    allow_floor_overrun: bool = False
    """Let a call exceed its budget (logged) when what may never be cut alone does; otherwise an error."""

    def __post_init__(self) -> None:
        check_ladder(self.fallback)
        if self.clock == "modelled" and self.model is None:
            raise ConfigError("loop.clock = 'modelled' needs loop.model: {fixed_ms: …, per_token_ms: …}")
        if self.clock == "replay" and self.recording is None:
            raise ConfigError("loop.clock = 'replay' needs loop.recording: the run directory to replay")
        if not self.give_up_s > 0:
            raise ConfigError(f"loop.give_up_s = {self.give_up_s}: must be > 0 seconds")


@dataclass(frozen=True)
class RunConfig:
    """One run: a world, a planner, the controller between them, and how many episodes."""

    world: Part
    planner: Part = field(default_factory=lambda: Part("embedded"))
    name: str = "run"
    rules: Literal["brace", "authors-proxy"] = "brace"
    """Whose controller: ours, or the authors' as coded for their proxy sweep."""
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    modes: dict[str, ModeConfig] = field(default_factory=lambda: {"pruned": ModeConfig()})
    loop: LoopConfig = field(default_factory=LoopConfig)
    episodes: int = 10
    seed: int = 1
    """Episode i runs with seed + i."""

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise ConfigError(f"episodes = {self.episodes}: must be 1 or more")
        if not self.modes:
            raise ConfigError("modes: at least one mode is needed, e.g. {pruned: {tokens: 512, slo_ms: 800}}")

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each episode."""
        return tuple(range(self.seed, self.seed + self.episodes))


def load_config(data: Mapping[str, Any]) -> RunConfig:
    """Check plain data and make a configuration of it; errors name the key and, if near, the one meant."""
    return _convert(data, RunConfig)


def dump_config(config: RunConfig) -> dict[str, Any]:
    """The reverse, for the manifest."""
    plain: dict[str, Any] = msgspec.to_builtins(config)
    return plain


def _convert(data: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(_checked(data, kind, ""), kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"configuration: {error}".replace("`$.", "`")) from error


def _checked(data: Any, kind: Any, path: str) -> Any:
    """Expand bare names to parts and refuse unknown keys, all the way down."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kinds = [one for one in typing.get_args(kind) if one is not type(None)]
        return data if data is None or len(kinds) != 1 else _checked(data, kinds[0], path)
    if typing.get_origin(kind) is dict and isinstance(data, Mapping):
        value = typing.get_args(kind)[1]
        return {key: _checked(item, value, f"{path}{key}.") for key, item in data.items()}
    if kind is Part and isinstance(data, str):
        return {"name": data}
    if not dataclasses.is_dataclass(kind) or not isinstance(data, Mapping):
        return data
    hints = typing.get_type_hints(kind)
    for key in data:
        if key not in hints:
            raise ConfigError(f"configuration: unknown key '{path}{key}'{suggestion(str(key), hints)}")
    return {key: _checked(item, hints[key], f"{path}{key}.") for key, item in data.items()}
