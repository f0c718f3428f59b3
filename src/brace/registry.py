"""Names → things. One registry a family; outside packages add theirs through entry points.

A newcomer writes one file and decorates it::

    @compressors.register("mine")
    class Mine(ScoringCompressor): ...

An outside package declares an entry point in the group ``brace.compressors`` (``brace.planners``,
``brace.retrievers``, ``brace.worlds``, ``brace.budget_policies``) and needs no import on our side.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any, Generic, TypeVar

from brace.errors import ConfigError, UnknownNameError, suggestion

T = TypeVar("T")


class Registry(Generic[T]):
    """Factories of one family by name.

    `builtin` names the module that registers our own; it is imported on first use, so that
    `import brace` stays light.
    """

    def __init__(self, family: str, group: str, builtin: str) -> None:
        self.family = family
        self.group = group
        self._builtin = builtin
        self._factories: dict[str, Callable[..., T]] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Decorator: make a class or factory known under `name`. A second one of that name is refused."""

        def add(factory: Callable[..., T]) -> Callable[..., T]:
            if self._factories.get(name, factory) is not factory:
                raise ConfigError(f"{self.family} {name!r} is registered twice; choose another name")
            self._factories[name] = factory
            return factory

        return add

    def names(self) -> list[str]:
        """All known names, ours and those of outside packages, sorted."""
        self._load()
        return sorted({*self._factories, *self._entry_points()})

    def get(self, name: str) -> Callable[..., T]:
        """The factory called `name`, or an error with the nearest known name."""
        self._load()
        if name not in self._factories:
            entry = self._entry_points().get(name)
            if entry is None:
                raise UnknownNameError(self.family, name, self.names())
            self._factories[name] = entry.load()
        return self._factories[name]

    def create(self, name: str, options: Mapping[str, Any] | None = None) -> T:
        """Build `name` with `options`; an option it does not take is an error that lists those it takes."""
        factory = self.get(name)
        given = dict(options or {})
        parameters = inspect.signature(factory).parameters
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            for key in given:
                if key not in parameters:
                    raise ConfigError(
                        f"{self.family} {name!r} has no option {key!r}{suggestion(key, parameters)}"
                    )
        try:
            return factory(**given)
        except TypeError as error:
            raise ConfigError(f"{self.family} {name!r}: {error}") from error

    def _load(self) -> None:
        if not self._loaded:
            importlib.import_module(self._builtin)
            self._loaded = True

    def _entry_points(self) -> dict[str, metadata.EntryPoint]:
        return {entry.name: entry for entry in metadata.entry_points(group=self.group)}


compressors: Registry[Any] = Registry("compressor", "brace.compressors", "brace.callpath.compress")
retrievers: Registry[Any] = Registry("retriever", "brace.retrievers", "brace.callpath.retrieve")
planners: Registry[Any] = Registry("planner", "brace.planners", "brace.planners")
worlds: Registry[Any] = Registry("world", "brace.worlds", "brace.worlds")
budget_policies: Registry[Any] = Registry(
    "budget policy", "brace.budget_policies", "brace.controller.budgets"
)
scorers: Registry[Any] = Registry("scorer", "brace.scorers", "brace.erecap.scorers")
