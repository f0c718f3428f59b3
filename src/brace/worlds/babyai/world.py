"""Object tasks across rooms: carriers, scouts, and people who move things meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from brace.context import Segment
from brace.context.segments import Kind
from brace.controller import Signals
from brace.errors import ConfigError
from brace.options import check_choices
from brace.plan import Plan
from brace.registry import worlds
from brace.worlds.babyai.disturbances import RATES, Disturbances
from brace.worlds.babyai.layout import MAX_AGENTS, NAMES, room_number, skill_set
from brace.worlds.babyai.moving import Aim, Driver
from brace.worlds.babyai.references import Facts, read, truth_plan, write_plan
from brace.worlds.babyai.scenario import Job, make_scenario
from brace.worlds.babyai.skills import SkillFailedError, Skills
from brace.worlds.babyai.team import DROP, PICKUP, Robot, Team
from brace.worlds.base import WorldInfo, need_simulator
from brace.worlds.following import SkillWorld

if TYPE_CHECKING:
    from brace.worlds.base import Frame

IDLE_LIMIT = 8
"""A carrier without a skill for so many steps, with jobs left, is stuck."""
MAX_STEPS = {"easy": 140, "normal": 260, "hard": 420}
MORE_TIME = {1: 1.4, 2: 1.2}
"""Without scouts, finding things takes longer."""


@worlds.register("babyai-v1")
@dataclass(eq=False)
class BabyAIWorld(SkillWorld):
    """One or two carriers put things next to each other; the other robots patrol and report what they see.

    Nothing about objects and locks is known but what was seen, and it may be no longer so.
    """

    info = WorldInfo(
        "carry objects across rooms, guided by what scouts report (MiniGrid)", "navigation (Habitat)",
        real=True, extra="babyai", modules=("minigrid",),
    )  # fmt: skip
    id = "babyai-v1"
    dt = 0.5
    names = NAMES

    agents: int = 4
    """Robots, 1 to 8. The first two are carriers."""
    difficulty: Literal["easy", "normal", "hard"] = "normal"
    """How many jobs each carrier has, and how many rooms may be locked."""
    disturbance: Literal["none", "normal", "strong"] = "normal"
    """How often people move things and lock doors, cameras fail, and actions slip."""

    def __post_init__(self) -> None:
        check_choices(self, f"world {self.id!r}")
        if not 1 <= self.agents <= MAX_AGENTS:
            raise ConfigError(f"world {self.id!r}: agents = {self.agents}; choose 1 to {MAX_AGENTS}")
        super().__init__()
        self.skills = skill_set(self.agents)
        self.max_steps = round(MAX_STEPS[self.difficulty] * MORE_TIME.get(self.agents, 1.0))
        self._building = need_simulator("brace.worlds.babyai.engine", self.info, self.id).Building()
        self.reset(0)

    # The episode

    def reset(self, seed: int) -> None:
        """A building, its objects, the jobs and everything that will go wrong."""
        building = self._building
        building.reset(seed=seed)
        scene = make_scenario(
            np.random.default_rng([seed, 0]), building.door_cell, self.agents, self.difficulty
        )
        for cell, door in scene.floor.doors.items():
            building.hang(door, locked=cell in scene.locked)
        for name, cell in scene.objects.items():
            building.put(name, cell)
        self._scene, self._floor = scene, scene.floor
        self._robots = [Robot(index, cell, heading) for index, (cell, heading) in enumerate(scene.starts)]
        self._trouble = Disturbances(
            seed, RATES[self.disturbance], self.max_steps, scene, building, self._robots
        )
        self._team = Team(scene.floor, building.content, self._trouble.sees)
        self._skills = Skills(self._team, self._robots)
        self._driver = Driver(self._team, self._robots)
        self._done_jobs = dict.fromkeys(scene.jobs, 0)
        self._now = 0
        self._actions = self._walked = self._slipped = 0
        self._succeeded = self._failed = False
        self._divergence = 0.0
        self._plan, self._done = Plan(), {}
        self._news = self._head()
        self._look_around()

    def _head(self) -> list[Segment]:
        carriers = len(self._scene.jobs)
        news = [
            Segment("task", f"agent {agent}: put " + ", then ".join(
                f"the {job.thing} next to the {job.beside}" for job in jobs
            ))
            for agent, jobs in self._scene.jobs.items()
        ]  # fmt: skip
        news.append(
            Segment("task", "a room report lists all objects of that room; people may move them later")
        )
        if self.agents > carriers:
            news.append(Segment("task", "an agent without a line in the plan patrols the rooms and reports"))
        news.append(Segment("goal", f"all jobs done within {self.max_steps} steps"))
        news.append(Segment("safety", "never act on reports of an agent whose camera is faulty"))
        return news

    def observe(self) -> list[Segment]:
        """What was seen, said and done since the last call."""
        news, self._news = self._news, []
        return news

    def events(self) -> Signals:
        """What the last step brought."""
        stuck = any(robot.idle >= IDLE_LIMIT for robot in self._robots)
        return Signals(
            failed=self._failed, succeeded=self._succeeded, deadlock=stuck, divergence=self._divergence
        )

    def line_for(self, plan: Plan, before: Plan) -> str:
        """A plan that only goes on is not told again."""
        return "" if plan == before else str(plan)

    def refuse(self, plan: Plan) -> str | None:
        """There must be a door to unlock."""
        for agent, calls in plan.steps:
            for call in calls:
                if call.skill == "unlock":
                    low, high = sorted(map(room_number, call.args))
                    if (low, high) not in self._floor.between:
                        return f"agent {agent}, {call}: there is no door between room {low} and room {high}"
        return None

    def step(self, *, hold: bool) -> None:
        """People do as they like; then every robot acts, unless they hold, and looks."""
        self._now += 1
        self._succeeded = self._failed = False
        self._divergence = 0.0
        self._disturb()
        slips = self._trouble.slips()
        if not hold:
            self._driver.order = sorted(self._robots, key=self._right_of_way)
            for robot in self._driver.order:
                self._act(robot, slips[robot.index])
        self._look_around()
        for robot in self._robots:
            waits = self.current(robot.index) is None and self._jobs_left(robot.index)
            robot.idle = robot.idle + 1 if waits else 0

    def success(self) -> bool:
        """Every job is done."""
        return not any(self._jobs_left(agent) for agent in self._scene.jobs)

    def figures(self) -> dict[str, float]:
        """`spl`: success, weighted by the fewest actions over those taken by the carriers."""
        fewest = self._scene.fewest_actions() if self.success() else 0.0
        return {
            "spl": fewest / max(fewest, self._actions, 1.0),
            "jobs_done": float(sum(self._done_jobs.values())),
            "walked": float(self._walked),
            "slips": float(self._slipped),
            "blocked": float(self._driver.blocked),
        }

    def frame(self) -> Frame | None:
        """The building from above."""
        picture: Frame = self._building.picture(self._robots)
        return picture

    def close(self) -> None:
        """Let MiniGrid go."""
        self._building.close()

    # Plans to compare with

    def default_plan(self) -> Plan:
        """Everything is usually in the middle room."""
        jobs = self._scene.jobs
        place = {name: 5 for line in jobs.values() for job in line for name in (job.thing, job.beside)}
        return write_plan(Facts(jobs, place), lambda agent, room: None)

    def truth_plan(self) -> Plan:
        """The plan of one who sees where everything is and which doors are locked."""
        jobs = {agent: self._jobs_left(agent) for agent in self._scene.jobs}
        return truth_plan(self._building, self._floor, self._robots, jobs)

    def read(self, prompt: str) -> Plan:
        """The plan of one who reads this text perfectly and knows nothing else."""
        return read(prompt, self.agents)

    # One step of one robot

    def _right_of_way(self, robot: Robot) -> tuple[bool, int, int]:
        """Who has a skill to execute goes first; on patrol, who has been on the way for longest."""
        patrols = self.current(robot.index) is None
        return patrols, robot.patrols_since if patrols else 0, robot.index

    def _act(self, robot: Robot, slip: int | None) -> None:
        robot.path = [robot.cell]
        action = self._choose(robot)
        if action is None:
            return
        if slip is not None:
            action = slip
            self._slipped += 1
        held, cell = robot.holds, robot.cell
        self._building.act(robot, action)
        if robot.cell != cell:
            robot.came_from = cell
            self._walked += 1
        if self._jobs_left(robot.index):
            # `spl` compares with what the jobs need, so patrols do not count.
            self._actions += 1
        if action == PICKUP and robot.holds and not held:
            self._picked_up(robot)
        elif action == DROP and held and not robot.holds:
            self._put_down(robot, held)

    def _choose(self, robot: Robot) -> int | None:
        """The next action for its skill; on patrol when it has none."""
        if self._now < robot.gives_way_until:
            return self._driver.stand_aside(robot, self._now)
        aim = None
        # A skill that is over takes no time, so one step may see the whole line through.
        for _ in range(len(self._plan.of(robot.index)) + 1):
            call = self.current(robot.index)
            if call != robot.call:
                # The view at the end of the last step is what it begins with.
                robot.call, robot.since = call, self._now - 1
            if call is None:
                break
            try:
                outcome = self._skills.aim(robot, call, self._now)
            except SkillFailedError as error:
                self._fail(robot, str(error))
                return None
            if isinstance(outcome, Aim):
                aim = outcome
                break
            self._end(robot, outcome)
        if aim is None:
            aim = self._skills.patrol(robot, self._now)
        try:
            return self._driver.drive(robot, aim, self._now)
        except LookupError:
            if robot.call is None:
                # A patrol that cannot get there chooses another room in the next step.
                robot.patrols = 0
            else:
                self._fail(robot, self._skills.no_way(robot, aim.room))
            return None

    def _picked_up(self, robot: Robot) -> None:
        name = robot.holds or ""
        self._team.objects.pop(robot.ahead, None)
        self._end(robot, f"picked up {name} in room {robot.room}")
        # Another robot's line still counts on finding it there.
        others = [call for agent, calls in self.rest().steps if agent != robot.index for call in calls]
        if any(call.skill == "pickup" and call.args[0] == name for call in others):
            self._divergence = 1.0

    def _put_down(self, robot: Robot, name: str) -> None:
        # Known at once: another robot may be about to put something down here in this very step.
        self._team.objects[robot.ahead] = name
        self._end(robot, f"put down {name} in room {robot.room}")
        left = self._jobs_left(robot.index)
        objects = self._building.objects()
        if not left or left[0].thing != name or left[0].beside not in objects:
            return
        if objects[left[0].beside] in self._floor.neighbours[objects[name]]:
            self._done_jobs[robot.index] += 1
            number = self._done_jobs[robot.index]
            self._note("action", f"job {number} done: {name} next to {left[0].beside}", robot.index)

    def _end(self, robot: Robot, said: str) -> None:
        self._note("action", said, robot.index)
        self.finish(robot.index)
        robot.call = None
        self._succeeded = True

    def _fail(self, robot: Robot, why: str) -> None:
        self._note("failure", why, robot.index)
        self.give_up(robot.index)
        robot.call = None
        self._failed = True

    def _jobs_left(self, agent: int) -> tuple[Job, ...]:
        return self._scene.jobs.get(agent, ())[self._done_jobs.get(agent, 0) :]

    def _note(self, kind: Kind, text: str, agent: int | None = None) -> None:
        self._news.append(Segment(kind, text, self._now, agent))

    # What the robots see, and what goes wrong

    def _look_around(self) -> None:
        for robot in self._robots:
            if robot.enter():
                self._note("observation", f"in room {robot.room}", robot.index)
            said, reports = self._team.look(robot, self._building.view(robot), self._now)
            for text in said:
                self._note("message", text, robot.index)
            for room, names in reports:
                self._note("message", f"room {room}: {', '.join(names) or 'nothing'}", robot.index)
                if robot.index not in self._team.faulty:
                    self._skills.reported |= dict.fromkeys(names, self._now)
                    self._compare(room, names)

    def _compare(self, room: int, names: tuple[str, ...]) -> None:
        """Does a report say something else than the plan relies on?"""
        held = {robot.holds for robot in self._robots}
        for _, calls in self.rest().steps:
            for call in calls:
                if call.skill == "search":
                    news = call.args[0] in names
                elif call.skill in ("pickup", "putnext") and call.args[0] not in held:
                    # That it is not in some other room is no news.
                    news = (call.args[0] in names) != (room_number(call.args[1]) == room)
                else:
                    continue
                if news:
                    self._divergence = 1.0

    def _disturb(self) -> None:
        for fault in self._trouble.faults:
            if self._now == fault.notice:
                self._team.faulty.add(fault.agent)
                self._note("message", f"agent {fault.agent}'s camera is faulty: do not trust its reports")
                self._divergence = 1.0
            elif self._now == fault.repair:
                self._team.faulty.discard(fault.agent)
                self._note("message", f"agent {fault.agent}'s camera is repaired")
        self._trouble.act(self._now, self._done_jobs)
