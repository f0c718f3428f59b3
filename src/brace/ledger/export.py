"""A run as parquet files, for pandas, DuckDB or whatever comes next."""

from __future__ import annotations

from pathlib import Path

from brace.errors import LedgerError
from brace.ledger.reader import Run


def to_parquet(run: Run, directory: Path) -> None:
    """Write `steps.parquet`, `calls.parquet` and `episodes.parquet`, replacing older ones."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, table in (("steps", run.steps), ("calls", run.calls), ("episodes", run.episodes)):
            table.write_parquet(directory / f"{name}.parquet")
    except OSError as error:
        raise LedgerError(f"cannot export to {directory}: {error.strerror}; choose another folder") from error
