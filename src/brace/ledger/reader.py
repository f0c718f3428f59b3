"""From a run directory to tables, and on to parquet.

Damage is skipped and noted, never raised, and never hides what is whole.

The fast way sorts each shard's lines by type on their first bytes and hands them to polars; a shard that
it refuses is read again line by line, so that only the damaged lines are lost.
"""

from __future__ import annotations

import types
import typing
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import polars as pl

from brace.errors import LedgerError
from brace.ledger.manifest import Manifest, read_manifest
from brace.ledger.records import Call, Episode, Step
from brace.ledger.scan import CALL, EPISODE, HEAD, SHARD, STEP, decode, is_header, shards

_KEY = ["episode", "attempt"]
_LISTED = 10
_DTYPES: dict[object, pl.DataType] = {
    int: pl.Int64(), float: pl.Float64(), str: pl.String(), bool: pl.Boolean(),
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A run as tables, one row a record, one column a field, in the order of episodes and steps.

    Of each episode only the attempt that counts is here. `steps` lacks `signals` (see `scan.read_records`);
    the `phases` of a call are a list of structs; the `figures` of episodes are columns `figure.<name>`.
    """

    manifest: Manifest
    steps: pl.DataFrame
    calls: pl.DataFrame
    episodes: pl.DataFrame
    notes: list[str]
    """How it was run, where that matters to its figures; what was left out, and why."""


def load_run(directory: Path) -> Run:
    """Read a run directory. Of an episode begun several times the last finished attempt counts.

    A live run has no planned episodes: there the last attempt counts, finished or not.
    """
    manifest = read_manifest(directory)
    tables = _settle(_load(directory), manifest.live)
    return Run(
        manifest,
        tables.steps.drop("shard").sort("episode", "t", maintain_order=True),
        tables.calls.drop("shard").sort("episode", "index", maintain_order=True),
        tables.episodes.drop("shard").sort("episode"),
        [*manifest.remarks, *tables.notes],
    )


def to_parquet(run: Run, directory: Path) -> None:
    """Write `steps.parquet`, `calls.parquet` and `episodes.parquet`, replacing older ones."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, table in (("steps", run.steps), ("calls", run.calls), ("episodes", run.episodes)):
            table.write_parquet(directory / f"{name}.parquet")
    except OSError as error:
        raise LedgerError(f"cannot export to {directory}: {error.strerror}; choose another folder") from error


@dataclass(frozen=True)
class _Tables:
    """What the shards hold, before attempts are settled; `shard` numbers the file a row came from."""

    steps: pl.DataFrame
    calls: pl.DataFrame
    episodes: pl.DataFrame
    ends: list[tuple[int, Episode]]
    notes: list[str]

    def seen(self) -> pl.DataFrame:
        """Each attempt of which there is any record."""
        tables = (self.steps, self.calls, self.episodes)
        return pl.concat([table.select(_KEY).unique() for table in tables]).unique()


class _DamagedError(Exception):
    """The fast way met a line it cannot read."""


def _load(directory: Path) -> _Tables:
    # An empty table to begin with: a run without shards has all the columns, too.
    steps, calls = [_typed([], Step).with_columns(shard=0)], [_typed([], Call).with_columns(shard=0)]
    ends: list[tuple[int, Episode]] = []
    notes: list[str] = []
    for number, path in enumerate(shards(directory)):
        try:
            *lines, tail = path.read_bytes().split(b"\n")
        except OSError as error:
            raise LedgerError(f"cannot read {path}: {error.strerror}") from error
        if tail:
            notes.append(f"{path.name}: the last line is torn (no newline) and was skipped")
        try:
            parts = _parse(lines, path)
        except _DamagedError:
            parts = _parse(_salvage(lines, path, notes), path)
        steps.append(parts[0].with_columns(shard=number))
        calls.append(parts[1].with_columns(shard=number))
        ends += ((number, end) for end in parts[2])
    return _Tables(pl.concat(steps), pl.concat(calls), _episode_table(ends), ends, notes)


def _parse(lines: list[bytes], path: Path) -> tuple[pl.DataFrame, pl.DataFrame, list[Episode]]:
    """The tables of one shard; raises `_DamagedError` on the first line that is no record."""
    groups: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for line in lines:
        groups[line[:HEAD]].append(line)
    headed = all(is_header(line, path) for line in groups[SHARD])
    if not headed or groups.keys() - {SHARD, STEP, CALL, EPISODE}:
        raise _DamagedError
    ends = [record for line in groups[EPISODE] if isinstance(record := decode(line), Episode)]
    if len(ends) < len(groups[EPISODE]):
        raise _DamagedError
    return _typed(groups[STEP], Step), _typed(groups[CALL], Call), ends


def _salvage(lines: list[bytes], path: Path, notes: list[str]) -> list[bytes]:
    """The whole records among the lines, as the writer would have written them."""
    whole: list[bytes] = []
    damaged: list[int] = []
    for number, line in enumerate(lines, start=1):
        record = decode(line)
        if record is None:
            damaged.append(number)
        else:
            whole.append(msgspec.json.encode(record))
    if damaged:
        what = "lines" if len(damaged) > 1 else "line"
        notes.append(f"{path.name}: {what} {_listing(damaged)} damaged and skipped")
    return whole


def _typed(lines: list[bytes], record: type[Step | Call]) -> pl.DataFrame:
    """A table of one record type, defaults filled in where the line leaves a field out."""
    fields = [entry for entry in msgspec.structs.fields(record) if entry.name != "signals"]
    schema = {entry.name: _dtype(entry.type) for entry in fields}
    try:
        table = pl.read_ndjson(b"\n".join(lines), schema=schema)
    except pl.exceptions.PolarsError as error:
        raise _DamagedError from error
    required = [entry.name for entry in fields if entry.required]
    # Where a field is missing polars puts null, and the writer never leaves a required one out.
    if sum(table.select(required).null_count().row(0)):
        raise _DamagedError
    defaults = [entry for entry in fields if not entry.required and entry.default is not None]
    return table.with_columns(
        pl.col(entry.name).fill_null(pl.lit([] if entry.default == () else entry.default, schema[entry.name]))
        for entry in defaults
    )


def _dtype(kind: object) -> pl.DataType:
    """The column type of a record field's type, so that tables follow the records by themselves."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _dtype(next(member for member in arguments if member is not types.NoneType))
    if origin is typing.Literal:
        return pl.String()
    if origin is tuple:
        return pl.List(_dtype(arguments[0]))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return pl.Struct({entry.name: _dtype(entry.type) for entry in msgspec.structs.fields(kind)})
    return _DTYPES[kind]


def _episode_table(ends: list[tuple[int, Episode]]) -> pl.DataFrame:
    entries = [entry for entry in msgspec.structs.fields(Episode) if entry.name != "figures"]
    columns = [
        pl.Series(entry.name, [getattr(end, entry.name) for _, end in ends], _dtype(entry.type))
        for entry in entries
    ]
    figures = sorted({name for _, end in ends for name in end.figures})
    columns += [
        pl.Series(f"figure.{name}", [end.figures.get(name) for _, end in ends], pl.Float64)
        for name in figures
    ]
    return pl.DataFrame([*columns, pl.Series("shard", [shard for shard, _ in ends], pl.Int32)])


def _settle(tables: _Tables, live: bool) -> _Tables:
    """Keep of each episode the one attempt that counts, and note what goes."""
    notes = list(tables.notes)
    ends = tables.episodes.unique(_KEY, keep="first", maintain_order=True)
    seen = tables.seen()
    candidates = seen if live else ends.select(_KEY)
    counting = candidates.group_by("episode").agg(pl.col("attempt").max())
    if again := tables.episodes.height - ends.height:
        notes.append(f"finished twice in the same attempt, the first end is kept: {again} times")
    if (unfinished := seen.join(candidates, on=_KEY, how="anti")).height:
        notes.append(f"unfinished and left out: {_attempts(unfinished)}")
    if (superseded := candidates.join(counting, on=_KEY, how="anti")).height:
        notes.append(f"superseded by a later attempt: {_attempts(superseded)}")
    steps, calls = (
        table.join(counting, on=_KEY, how="semi") if counting.height < seen.height else table
        for table in (tables.steps, tables.calls)
    )
    ends = ends.join(counting, on=_KEY, how="semi")
    if (strays := _strays(steps, ends)).height:
        notes.append(f"run by two processes, the first to finish is kept: {_attempts(strays)}")
        steps, calls = (
            table.join(strays, on=[*_KEY, "shard"], how="anti") for table in (steps, calls)
        )  # fmt: skip
    return _Tables(steps, calls, ends, tables.ends, notes)


def _strays(steps: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Where two processes ran one attempt: the shards of those that were not the first to finish it.

    Its steps and calls would count twice otherwise. A shard that holds ends only (one process may write
    them for all) says nothing about where the steps belong.
    """
    held = steps.select(*_KEY, "shard").unique()
    home = held.join(ends.select(*_KEY, "shard"), on=[*_KEY, "shard"], how="semi")
    return held.join(home, on=_KEY, how="inner", suffix="_home").filter(
        pl.col("shard") != pl.col("shard_home")
    )


def _attempts(table: pl.DataFrame) -> str:
    rows = table.select(_KEY).unique().sort(_KEY).rows()
    return _listing([f"episode {episode} attempt {attempt}" for episode, attempt in rows])


def _listing(items: Sequence[object]) -> str:
    shown = ", ".join(str(item) for item in items[:_LISTED])
    return shown if len(items) <= _LISTED else f"{shown} … ({len(items)} in all)"
