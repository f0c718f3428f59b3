"""Names → things: one registry a family. A newcomer writes one file and edits nothing else.

@compressors.register("mine")
class Mine(ScoringCompressor): ...

`brace run … --import mine.py` (or `imports: [mine.py]` in a configuration) makes it known. An outside package
declares an entry point instead, in the group of the family: `brace.compressors`, `brace.worlds`, …
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, TypeVar

from brace.errors import BraceError, ConfigError, UnknownNameError
from brace.options import Option, fitting, make, options_of

T = TypeVar("T")
Made = TypeVar("Made", bound=type[Any])


class Registry(Generic[T]):
    """Things of one family by name: triggers, modes, templates.

    Outside packages declare theirs as entry points of the `group`. `builtin` is the module that adds our own,
    imported on first use, so that `import brace` stays light.
    `contract` names the class that every one of them is made from.
    """

    def __init__(self, family: str, group: str, builtin: str, contract: str) -> None:
        self.family = family
        self.group = f"brace.{group}"
        self._builtin = builtin
        self._contract = contract
        self._things: dict[str, Any] = {}
        self._loaded = False

    def add(self, name: str, thing: T) -> None:
        """Make it known under `name`. Another one of that name is refused."""
        self._check(name, thing)
        if self._things.get(name, thing) != thing:
            raise ConfigError(
                f"{self.family} {name!r} is registered twice, in {_home(self._things[name])} and in "
                f"{_home(thing)}; choose another name"
            )
        self._things[name] = thing

    def names(self) -> list[str]:
        """All known names, ours and those of outside packages, sorted."""
        self._load()
        return sorted({*self._things, *self._entry_points()})

    def get(self, name: str) -> T:
        """The thing called `name`, or an error with the nearest known name."""
        self._load()
        if name not in self._things:
            entry = self._entry_points().get(name)
            if entry is None:
                raise UnknownNameError(self.family, name, self.names())
            self.add(name, entry.load())
        found: T = self._things[name]
        return found

    def _check(self, name: str, thing: object) -> None:
        if not isinstance(thing, self._contract_class()):
            raise ConfigError(
                f"{self.family} {name!r}: {thing!r} is no {self._contract.partition(':')[2]}; make it one "
                f"(from {self._contract.replace(':', ' import ')})"
            )

    def _contract_class(self) -> type[Any]:
        module, _, name = self._contract.partition(":")
        found: type[Any] = getattr(importlib.import_module(module), name)
        return found

    def _load(self) -> None:
        if not self._loaded:
            importlib.import_module(self._builtin)
            self._loaded = True

    def _entry_points(self) -> dict[str, metadata.EntryPoint]:
        return {entry.name: entry for entry in metadata.entry_points(group=self.group)}


class Parts(Registry[type[T]]):
    """Classes of one family by name, made with options: the fields of the class, which is a dataclass."""

    def register(self, name: str) -> Callable[[Made], Made]:
        """Decorator: make a class known under `name`. A second one of that name is refused."""

        def add(thing: Made) -> Made:
            self.add(name, thing)
            return thing

        return add

    def create(self, name: str, options: Mapping[str, Any] | None = None) -> T:
        """Build `name` with `options`; one that is unknown or of another type is an error that names it."""
        return make(self.get(name), options or {}, f"{self.family} {name!r}")

    def check(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        """Refuse what `create` would refuse for its names and types, and build nothing."""
        fitting(self.get(name), options or {}, f"{self.family} {name!r}")

    def options(self, name: str) -> tuple[Option, ...]:
        """What can be set, in order."""
        return options_of(self.get(name))

    def _check(self, name: str, thing: object) -> None:
        contract = self._contract_class()
        if not (isinstance(thing, type) and issubclass(thing, contract)):
            raise ConfigError(
                f"{self.family} {name!r}: {thing!r} is no subclass of {contract.__name__}; derive it from "
                f"{self._contract.replace(':', '.')}"
            )
        if missing := sorted(getattr(thing, "__abstractmethods__", ())):
            raise ConfigError(
                f"{self.family} {name!r}: {thing.__name__} does not define {', '.join(missing)}"
            )
        options = {option.name for option in options_of(thing)}
        if unknown := sorted(inspect.signature(thing).parameters.keys() - options):
            raise ConfigError(
                f"{self.family} {name!r}: {thing.__name__} takes {', '.join(unknown)}, no fields of "
                "a dataclass; decorate it with @dataclass, and its fields are its options"
            )


_imported: dict[Path, str] = {}


def import_file(file: str | Path) -> None:
    """Run a Python file that registers things. One that was imported before is not run again."""
    path = Path(file).resolve()
    if path in _imported:
        return
    if not path.is_file():
        raise ConfigError(f"imports: there is no file {file}; give the path of a Python file")
    # The name holds for this process only: what is kept of a run names the file.
    name = f"brace_import_{len(_imported)}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"imports: {file} is not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BraceError as error:
        raise ConfigError(f"{file}: {error}") from error
    except Exception as error:  # a user's file may raise anything
        raise ConfigError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    _imported[path] = name


def _home(thing: Any) -> str:
    module = sys.modules.get(getattr(thing, "__module__", ""))
    return str(getattr(module, "__file__", None) or type(thing).__module__)


compressors: Parts[Any] = Parts(
    "compressor", "compressors", "brace.callpath.compress", "brace.callpath.compress.base:Compressor"
)
retrievers: Parts[Any] = Parts(
    "retriever", "retrievers", "brace.callpath.retrieve", "brace.callpath.retrieve:Retriever"
)
planners: Parts[Any] = Parts("planner", "planners", "brace.planners", "brace.planners.base:Planner")
worlds: Parts[Any] = Parts("world", "worlds", "brace.worlds", "brace.worlds.base:World")
scorers: Parts[Any] = Parts("scorer", "scorers", "brace.erecap.scorers", "brace.erecap.scorers.base:Scorer")
budget_policies: Parts[Any] = Parts(
    "budget policy", "budget_policies", "brace.controller.budgets", "brace.controller.budgets:BudgetPolicy"
)
rules: Parts[Any] = Parts(
    "rules", "rules", "brace.controller.controller", "brace.controller.controller:Rules"
)
triggers: Registry[Any] = Registry(
    "trigger", "triggers", "brace.controller.triggers", "brace.controller.triggers:Trigger"
)
templates: Registry[Any] = Registry(
    "template", "templates", "brace.context.template", "brace.context.template:PromptTemplate"
)
suites: Registry[Path] = Registry("suite", "suites", "brace.bench.suite", "pathlib:Path")
modes: Registry[Any] = Registry("mode", "modes", "brace.loop.config", "brace.loop.config:ModeConfig")
