from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_kit import call, end, manifest, write_run

from brace.errors import LedgerError
from brace.ledger import LedgerWriter, Phase, Record, Step, write_manifest
from brace.ledger.reader import load_run
from brace.ledger.scan import finished_episodes, next_attempts, read_records

LIVE: tuple[int, ...] = ()


def one_episode(episode: int = 0, attempt: int = 0, steps: int = 3, **fields: object) -> list[Record]:
    return [
        *(Step(episode, t, attempt) for t in range(steps)),
        call(episode, attempt=attempt),
        end(episode, attempt=attempt, steps=steps, **fields),
    ]


def test_columns_are_the_record_fields_with_their_defaults(tmp_path: Path) -> None:
    phases = (Phase("replan", 1.0, 20.0, 7), Phase("replan.decode", 2.0, 9.5))
    step = Step(
        0, 4, triggers=("goal", "hazard"), replan=True, budget=9, slo_ms=2.5, signals={"failed": True}
    )
    ended = end(figures={"reward": 2.0, "hits": 3})
    run = load_run(write_run(tmp_path, [Step(0, 3), step, call(phases=phases, output='a\n"ü'), ended]))
    assert run.manifest == manifest()
    assert run.notes == []
    assert run.steps.rows(named=True)[0] == {
        "episode": 0, "t": 3, "attempt": 0, "triggers": [], "replan": False, "gate": None,
        "override": None, "cancel": None, "mode": None, "budget": None, "slo_ms": None, "critical": False,
    }  # fmt: skip
    assert run.steps.row(1, named=True)["triggers"] == ["goal", "hazard"]
    assert run.steps.row(1, named=True)["budget"] == 9
    [logged] = run.calls.rows(named=True)
    assert logged["output"] == 'a\n"ü'
    assert logged["wait_ms"] == 0.0
    assert logged["phases"] == [
        {"name": "replan", "start_ms": 1.0, "ms": 20.0, "tokens": 7},
        {"name": "replan.decode", "start_ms": 2.0, "ms": 9.5, "tokens": None},
    ]
    [episode] = run.episodes.rows(named=True)
    assert (episode["figure.reward"], episode["figure.hits"], episode["error"]) == (2.0, 3.0, "")


def test_a_figure_only_some_episodes_report_is_null_elsewhere(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path, [end(0, figures={"a": 1.0}), end(1)]))
    assert run.episodes["figure.a"].to_list() == [1.0, None]


def test_rows_are_in_order_whatever_the_order_of_shards(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path, one_episode(1), one_episode(0)))
    assert run.steps["episode"].to_list() == [0, 0, 0, 1, 1, 1]
    assert run.steps["t"].to_list() == [0, 1, 2, 0, 1, 2]
    assert run.calls["episode"].to_list() == [0, 1]
    assert run.episodes["episode"].to_list() == [0, 1]


def test_a_shard_torn_at_any_byte_loses_only_its_last_line(tmp_path: Path) -> None:
    records: list[Record] = [Step(0, 0, triggers=("goal",)), call(phases=(Phase("replan", 0, 1),)), end()]
    write_run(tmp_path, records, seeds=LIVE)
    shard = tmp_path / "shard-00000.jsonl"
    data = shard.read_bytes()
    for cut in range(len(data) + 1):
        shard.write_bytes(data[:cut])
        whole = max(0, data[:cut].count(b"\n") - 1)
        run = load_run(tmp_path)
        assert (run.steps.height, run.calls.height, run.episodes.height) == (
            int(whole > 0), int(whole > 1), int(whole > 2),
        )  # fmt: skip
        torn = cut > 0 and data[cut - 1 : cut] != b"\n"
        assert [shard.name in note and "torn" in note for note in run.notes] == [True] * torn
        assert len(list(read_records(tmp_path))) == whole


def test_an_episode_whose_end_is_torn_is_begun_again(tmp_path: Path) -> None:
    write_run(tmp_path, [Step(0, 0), end()])
    shard = tmp_path / "shard-00000.jsonl"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert finished_episodes(tmp_path) == {}
    assert next_attempts(tmp_path) == {0: 1}


GARBAGE = [
    b"",
    b"\0" * 40,
    b"\xff\xfe\x80",
    b"[]",
    b'"step"',
    b'{"type":"step","episode":0,"t',
    b'{"type":"step","episode":0,"t":"seven"}',
    b'{"type":"step","episode":0}',
    b'{"type":"step","episode":0,"t":99999999999999999999999}',
    b'{"type":"step","episode":0,"t":7,"triggers":"goal"}',
    b'{"type":"step","episode":0,"t":7,"gate":"\xff"}',
    b'{"type":"step","epi{"type":"step","episode":0,"t":7}',
    b'{"type":"step","episode":0,"t":7}{"type":"step","episode":0,"t":8}',
    b'{"type":"call","episode":0,"index":7}',
    b'{"type":"episode","episode":0}',
    b'{"type":"episode","episode":99999999999999999999999,"seed":0,"world":"w","steps":1}',
    b'{"type":"shard","schema":"x"}',
    b'{"type":"novelty","episode":0,"t":7}',
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_in_the_middle_costs_one_line(tmp_path: Path, garbage: bytes) -> None:
    write_run(tmp_path, one_episode(0), one_episode(1))
    shard = tmp_path / "shard-00000.jsonl"
    lines = shard.read_bytes().split(b"\n")
    shard.write_bytes(b"\n".join([*lines[:2], garbage, *lines[2:]]))
    run = load_run(tmp_path)
    assert (run.steps.height, run.calls.height, run.episodes.height) == (6, 2, 2)
    assert run.notes == ["shard-00000.jsonl: line 3 damaged and skipped"]
    assert len(list(read_records(tmp_path))) == 10
    assert sorted(finished_episodes(tmp_path)) == [0, 1]
    assert next_attempts(tmp_path) == {0: 1, 1: 1}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=st.integers(0, 5), start=st.integers(0, 200), noise=st.binary(min_size=1, max_size=20))
def test_overwritten_bytes_never_cost_another_line(
    tmp_path: Path, line: int, start: int, noise: bytes
) -> None:
    for old in tmp_path.glob("*"):
        old.unlink()
    write_run(tmp_path, one_episode(), seeds=LIVE)
    shard = tmp_path / "shard-00000.jsonl"
    lines = shard.read_bytes().split(b"\n")
    intact = 5 if line == 0 else 4
    start %= len(lines[line])
    lines[line] = lines[line][:start] + noise.replace(b"\n", b"?") + lines[line][start + len(noise) :]
    shard.write_bytes(b"\n".join(lines))
    try:
        run = load_run(tmp_path)
    except LedgerError as error:
        assert "schema" in str(error)  # noqa: PT017 - the noise may raise the header's schema number
        return
    assert run.steps.height + run.calls.height + run.episodes.height >= intact
    assert len(list(read_records(tmp_path))) >= intact


def test_a_long_list_of_damaged_lines_is_cut_short(tmp_path: Path) -> None:
    write_run(tmp_path, one_episode())
    with (tmp_path / "shard-00000.jsonl").open("ab") as shard:
        shard.write(b"garbage\n" * 500)
    [note] = load_run(tmp_path).notes
    assert "lines 7, 8, " in note
    assert "500 in all" in note
    assert len(note) < 150


def test_whole_records_in_an_unusual_form_are_read_without_a_note(tmp_path: Path) -> None:
    write_run(tmp_path, one_episode())
    with (tmp_path / "shard-00000.jsonl").open("ab") as shard:
        shard.write(b'{ "t": 9, "episode": 0, "type": "step" }\r\n')
    run = load_run(tmp_path)
    assert run.steps["t"].to_list() == [0, 1, 2, 9]
    assert run.notes == []


def test_fields_of_a_later_minor_version_are_ignored(tmp_path: Path) -> None:
    write_run(tmp_path, one_episode())
    with (tmp_path / "shard-00000.jsonl").open("ab") as shard:
        shard.write(b'{"type":"step","episode":0,"t":9,"mood":{"calm":[1]}}\n')
    assert load_run(tmp_path).steps["t"].to_list() == [0, 1, 2, 9]
    assert len(list(read_records(tmp_path))) == 6


@pytest.mark.parametrize(
    "header", [b'{"type":"shard","schema":99}', b'{"type":"shard","schema":99,"at":"now"}']
)
@pytest.mark.parametrize("rest", [b"", b"garbage\n"])
def test_a_newer_shard_is_refused(tmp_path: Path, header: bytes, rest: bytes) -> None:
    write_run(tmp_path, one_episode())
    (tmp_path / "shard-00001.jsonl").write_bytes(header + b"\n" + rest)
    for read in (load_run, finished_episodes, next_attempts, lambda path: list(read_records(path))):
        with pytest.raises(LedgerError, match="schema 99"):
            read(tmp_path)


def test_a_newer_manifest_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path, one_episode())
    (tmp_path / "manifest.json").write_bytes(b'{"schema":99}')
    with pytest.raises(LedgerError, match="schema 99"):
        load_run(tmp_path)


def test_what_is_no_run_directory_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="not a run directory"):
        load_run(tmp_path)


def test_a_run_without_records_has_empty_tables(tmp_path: Path) -> None:
    write_run(tmp_path, [])
    (tmp_path / "shard-00001.jsonl").touch()
    run = load_run(tmp_path)
    assert (run.steps.height, run.calls.height, run.episodes.height, run.notes) == (0, 0, 0, [])
    assert "latency_ms" in run.calls.columns
    assert next_attempts(tmp_path) == {}


def test_a_later_attempt_supersedes_an_earlier_one(tmp_path: Path) -> None:
    write_run(tmp_path, one_episode(0, 0, 5, success=False), one_episode(0, 1, 2), one_episode(1))
    run = load_run(tmp_path)
    assert run.steps.select("episode", "attempt").rows() == [(0, 1)] * 2 + [(1, 0)] * 3
    assert run.calls["attempt"].to_list() == [1, 0]
    assert run.episodes["success"].to_list() == [True, True]
    assert run.notes == ["superseded by a later attempt: episode 0 attempt 0"]
    assert finished_episodes(tmp_path)[0].attempt == 1
    assert next_attempts(tmp_path) == {0: 2, 1: 1}


def test_an_unfinished_attempt_is_left_out(tmp_path: Path) -> None:
    unfinished = one_episode(0, 0, 5)[:-1]
    write_run(tmp_path, unfinished, one_episode(0, 1, 2), [Step(1, 0), call(1)])
    run = load_run(tmp_path)
    assert run.steps.select("episode", "attempt").rows() == [(0, 1)] * 2
    assert run.calls["episode"].to_list() == [0]
    assert run.notes == ["unfinished and left out: episode 0 attempt 0, episode 1 attempt 0"]
    assert list(finished_episodes(tmp_path)) == [0]
    assert next_attempts(tmp_path) == {0: 2, 1: 1}


def test_a_finished_attempt_outlives_a_later_unfinished_one(tmp_path: Path) -> None:
    write_run(tmp_path, one_episode(0, 0, 4), [Step(0, 0, 1)])
    run = load_run(tmp_path)
    assert run.steps["attempt"].to_list() == [0] * 4
    assert run.episodes.height == 1


def test_a_live_run_counts_unfinished(tmp_path: Path) -> None:
    write_run(tmp_path, [Step(0, 0), Step(0, 1)], [Step(0, 0, 1)], seeds=LIVE)
    run = load_run(tmp_path)
    assert run.steps.select("t", "attempt").rows() == [(0, 1)]
    assert run.notes == ["superseded by a later attempt: episode 0 attempt 0"]


def test_an_attempt_run_by_two_processes_counts_once(tmp_path: Path) -> None:
    first, second = one_episode(0, 0, 3, success=False), one_episode(0, 0, 5, success=True)
    run = load_run(write_run(tmp_path, first, second))
    assert (run.steps.height, run.calls.height) == (3, 1)
    assert run.episodes["success"].to_list() == [False]
    assert run.notes == [
        "finished twice in the same attempt, the first end is kept: 1 times",
        "run by two processes, the first to finish is kept: episode 0 attempt 0",
    ]
    assert finished_episodes(tmp_path)[0].success is False


def test_steps_stay_when_another_process_wrote_the_ends(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path, one_episode(0)[:-1], [end(0)]))
    assert (run.steps.height, run.calls.height, run.notes) == (3, 1, [])


def test_records_come_typed_with_their_signals(tmp_path: Path) -> None:
    records: list[Record] = [Step(0, 0, signals={"hazard": "critical"}), call(), end()]
    assert list(read_records(write_run(tmp_path, records, [Step(1, 0)]))) == [*records, Step(1, 0)]


def test_a_run_can_be_read_while_two_shards_are_written(tmp_path: Path) -> None:
    write_manifest(tmp_path, manifest(LIVE))
    with LedgerWriter(tmp_path) as left, LedgerWriter(tmp_path) as right:
        assert left.path != right.path
        for t in range(50):
            left.write(Step(0, t))
            right.write(Step(1, t))
            with right.path.open("ab") as half:
                size = half.tell()
                half.write(b'{"type":"step","episode":1,"t":7')
            run = load_run(tmp_path)
            assert run.steps.height == 2 * (t + 1)
            assert run.notes == [f"{right.path.name}: the last line is torn (no newline) and was skipped"]
            with right.path.open("r+b") as shard:
                shard.truncate(size)
    run = load_run(tmp_path)
    assert run.steps.select("episode", "t").rows() == [(e, t) for e in (0, 1) for t in range(50)]
    assert run.notes == []
