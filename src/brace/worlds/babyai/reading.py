"""The plan of one who reads the prompt and knows nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from brace.plan import Plan
from brace.worlds.babyai.layout import ADJACENT, COLOURS, OBJECTS, ROOMS
from brace.worlds.babyai.planning import Facts, Lock, write_plan
from brace.worlds.babyai.scenario import Job

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
    notes = Notes(agents, _distrusted(lines))
    for number, line in enumerate(lines):
        kind, agent, said = line.groups()
        notes.take(number, kind, int(agent) if agent else None, said)
    return notes


def _distrusted(lines: list[re.Match[str]]) -> dict[int, int]:
    """For each agent with a notice: the line up to which its reports do not count."""
    until: dict[int, int] = {}
    for number, line in enumerate(lines):
        if line[1] == "message" and (notice := _NOTICE.match(line[3])):
            until[int(notice[1])] = len(lines) if notice[2] == "faulty" else number
    return until


@dataclass
class Notes:
    """What the lines so far add up to."""

    agents: int
    distrusted: dict[int, int]
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
