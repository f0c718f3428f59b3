"""The plans to compare with: of one who sees everything, and of one who knows nothing but the prompt.

They differ in where their facts come from; from facts to a plan both go the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brace.plan import Plan, SkillCall
from brace.worlds.babyai.layout import ADJACENT, COLOURS, OBJECTS, ROOM_OF, ROOMS, FloorPlan
from brace.worlds.babyai.scenario import Job
from brace.worlds.babyai.team import Robot

if TYPE_CHECKING:
    from brace.worlds.babyai.engine import Building

_LINE = re.compile(r"\[(\w+) \d+(?: a(\d))?\] (.*)")
_TASK = re.compile(r"agent (\d): put ")
_JOB = re.compile(r"the (\w+ \w+) next to the (\w+ \w+)")
_NOTICE = re.compile(r"agent (\d)'s camera is (faulty|repaired)")
_REPORT = re.compile(r"room (\d): (.+)")
_IN_ROOM = re.compile(r"in room (\d)")
_PICKED = re.compile(r"picked up (\w+ \w+) in room \d")
_PUT = re.compile(r"put down (\w+ \w+) in room (\d)")
_MISSED = re.compile(r"no (\w+ \w+) in room (\d)")
_DOOR = r"the (\w+) door between room (\d) and room (\d)"
_NO_WAY = re.compile(rf"no way to room (\d): {_DOOR} is locked")
_HOLDS = re.compile(r": holds (\w+ \w+)$")
_OPENED = re.compile(rf"unlocked {_DOOR}|{_DOOR} is open")


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
    # A key in another robot's hands cannot be fetched, so one waits for it.
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
            # The key is put down, because the job needs the hands.
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


def truth_plan(
    building: Building, floor: FloorPlan, robots: Sequence[Robot], jobs: Mapping[int, Sequence[Job]]
) -> Plan:
    """What is best for the jobs left, as the building is now."""
    locked = building.locked(floor)
    facts = Facts(
        jobs,
        {name: ROOM_OF[cell] for name, cell in building.objects().items()},
        {robot.index: robot.holds for robot in robots if robot.holds},
        {robot.index: robot.room for robot in robots},
    )

    def blocking(agent: int, room: int | None) -> Lock | None:
        here = robots[agent].room
        if room is None or room in floor.reach((here,), locked):
            return None
        door = floor.first_locked(here, room, locked)
        return None if door is None else Lock(door.colour, door.rooms)

    return write_plan(facts, blocking)


def read(text: str, agents: int) -> Plan:
    """Look up the latest valid fact about each thing, then write each carrier's line."""
    notes = gather(text, agents)
    facts = Facts(
        {agent: jobs[notes.done.get(agent, 0) :] for agent, jobs in notes.jobs.items()},
        notes.place, notes.holds, notes.room,
    )  # fmt: skip
    return write_plan(facts, notes.blocking)


def gather(text: str, agents: int) -> Notes:
    """Take in every line that can be understood.

    A room report lists everything in that room, so it also says what is no longer there. Reports of an
    agent whose camera was said to be faulty do not count, not even the earlier ones, up to its repair.
    """
    lines = [match for row in text.splitlines() if (match := _LINE.match(row))]
    # Notices come first, because they also count for reports before them.
    until: dict[int, int] = {}
    for number, line in enumerate(lines):
        if line[1] == "message" and (notice := _NOTICE.match(line[3])):
            until[int(notice[1])] = len(lines) if notice[2] == "faulty" else number
    notes = Notes(agents, until)
    for number, line in enumerate(lines):
        kind, agent, said = line.groups()
        notes.take(number, kind, int(agent) if agent else None, said)
    return notes


@dataclass
class Notes:
    """What the lines so far add up to."""

    agents: int
    distrusted: dict[int, int]
    """For each agent with a notice: the line up to which its reports do not count."""
    jobs: dict[int, list[Job]] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    place: dict[str, int] = field(default_factory=dict)
    holds: dict[int, str] = field(default_factory=dict)
    room: dict[int, int] = field(default_factory=dict)
    locks: dict[int, Lock] = field(default_factory=dict)
    """For each room that could not be reached: the door in the way."""

    def take(self, number: int, kind: str, agent: int | None, said: str) -> None:
        """One line more."""
        if kind == "task" and (task := _TASK.match(said)) and int(task[1]) < self.agents:
            self.jobs[int(task[1])] = [
                Job(*pair) for pair in _JOB.findall(said) if pair[0] in OBJECTS and pair[1] in OBJECTS
            ]
        if agent is None:
            return
        if kind == "observation" and (entered := _IN_ROOM.match(said)) and int(entered[1]) in ROOMS:
            self.room[agent] = int(entered[1])
        elif kind == "message" and (report := _REPORT.match(said)):
            if number > self.distrusted.get(agent, -1):
                self._take_report(int(report[1]), report[2])
        elif kind == "action":
            self._take_action(agent, said)
        elif kind == "failure":
            self._take_failure(agent, said)
        if opened := _OPENED.match(said):
            rooms = tuple(int(room) for room in opened.groups() if room and room.isdigit())
            self.locks = {room: lock for room, lock in self.locks.items() if lock.rooms != rooms}

    def _take_report(self, room: int, contents: str) -> None:
        names = [] if contents == "nothing" else contents.split(", ")
        if room not in ROOMS:
            return
        # A list that was cut says nothing about what it does not name.
        if all(name in OBJECTS for name in names):
            self.place = {name: at for name, at in self.place.items() if at != room}
        self.place |= {name: room for name in names if name in OBJECTS}

    def _take_action(self, agent: int, said: str) -> None:
        if (picked := _PICKED.match(said)) and picked[1] in OBJECTS:
            self.holds[agent] = picked[1]
            self.place.pop(picked[1], None)
        elif (put := _PUT.match(said)) and put[1] in OBJECTS and int(put[2]) in ROOMS:
            self.holds.pop(agent, None)
            self.place[put[1]] = int(put[2])
        elif done := re.match(r"job (\d) done", said):
            self.done[agent] = int(done[1])

    def _take_failure(self, agent: int, said: str) -> None:
        if missed := _MISSED.match(said):
            if self.place.get(missed[1]) == int(missed[2]):
                del self.place[missed[1]]
        elif way := _NO_WAY.match(said):
            room, rooms = int(way[1]), (int(way[3]), int(way[4]))
            if room in ROOMS and rooms in ADJACENT and way[2] in COLOURS:
                self.locks[room] = Lock(way[2], rooms)
        elif said.endswith("holds nothing"):
            self.holds.pop(agent, None)
        elif (holding := _HOLDS.search(said)) and holding[1] in OBJECTS:
            self.holds[agent] = holding[1]

    def blocking(self, agent: int, room: int | None) -> Lock | None:
        """The door that was in the way to this room; for a thing nobody has seen, the latest of any."""
        if room is not None:
            return self.locks.get(room)
        return next(reversed(self.locks.values()), None)
