"""From facts to a plan: what reader and truth have in common. They differ in where the facts come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from brace.plan import Plan, SkillCall
from brace.worlds.babyai.scenario import Job


@dataclass(frozen=True, slots=True)
class Lock:
    """A locked door: its colour and its two rooms."""

    colour: str
    rooms: tuple[int, int]

    @property
    def key(self) -> str:
        """What opens it."""
        return f"{self.colour} key"


Blocking = Callable[[int, int | None], Lock | None]
"""(agent, room) → the locked door in its way there; for room None (unknown): any door it should try."""


@dataclass
class Facts:
    """What a planner takes to be so."""

    jobs: Mapping[int, Sequence[Job]]
    """What each agent has left to do, in order."""
    place: dict[str, int] = field(default_factory=dict)
    """The room of each object that lies somewhere known."""
    holds: dict[int, str] = field(default_factory=dict)
    room: dict[int, int] = field(default_factory=dict)
    """The room each agent is in."""


def write_plan(facts: Facts, blocking: Blocking) -> Plan:
    """A line for each agent with jobs left; someone waits when there is nothing to do."""
    claimed: set[str] = set()
    lines = {
        agent: _write_line(agent, jobs, facts, blocking, claimed)
        for agent, jobs in sorted(facts.jobs.items())
        if jobs
    }
    return Plan(tuple(lines.items()) or ((0, (SkillCall("wait"),)),))


def _write_line(
    agent: int, jobs: Sequence[Job], facts: Facts, blocking: Blocking, claimed: set[str]
) -> tuple[SkillCall, ...]:
    """Job after job, up to the first thing whose place is unknown: that is searched for."""
    line: list[SkillCall] = []
    place, held = dict(facts.place), facts.holds.get(agent)
    opened: set[Lock] = set()
    others = {name for holder, name in facts.holds.items() if holder != agent}
    for job in jobs:
        wanted = [job.beside] if held == job.thing else [job.thing, job.beside]
        for name in wanted:
            lock = blocking(agent, place.get(name))
            if lock is None or lock in opened:
                continue
            if lock.key in claimed or lock.key in others:
                return (*line, SkillCall("wait"))
            claimed.add(lock.key)
            opened.add(lock)
            if held != lock.key:
                if held is not None:
                    line.append(SkillCall("drop"))
                    place.pop(held, None)
                    if agent in facts.room:
                        place[held] = facts.room[agent]
                if lock.key not in place:
                    return (*line, SkillCall("search", (lock.key,)))
                line.append(_pickup(lock.key, place))
            line += [SkillCall("unlock", tuple(f"room {room}" for room in lock.rooms)), SkillCall("drop")]
            held = None
        if held is not None and held != job.thing:
            line.append(SkillCall("drop"))
            held = None
        if held is None:
            if job.thing not in place:
                return (*line, SkillCall("search", (job.thing,)))
            line.append(_pickup(job.thing, place))
        if job.beside not in place:
            return (*line, SkillCall("search", (job.beside,)))
        line.append(SkillCall("putnext", (job.beside, f"room {place[job.beside]}")))
        held = None
    return tuple(line)


def _pickup(name: str, place: Mapping[str, int]) -> SkillCall:
    return SkillCall("pickup", (name, f"room {place[name]}"))
