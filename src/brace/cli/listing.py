"""`brace planners list`, `brace triggers list`, …: what can be named in a configuration, and its options."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Iterator
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from brace.cli.options import Imports
from brace.context import PromptTemplate
from brace.controller import Trigger
from brace.errors import MissingExtraError
from brace.loop.config import ModeConfig, Part
from brace.options import Option
from brace.registry import (
    Parts,
    Registry,
    budget_policies,
    compressors,
    modes,
    planners,
    retrievers,
    rules,
    scorers,
    templates,
    triggers,
    worlds,
)
from brace.worlds import World

FAMILIES: dict[str, tuple[Registry[Any], str]] = {
    "planners": (planners, "Who writes the plan."),
    "compressors": (compressors, "How a context is shortened to its budget."),
    "retrievers": (retrievers, "What adds memories, inside the budget."),
    "scorers": (scorers, "Which tokens live on in a model that prunes as it reads."),
    "policies": (budget_policies, "How much a call may spend."),
    "rules": (rules, "Whole controllers."),
    "triggers": (triggers, "Reasons to replan."),
    "modes": (modes, "What a call may spend, what it switches on, how its prompt is written."),
    "templates": (templates, "How a prompt is written."),
    "worlds": (worlds, "Where plans act."),
}
# What rules and budget policies are handed by the loop: no options of theirs.
_GIVEN = {"config", "policy", "modes"}


def add_lists(app: typer.Typer) -> None:
    """A command group for each family, with `list`; a group that is there already gets it, too."""
    groups = {group.name: group.typer_instance for group in app.registered_groups}
    for name, (registry, about) in FAMILIES.items():
        group = groups.get(name)
        if group is None:
            group = typer.Typer(help=about, no_args_is_help=True)
            group.callback()(lambda: None)
            app.add_typer(group, name=name)
        text = (
            f"All {name} by name: what they are, their options with defaults, and what to install.\n\n"
            f"[dim]brace {name} list[/]\n\n[dim]brace {name} list --import my_own.py[/]"
        )
        group.command("list", help=text)(_lister(registry))


def _lister(registry: Registry[Any]) -> Any:
    def list_all(imports: Imports = []) -> None:  # noqa: B006 - typer copies it
        console = Console()
        try:
            found = {name: registry.get(name) for name in registry.names()}
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"the list of {registry.family}s ({error.name})", "local") from error
        for name, thing in found.items():
            console.print(f"[bold]{escape(name)}[/]  {escape(_about(thing))}", highlight=False)
            for line in _needs(thing):
                console.print(f"    [yellow]{escape(line)}[/]", highlight=False)
            if isinstance(registry, Parts):
                _print_options([one for one in registry.options(name) if one.name not in _GIVEN], console)

    return list_all


def _about(thing: Any) -> str:
    """What it is, in a line."""
    if isinstance(thing, Trigger):
        return thing.doc
    if isinstance(thing, PromptTemplate):
        return repr(thing.text)
    if isinstance(thing, ModeConfig):
        said = {key: value.name if isinstance(value, Part) else value for key, value in vars(thing).items()}
        return ", ".join(f"{key}: {value}" for key, value in said.items() if value is not None)
    if issubclass(thing, World):
        stands = f" Stands for {thing.info.stands_for}." if thing.info.stands_for else ""
        return f"{thing.info.summary}.{stands}" + (" A real simulator." if thing.info.real else "")
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def _needs(thing: Any) -> Iterator[str]:
    """What to install, where something is."""
    if isinstance(thing, type) and issubclass(thing, World):
        if not all(importlib.util.find_spec(module) is not None for module in thing.info.modules):
            yield f"not installed: pip install 'brace-replan[{thing.info.extra}]'"
    elif extra := getattr(thing, "needs_extra", None):
        yield f"needs brace-replan[{extra}]"


def _print_options(options: list[Option], console: Console) -> None:
    if not options:
        return
    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    for width in (26, 20, None):
        table.add_column(max_width=width)
    for one in options:
        default = one.default if one.default else "(must be given)"
        choices = f" ({one.type})" if "'" in one.type else ""
        table.add_row(f"    {one.name}", escape(default), escape(" ".join(one.doc.split()) + choices))
    console.print(table)
