"""Builders for hand-made ledgers, and the checks on what they stand on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import brace
from brace.ledger import Call, Episode, LedgerWriter, Manifest, Record, read_manifest, write_manifest


def manifest(seeds: tuple[int, ...] = (0, 1, 2)) -> Manifest:
    return Manifest(name="hand-made", created=1.0, config={"a": 1}, seeds=seeds, versions={}, host={})


def write_run(directory: Path, *shards: list[Record], seeds: tuple[int, ...] = (0, 1, 2)) -> Path:
    """A run directory with one shard for each list of records."""
    write_manifest(directory, manifest(seeds))
    for records in shards:
        with LedgerWriter(directory) as ledger:
            for record in records:
                ledger.write(record)
    return directory


def call(episode: int = 0, index: int = 0, t: int = 0, **fields: Any) -> Call:
    defaults: dict[str, Any] = {
        "t_end": t, "at": 0.0, "mode": "full", "planner": "p", "compressor": "c",
        "status": "ok", "kind": "measured", "latency_ms": 100.0,
    }  # fmt: skip
    return Call(episode=episode, index=index, t=t, **(defaults | fields))


def end(episode: int = 0, **fields: Any) -> Episode:
    defaults: dict[str, Any] = {"seed": episode, "world": "w", "success": True, "steps": 1}
    return Episode(episode=episode, **(defaults | fields))


def test_a_manifest_survives_being_written(tmp_path: Path) -> None:
    write_manifest(tmp_path, manifest())
    assert read_manifest(tmp_path) == manifest()


def test_writing_a_ledger_does_not_load_polars() -> None:
    # The bare package stands in for `brace` itself, so that only what the ledger imports is seen.
    program = (
        "import sys, types; bare = types.ModuleType('brace'); bare.__path__ = [sys.argv[1]]\n"
        "sys.modules['brace'] = bare; import brace.ledger; sys.exit('polars' in sys.modules)"
    )
    package = Path(brace.__file__).parent
    assert subprocess.run([sys.executable, "-c", program, package], check=False).returncode == 0
