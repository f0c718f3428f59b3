from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from ledger_kit import call, end, write_run
from polars.testing import assert_frame_equal

from brace.errors import LedgerError
from brace.ledger import Phase, Step
from brace.ledger.reader import load_run, to_parquet


def test_parquet_holds_the_same_tables(tmp_path: Path) -> None:
    step = Step(0, 0, triggers=("goal",), replan=True)
    phases = (Phase("replan", 0.0, 5.0, 3), Phase("execute", 5.0, 1.0))
    run = load_run(write_run(tmp_path, [step, call(phases=phases), end(figures={"reward": 1.5})]))
    to_parquet(run, tmp_path / "tables")
    for name in ("steps", "calls", "episodes"):
        table = getattr(run, name)
        assert table.height == 1
        assert_frame_equal(pl.read_parquet(tmp_path / "tables" / f"{name}.parquet"), table)


def test_an_empty_run_can_be_exported(tmp_path: Path) -> None:
    to_parquet(load_run(write_run(tmp_path, [])), tmp_path)
    assert pl.read_parquet(tmp_path / "calls.parquet").height == 0


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path, []))
    with pytest.raises(LedgerError, match="cannot export"):
        to_parquet(run, tmp_path / "manifest.json")
