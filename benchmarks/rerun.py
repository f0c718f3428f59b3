"""Plays recorded runs again with the present code and says what comes out otherwise.

    python benchmarks/rerun.py runs/snapshot-quick runs/growth-quick --jobs 2

Every finished episode of every run below these folders is played once more, in its world, with its
planner's recorded answers and latencies (a modelled run simply once more). Steps, calls and ends must be the
same but for what a replay cannot repeat: measured times, and the kind of latency. Exit code 1 if not.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from brace.bench.grid import parse_setting, with_overrides
from brace.bench.runner import prepare_run, run_tasks
from brace.errors import BraceError
from brace.ledger.manifest import MANIFEST, read_manifest
from brace.ledger.records import Call, Episode, Shard, Step
from brace.ledger.scan import read_records
from brace.loop.config import load_config

MEASURED = {"at", "kind", "phases", "wait_ms", "cold", "note"}
"""Of a call: when it was made, and what only a wall clock knows."""
MOST_SHOWN = 3
Key = tuple[str, int, int]


def records(directory: Path) -> dict[Key, dict[str, object]]:
    """What the last attempt at each episode left, by kind, episode and step or number."""
    found: dict[Key, dict[str, object]] = {}
    attempts: dict[int, int] = {}
    for record in read_records(directory):
        if isinstance(record, Shard):
            continue
        if record.attempt > attempts.setdefault(record.episode, record.attempt):
            attempts[record.episode] = record.attempt
            found = {key: kept for key, kept in found.items() if key[1] != record.episode}
        number = {Step: "t", Call: "index"}.get(type(record))
        key = (type(record).__name__, record.episode, getattr(record, number) if number else 0)
        plain = msgspec.structs.asdict(record)
        found[key] = {name: value for name, value in plain.items() if name not in (MEASURED | {"attempt"})}
    return found


def again(directory: Path, settings: dict[str, object]) -> tuple[Path, int, list[str]]:
    """The run's folder, how many records were compared, and the differences in words."""
    config = load_config(with_overrides(read_manifest(directory).config, settings))
    if config.loop.clock == "wall":
        loop = dataclasses.replace(config.loop, clock="replay", recording=str(directory))
        config = dataclasses.replace(config, loop=loop)
    before = records(directory)
    ended = {key[1] for key in before if key[0] == Episode.__name__}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        tasks = [task for task in prepare_run(config, folder, resume=False) if task.episode in ended]
        try:
            run_tasks(tasks)
        except BraceError as error:
            return directory, len(before), [str(error)]
        after = records(folder)
    differences = []
    for key in sorted(before.keys() | after.keys()):
        if key[1] not in ended:
            continue
        then, now = before.get(key), after.get(key)
        if then is None or now is None:
            differences.append(f"{key} is {'new' if then is None else 'missing'}")
            continue
        differences += [
            f"{key}: {name} was {then[name]!r:.200}, is {now.get(name)!r:.200}"
            for name in then
            if repr(then[name]) != repr(now.get(name))
        ]
    return directory, len(before), differences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--set", "-s", action="append", default=[], metavar="KEY=VALUE", help="a key that has come since"
    )
    given = parser.parse_args()
    runs = sorted({path.parent for folder in given.folders for path in folder.rglob(MANIFEST)})
    if not runs:
        sys.exit(f"no recorded run in {', '.join(map(str, given.folders))}")
    settings = dict(map(parse_setting, given.set))
    differing = 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for directory, compared, differences in pool.map(again, runs, itertools.repeat(settings)):
            differing += bool(differences)
            print(f"{directory}: {compared} records, {len(differences)} differences", flush=True)
            for difference in differences[:MOST_SHOWN]:
                print(f"    {difference}")
    print(f"{len(runs) - differing} of {len(runs)} runs came out the same")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
