"""One configuration: everything a run needs, as plain data that YAML can hold and a manifest can keep."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from brace.controller import ControllerConfig
from brace.errors import ConfigError, UnknownNameError, suggestion
from brace.ledger.records import Fallback
from brace.options import checked
from brace.registry import import_file, modes

T = TypeVar("T")
LADDER: tuple[Fallback, ...] = ("keep", "stored", "stop")
"""What a loop does when no plan came, in this order."""


@dataclass(frozen=True)
class Part:
    """Something by name, with its options. In YAML a bare name will do."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModeConfig:
    """What a mode may spend and what it switches on. In YAML the name of a registered one will do."""

    tokens: int | None = None
    """The budget B, template included; None means the whole context."""
    slo_ms: float | None = None
    """The latency target; None means none."""
    compress: Part = Part("none")
    """How the context is shortened to the budget."""
    retrieve: Part | None = None
    """What adds memories, inside the budget."""
    template: str = "plan"
    """How the prompt is written: a template's name, or its text with a place for the `{context}`."""


modes.add("full", ModeConfig())
modes.add("pruned", ModeConfig(tokens=512, compress=Part("recency")))


@dataclass(frozen=True)
class BudgetConfig:
    """Which policy picks the mode."""

    policy: Part = Part("fixed")
    mode: str = "pruned"
    """The mode of an ordinary call."""
    escalated: str = "full"
    """The mode of a call caused by an override or by a trigger in `escalate`."""
    escalate: tuple[str, ...] = ()


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
        for rung in self.fallback:
            if rung not in LADDER:
                raise UnknownNameError("fallback", rung, LADDER)
        if self.clock == "modelled" and self.model is None:
            raise ConfigError("loop.clock = 'modelled' needs loop.model: {fixed_ms: …, per_token_ms: …}")
        if self.clock == "replay" and self.recording is None:
            raise ConfigError("loop.clock = 'replay' needs loop.recording: the run directory to replay")
        if not self.give_up_s > 0:
            raise ConfigError(f"loop.give_up_s = {self.give_up_s}: must be > 0 seconds")


@dataclass(frozen=True)
class RunConfig:
    """One run: a world, a planner, the controller between them, and how many episodes."""

    world: Part = Part("live")
    """`live` stands for a loop of the user's own."""
    planner: Part = field(default_factory=lambda: Part("embedded"))
    name: str = "run"
    imports: tuple[str, ...] = ()
    """Python files that register what is named here; in a YAML file, as seen from its folder."""
    rules: Part = Part("brace")
    """The whole controller."""
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


@contextmanager
def naming(where: str | Path) -> Iterator[None]:
    """Errors of a configuration that arise within begin with the file or the key they are about."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def read_yaml(source: str | Path) -> dict[str, Any]:
    """A YAML file as plain data, with errors that say where."""
    import yaml  # noqa: PLC0415 - a loop of one's own without a file does without

    try:
        data = yaml.safe_load(Path(source).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {source}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{source} is not valid YAML: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{source}: expected keys and values at the top, not {type(data).__name__}")
    if isinstance(data.get("imports"), list):
        data["imports"] = [str(Path(source).parent / str(file)) for file in data["imports"]]
    return data


def load_config(data: Mapping[str, Any]) -> RunConfig:
    """Check plain data and make a configuration of it; errors name the key and, if near, the one meant."""
    # First of all: what they register may be named in the rest. Whole paths, because who reads them again
    # from a manifest may stand in another folder.
    files = checked(data.get("imports") or (), tuple[str, ...], "configuration: imports")
    files = tuple(dict.fromkeys(str(Path(file).resolve()) for file in files))
    for file in files:
        import_file(file)
    return _convert({**data, "imports": files}, RunConfig)


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
    """Expand bare names to parts and refuse unknown keys and choices, all the way down."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal and data not in inner:
        raise ConfigError(f"configuration: {path[:-1]} = {data!r}{suggestion(str(data), inner)}")
    # `Optional[X]` and `X | None` have different origins.
    if origin in (typing.Union, types.UnionType):
        kinds = [one for one in inner if one is not type(None)]
        return data if data is None or len(kinds) != 1 else _checked(data, kinds[0], path)
    if origin is tuple and isinstance(data, list | tuple):
        data = [_checked(item, inner[0], path) for item in data]
    elif origin is dict and isinstance(data, Mapping):
        data = {key: _checked(item, inner[1], f"{path}{key}.") for key, item in data.items()}
    elif kind is Part and isinstance(data, str):
        data = {"name": data}
    elif kind is ModeConfig and isinstance(data, str):
        data = msgspec.to_builtins(modes.get(data))
    elif dataclasses.is_dataclass(kind) and isinstance(data, Mapping):
        hints = typing.get_type_hints(kind)
        for key in data:
            if key not in hints:
                raise ConfigError(f"configuration: unknown key '{path}{key}'{suggestion(str(key), hints)}")
        data = {key: _checked(item, hints[key], f"{path}{key}.") for key, item in data.items()}
    return data
