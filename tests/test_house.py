"""The house's own rules: which room may use which, and what `import brace` may cost.

Imports in functions count like others, and so do relative ones and those by `importlib`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "brace"
ANYONE = {"errors", "options", "registry"}
LEAVES = {"plan", "context", "ledger"}
MAY_USE = {
    "errors": set(),
    "options": {"errors"},
    "registry": {"errors", "options"},
    "plan": ANYONE,
    "context": ANYONE,
    "ledger": ANYONE,
    "controller": ANYONE,
    "erecap": ANYONE,
    "planners": ANYONE | LEAVES | {"erecap"},
    "callpath": ANYONE | LEAVES | {"planners", "erecap"},
    "worlds": ANYONE | LEAVES | {"planners", "controller"},
    "loop": ANYONE | LEAVES | {"planners", "callpath", "worlds", "controller"},
    # A suite is a grid and its table, and tables are made in `report`.
    "bench": ANYONE | LEAVES | {"planners", "callpath", "worlds", "controller", "loop", "report"},
    "training": ANYONE | LEAVES | {"planners", "worlds", "loop", "erecap"},
    "report": ANYONE | {"ledger"},
}


# Thin: it only calls the rooms, so it may use all of them, and none of them may use it.
MAY_USE["cli"] = set(MAY_USE) | {"__version__"}
PLUGIN = SOURCE / "worlds" / "proxy"
"""Like a package of a stranger's: it may use all contracts, and is reached through registries only."""
IMPORTERS = {"import_module", "__import__", "find_spec", "files"}
"""What imports a package that is named by a string."""


def used_rooms(path: Path, source: str | None = None) -> set[str]:
    names: list[str] = []
    package = ["brace", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8") if source is None else source)):
        match node:
            case ast.ImportFrom(level=0, module=module):
                names += [f"{module}.{alias.name}" for alias in node.names]
            case ast.ImportFrom(level=level, module=module):
                above = package[: len(package) - level + 1] + ([module] if module else [])
                names += [".".join([*above, alias.name]) for alias in node.names]
            case ast.Import():
                names += [alias.name for alias in node.names]
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if called in IMPORTERS:
                texts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
                names += [text for text in texts if isinstance(text, str)]
    return {name.split(".")[1] for name in names if name.startswith("brace.")}


@pytest.mark.parametrize(
    ("source", "rooms"),
    [
        ("def f():\n    from brace.report.rows import Table", {"report"}),
        ("from brace import report", {"report"}),
        ("import brace.report.rows as rows", {"report"}),
        ("from ..report import rows", {"report"}),
        ("from .. import report, loop", {"report", "loop"}),
        ("from . import scan\nfrom .scan import shards", {"ledger"}),
        ("import importlib\nimportlib.import_module('brace.report.rows')", {"report"}),
        ("import_module(f'brace.report.{name}')", {"report"}),
        ("__import__('brace.report')", {"report"}),
        ("resources.files('brace.report')", {"report"}),
        ("print('brace.report')", set()),
    ],
)
def test_no_way_to_import_goes_unseen(source: str, rooms: set[str]) -> None:
    assert used_rooms(SOURCE / "ledger" / "reader.py", source) == rooms


@pytest.mark.parametrize("room", MAY_USE)
def test_imports_go_one_way(room: str) -> None:
    folder = SOURCE / room
    files = list(folder.rglob("*.py")) if folder.is_dir() else [SOURCE / f"{room}.py"]
    assert files
    for path in files:
        if PLUGIN not in path.parents:
            strangers = used_rooms(path) - MAY_USE[room] - {room}
            assert not strangers, f"{path.relative_to(SOURCE)} uses {strangers}"


def test_the_proxy_is_a_plugin_that_nobody_imports() -> None:
    for path in PLUGIN.rglob("*.py"):
        strangers = used_rooms(path) - MAY_USE["worlds"] - {"worlds", "callpath"}
        assert not strangers, f"{path.relative_to(SOURCE)} uses {strangers}"
    for path in SOURCE.rglob("*.py"):
        if PLUGIN not in path.parents:
            assert "worlds.proxy" not in path.read_text(encoding="utf-8"), path


def test_every_room_is_known() -> None:
    rooms = {
        path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert rooms - {"__init__", "__main__"} == set(MAY_USE)


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        (
            "brace.loop.agent",
            {"torch", "transformers", "tokenizers", "matplotlib", "polars", "typer", "yaml"},
        ),
        ("brace", {"numpy", "msgspec"}),
        ("brace.controller", {"torch", "msgspec", "polars", "yaml", "rich"}),
        ("brace.callpath", {"torch", "polars", "matplotlib"}),
    ],
)
def test_what_an_import_does_not_drag_in(module: str, unwanted: set[str]) -> None:
    script = f"import sys, {module}; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not unwanted & set(loaded.stdout.split())
