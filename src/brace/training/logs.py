"""Logs: everything a world said in one episode, line by line. The raw material of planner training."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brace.context import Segment
from brace.context.segments import HEAD_KINDS


@dataclass(frozen=True, slots=True)
class Log:
    """One episode's text."""

    world: str
    agents: int
    head: str
    """The prompt's beginning: what to do, and the skills."""
    segments: tuple[Segment, ...]
    """In the order in which they were said."""
    asked: tuple[int, ...]
    """After how many segments a plan was wanted."""

    def lines(self, upto: int) -> list[str]:
        """The context's lines after so many segments, as a prompt has them."""
        said = self.segments[:upto]
        head = [segment.render() for segment in said if segment.kind in HEAD_KINDS]
        return head + [segment.render() for segment in said if segment.kind not in HEAD_KINDS]


def write_logs(path: Path, logs: Iterable[Log]) -> int:
    """Append logs to an .xz file; how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with lzma.open(path, "at", encoding="utf-8", preset=6) as file:
        for log in logs:
            file.write(json.dumps(_to_plain(log), separators=(",", ":")) + "\n")
            count += 1
    return count


def read_logs(path: Path) -> Iterator[Log]:
    """The logs of a file; an unfinished last line (an interrupted recording) is left out."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        try:
            for line in file:
                yield _from_plain(json.loads(line))
        except (EOFError, json.JSONDecodeError):
            return


def _to_plain(log: Log) -> dict[str, Any]:
    segments = [[s.kind, s.text, s.step, s.agent] for s in log.segments]
    return {
        "world": log.world,
        "agents": log.agents,
        "head": log.head,
        "segments": segments,
        "asked": log.asked,
    }


def _from_plain(plain: Mapping[str, Any]) -> Log:
    segments = tuple(Segment(kind, text, step, agent) for kind, text, step, agent in plain["segments"])
    return Log(plain["world"], plain["agents"], plain["head"], segments, tuple(plain["asked"]))
