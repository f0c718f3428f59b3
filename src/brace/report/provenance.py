"""What was run: enough of the manifest and the records to know what a figure came from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import polars as pl

from brace.ledger.intervals import NONE
from brace.ledger.manifest import Manifest
from brace.ledger.reader import Run
from brace.report.rows import Column, Row, Table


def runs_table(runs: Mapping[str, Run]) -> Table:
    """One column a run: world, planner, seeds, latency kind, commit, host, command."""
    told = [_facts(run) for run in runs.values()]
    names = dict.fromkeys(name for facts in told for name in facts)
    return Table(
        "What was run",
        (Column(""), *(Column(label) for label in runs)),
        tuple(Row((name, *(facts.get(name) or NONE for facts in told))) for name in names),
    )


def same_table(runs: Mapping[str, Run]) -> Table:
    """What all runs have in common, a row a fact."""
    shared = {name: told.pop() for name, told in _told(runs).items() if len(told) == 1}
    rows = tuple(Row((name, value or NONE)) for name, value in shared.items())
    return Table("The same in all runs", (Column(""), Column("all runs")), rows)


def different_table(runs: Mapping[str, Run]) -> Table:
    """What differs between runs, a row a run: many runs have no room beside each other."""
    names = [name for name, told in _told(runs).items() if len(told) > 1]
    told = {label: _facts(run) for label, run in runs.items()}
    return Table(
        "What differs between the runs",
        (Column("run"), *map(Column, names)),
        tuple(Row((label, *(facts[name] or NONE for name in names))) for label, facts in told.items()),
    )


def headline(run: Run) -> str:
    """The same in one line."""
    facts = _facts(run)
    names = ("world", "planner", "episodes", "seeds", "latency kind", "commit", "host")
    words = {
        "episodes": "{} episodes",
        "seeds": "seeds {}",
        "latency kind": "{} latency",
        "commit": "commit {}",
    }
    return " · ".join(words.get(name, "{}").format(facts[name]) for name in names if facts[name])


def ranges(numbers: tuple[int, ...]) -> str:
    """`1, 2, 3, 7` as `1–3, 7`: a whole seed list in little room."""
    ordered = sorted(set(numbers))
    breaks = [index + 1 for index, (a, b) in enumerate(pairwise(ordered)) if b - a > 1]
    spans = [ordered[a:b] for a, b in pairwise([0, *breaks, len(ordered)]) if ordered]
    return ", ".join(f"{span[0]}–{span[-1]}" if len(span) > 1 else str(span[0]) for span in spans)


def _told(runs: Mapping[str, Run]) -> dict[str, set[str]]:
    """The different values of each fact."""
    every = [_facts(run) for run in runs.values()]
    return {name: {facts[name] for facts in every} for name in every[0]}


def _facts(run: Run) -> dict[str, str]:
    manifest = run.manifest
    host, seeds = manifest.host, ranges(manifest.seeds)
    cores = f"{host['cores']} cores" if host.get("cores") else ""
    return {
        "world": distinct(run.episodes, "world") or configured(manifest, "world"),
        "planner": distinct(run.calls, "planner") or configured(manifest, "planner"),
        "compressor": distinct(run.calls, "compressor"),
        "modes": distinct(run.calls, "mode"),
        "episodes": "" if manifest.live else f"{run.episodes.height} of {len(manifest.seeds)}",
        "seeds": seeds,
        "latency kind": distinct(run.calls, "kind"),
        "tokens counted by": distinct(run.calls, "counted_by"),
        "commit": manifest.commit,
        "started": f"{datetime.fromtimestamp(manifest.created, UTC):%Y-%m-%d %H:%M} UTC",
        "host": ", ".join(part for part in (host.get("cpu"), cores, host.get("gpu")) if part),
        "system": host.get("system", ""),
        "versions": ", ".join(f"{name} {version}" for name, version in manifest.versions.items()),
        "command": " ".join(manifest.command),
    }


def distinct(table: pl.DataFrame, column: str) -> str:
    """The different values of a column, in order."""
    return ", ".join(table[column].drop_nulls().unique().sort())


def configured(manifest: Manifest, what: str) -> str:
    """What the config names, where no record does; a config is anyone's, so nothing of it is relied on."""
    entry: Any = manifest.config.get(what)
    return str(entry.get("name", "") if isinstance(entry, dict) else entry or "")
