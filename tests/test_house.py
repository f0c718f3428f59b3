"""The house's own rules: which room may use which, and what `import brace` may cost."""

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
    # A suite is a sweep and its table, and tables are made in `report`.
    "bench": ANYONE | LEAVES | {"planners", "callpath", "worlds", "controller", "loop", "report"},
    "training": ANYONE | LEAVES | {"planners", "worlds", "loop", "erecap"},
    "report": ANYONE | {"ledger"},
}


def used_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "brace" else [f"brace.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("brace.")}
    return rooms


@pytest.mark.parametrize("room", MAY_USE)
def test_imports_go_one_way(room: str) -> None:
    folder = SOURCE / room
    files = list(folder.rglob("*.py")) if folder.is_dir() else [SOURCE / f"{room}.py"]
    assert files
    for path in files:
        strangers = used_rooms(path) - MAY_USE[room] - {room}
        assert not strangers, f"{path.relative_to(SOURCE)} uses {strangers}"


def test_every_room_is_known() -> None:
    rooms = {
        path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert rooms - {"__init__", "__main__", "cli"} == set(MAY_USE)


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
