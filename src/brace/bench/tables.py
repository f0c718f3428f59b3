"""The table of a sweep: one row a run, each figure with its interval."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from brace.bench import proxy_sweep
from brace.bench.grid import Sweep
from brace.errors import UnknownNameError
from brace.ledger.metrics import Summary, summarise
from brace.ledger.reader import load_run

_COLUMNS = (
    "success",
    "calls_per_episode",
    "latency_p50",
    "latency_p95",
    "miss_rate",
    "tokens_after",
    "churn",
)
_TABLES: dict[str, Callable[[Sweep, Path, Console], None]] = {"proxy": proxy_sweep.print_table}


def print_table(sweep: Sweep, folder: Path, console: Console) -> None:
    """The sweep's own table if it names one, else the general one."""
    if sweep.table is None:
        _print_general(sweep, folder, console)
    elif sweep.table in _TABLES:
        _TABLES[sweep.table](sweep, folder, console)
    else:
        raise UnknownNameError("table", sweep.table, _TABLES)


def _print_general(sweep: Sweep, folder: Path, console: Console) -> None:
    table = Table(title=sweep.name, caption="95 % intervals in brackets")
    table.add_column("run", no_wrap=True)
    for name in _COLUMNS:
        table.add_column(name.replace("_", " "), justify="right")
    for variant in sweep.variants:
        summary = summarise(load_run(folder / variant.slug))
        table.add_row(variant.label, *(_cell(summary, name) for name in _COLUMNS))
    console.print(table)


def _cell(summary: Summary, name: str) -> str:
    """With several kinds of latency in one run there is no single percentile to show."""
    return str(summary[name]) if name in summary else "(several kinds)"
