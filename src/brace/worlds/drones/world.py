"""The world of the crossing drones: plans carried out, and what the log says about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from brace.context import Segment
from brace.controller import Signals
from brace.errors import ConfigError
from brace.options import check_choices
from brace.plan import Plan, SkillCall
from brace.registry import worlds
from brace.worlds.base import WorldInfo, need_simulator
from brace.worlds.drones import airspace, reading
from brace.worlds.drones.airspace import GATES, INTRUDER, drone_name, gate_name
from brace.worlds.drones.drawing import Scene, draw
from brace.worlds.drones.flight import Flight, Pilot
from brace.worlds.drones.monitor import Monitor
from brace.worlds.drones.scenario import (
    DIFFICULTIES,
    DISTURBANCES,
    GoalChange,
    Gust,
    Intruder,
    LayerSwitch,
    Scenario,
    draw_scenario,
)
from brace.worlds.drones.simulator import Swarm, quiet
from brace.worlds.following import SkillWorld

if TYPE_CHECKING:
    from brace.context.segments import Kind
    from brace.worlds.base import Frame

TELEMETRY_STEPS = 10
YIELD_S = 8.0
IDLE_S = 1.5


@worlds.register("drones-v1")
@dataclass(eq=False)
class DronesWorld(SkillWorld):
    """Drones cross an intersection in flight layers; the tower closes layers and changes goals.

    Success: every drone has arrived at its gate within the time limit, nothing was touched (no drone, no
    intruder, no ground), and all drones together spent less than four seconds inside closed layers, the
    first second of each stay not counted. An episode that can no longer succeed is finished.
    """

    info = WorldInfo(
        "drones cross an intersection in flight layers that close and open again", "drones (AirSim)",
        real=True, extra="drones", modules=("PyFlyt", "pybullet"),
    )  # fmt: skip
    id = "drones-v1"
    dt = 0.1

    agents: int = 4
    """Drones, 1 to 8: one for each gate."""
    difficulty: Literal["easy", "normal", "hard"] = "normal"
    """How many layers are closed, how fast the drones fly, how far ahead the monitor looks, and the time."""
    disturbance: Literal["none", "normal", "strong"] = "normal"
    """How often layers close, goals change, intruders come and gusts blow."""

    def __post_init__(self) -> None:
        check_choices(self, f"world {self.id!r}")
        if not 1 <= self.agents <= GATES:
            raise ConfigError(f"world {self.id!r}: agents = {self.agents}; choose 1 to {GATES}")
        super().__init__()
        self.skills, self.names = airspace.skill_set(self.agents), airspace.argument_names(self.agents)
        self._level = DIFFICULTIES[self.difficulty]
        self.max_steps = round(self._level.limit_s / self.dt)
        with quiet():
            pyflyt = need_simulator("PyFlyt.core", self.info, self.id)
        self._swarm = Swarm(pyflyt, self.agents)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """All hover at their start gates, on open layers."""
        self._plan, self._done = Plan(), {}
        scenario = draw_scenario(seed, self.agents, self._level, DISTURBANCES[self.disturbance])
        self._flight = Flight(self._swarm, scenario, seed, self.dt)
        self._monitor = Monitor(self.agents, self._level.horizon)
        self._coming = list(scenario.happenings)
        self._step = 0
        self._events = Signals()
        self._goal_changed = False
        self._told_plan = ""
        self._news = self._introduction(scenario)
        for drone in range(self.agents):
            self._tell("observation", self._telemetry(drone), drone)
        for line in self._monitor.report(self._flight, 0.0)[0]:
            self._tell("observation", line)

    def _introduction(self, scenario: Scenario) -> list[Segment]:
        """The task, the rules, and what the tower said before the flight."""
        routes = enumerate(zip(scenario.starts, scenario.goals, strict=True))
        return [
            *(
                Segment(
                    "task", f"{drone_name(drone)} flies from {gate_name(a)} to {gate_name(b)}", agent=drone
                )
                for drone, (a, b) in routes
            ),
            Segment("goal", f"all drones at their gates in {round(self._level.limit_s)} seconds"),
            Segment("safety", "never stay in a closed layer"),
            Segment("safety", "drones that cross need different layers"),
            *(Segment("message", _switch_text(layer, closed)) for layer, closed in scenario.log),
        ]

    def observe(self) -> list[Segment]:
        """Telemetry, the tower's and the monitor's words, and how skills ended."""
        news, self._news = self._news, []
        return news

    def events(self) -> Signals:
        """What the last step brought."""
        return self._events

    def success(self) -> bool:
        """All there, nothing touched, hardly any time inside closed layers."""
        return all(pilot.there for pilot in self._flight.pilots) and not self._flight.safety.lost

    def finished(self) -> bool:
        """Done, or spoilt for good."""
        return self.success() or self._flight.safety.lost

    def figures(self) -> dict[str, float]:
        """Safety first; `flight_s` is the time to arrive, summed over the drones."""
        safety = self._flight.safety
        return {
            "collisions": float(len(safety.collided)),
            "near_misses": float(safety.near_misses),
            "min_distance": safety.min_distance,
            "closed_layer_s": round(safety.closed_s, 6),
            "arrived": float(sum(pilot.there for pilot in self._flight.pilots)),
            "flight_s": round(self._flight.flight_s, 6),
        }

    def taken(self) -> None:
        """A warning was about the old plan; what else is new in this step stays."""
        if self._events.hazard == "warning":
            self._events = replace(self._events, hazard=None)

    def line_for(self, plan: Plan, before: Plan) -> str:
        """A plan is told once, however often it is written again."""
        if plan.is_empty or str(plan) == self._told_plan:
            return ""
        self._told_plan = str(plan)
        return self._told_plan

    def refuse(self, plan: Plan) -> str | None:
        """Gates given twice and waits that cannot end."""
        return airspace.objection(plan)

    def default_plan(self) -> Plan:
        """Straight across on the usual layers, which is right if nothing is ever different."""
        return airspace.straight_across(self.agents)

    def truth_plan(self) -> Plan:
        """The reader's rule on the facts as they are."""
        pilots = self._flight.pilots
        layers = {number: self._flight.layer_of(number) for number in range(self.agents + 1)}
        return reading.decide(
            reading.Facts(
                agents=self.agents,
                goals={drone: pilot.goal for drone, pilot in enumerate(pilots)},
                parked={
                    drone: pilot.parked for drone, pilot in enumerate(pilots) if pilot.parked is not None
                },
                layers={number: layer for number, layer in layers.items() if layer is not None},
                closed=set(self._flight.closed),
                crossing=set(self._monitor.find(self._flight)),
            )
        )

    def read(self, prompt: str) -> Plan:
        """The plan of one who reads this text and knows nothing else."""
        return reading.read(prompt, self.agents)

    def step(self, *, hold: bool) -> None:
        """What is due happens, the drones fly or hover, and the monitor looks at the result."""
        self._step += 1
        self._failed = self._succeeded = self._diverged = self._goal_changed = False
        flight = self._flight
        self._happen()
        for drone, pilot in enumerate(flight.pilots):
            gate = None if hold else self._follow(drone, pilot)
            flight.steer(drone, gate)
        if flight.intruder_leaves():
            self._tell("message", "intruder gone")
        for one, other in sorted(flight.advance()):
            for drone in (one, other):
                if 0 <= drone < self.agents:
                    self._tell("failure", "touched something and is down", drone)
        for drone, arrived_at in flight.arrivals():
            self._tell("action", f"arrived at {gate_name(arrived_at)}", drone)
            self._end_skill(drone)
        for drone, pilot in enumerate(flight.pilots):
            if not hold:
                # Who is held waits for the planner and is not idle.
                idle = self.current(drone) is None and not pilot.there
                pilot.idle_s = pilot.idle_s + self.dt if idle else 0.0
            # Drones take turns, so that a single step's news stay short.
            if (self._step + drone) % TELEMETRY_STEPS == 0:
                self._tell("observation", self._telemetry(drone), drone)
        self._look(hold)

    def _look(self, hold: bool) -> None:
        """Let the monitor report, and sum the step up."""
        flight = self._flight
        lines, new = self._monitor.report(flight, self._step * self.dt)
        for line in lines:
            self._tell("observation", line)
        if not hold:
            self._diverged |= any(flight.layer_of(one) == flight.layer_of(other) for one, other in new)
        self._events = Signals(
            failed=self._failed,
            succeeded=self._succeeded,
            deadlock=any(pilot.idle_s >= IDLE_S for pilot in flight.pilots),
            divergence=float(self._diverged),
            hazard=self._monitor.hazard(flight),
            goal_changed=self._goal_changed,
        )

    def _happen(self) -> None:
        now, flight = self._step * self.dt, self._flight
        if flight.gust is not None and flight.gust.until <= now:
            flight.gust = None
        while self._coming and self._coming[0].at <= now:
            happening = self._coming.pop(0)
            match happening:
                case LayerSwitch(layer=layer, closed=closed):
                    flight.closed = flight.closed | {layer} if closed else flight.closed - {layer}
                    self._tell("message", _switch_text(layer, closed))
                    used = any(pilot.layer == layer and not pilot.there for pilot in flight.pilots)
                    self._diverged |= closed and used
                case GoalChange(drone=drone, gate=gate):
                    flight.pilots[drone].goal = gate
                    self._goal_changed = True
                    self._tell("message", f"{drone_name(drone)}: fly to {gate_name(gate)} instead")
                case Intruder(layer=layer):
                    flight.launch(happening)
                    self._tell("message", f"intruder on layer {layer}")
                case Gust(toward=toward, speed=speed):
                    flight.gust = happening
                    self._tell("message", f"gust {round(10 * speed)} to {gate_name(toward)}")

    def _follow(self, drone: int, pilot: Pilot) -> int | None:
        """Work on the drone's line until a skill takes time. Returns the gate to fly to, if it is to fly."""
        waits = False
        gate = None
        while not waits and gate is None and (call := self.current(drone)) is not None:
            if call.skill in ("hold", "yield"):
                waits = self._wait(drone, pilot, call)
            elif call.skill == "layer":
                layer = int(call.args[0])
                if pilot.layer != layer:
                    pilot.layer = layer
                    self._tell("action", f"layer {layer} taken", drone)
                self._end_skill(drone)
            elif pilot.parked == _number(call.args[0]):
                self._end_skill(drone)
            else:
                gate = _number(call.args[0])
        if not waits:
            pilot.waiting = None
        pilot.aside = pilot.waiting is not None and pilot.waiting[0].skill == "yield"
        return gate

    def _wait(self, drone: int, pilot: Pilot, call: SkillCall) -> bool:
        """Whether the drone is to wait. A new plan with the same wait does not start it anew."""
        now = self._step * self.dt
        if pilot.waiting is None or pilot.waiting[0] != call:
            pilot.waiting = (call, now)
        waited, value = now - pilot.waiting[1], call.args[0]
        if call.skill == "hold":
            over, text = waited >= float(value), f"held {value}"
        else:
            other = self.agents if value == INTRUDER else _number(value)
            pair = (min(drone, other), max(drone, other))
            over, text = pair not in self._monitor.crossings, f"{value} has passed"
            if not over and waited >= YIELD_S:
                self._tell("failure", f"{value} did not pass in time", drone)
                self.give_up(drone)
                self._failed = True
                return False
        if over:
            self._tell("action", text, drone)
            self._end_skill(drone)
        return not over

    def _end_skill(self, drone: int) -> None:
        self.finish(drone)
        self._succeeded = True

    def _telemetry(self, drone: int) -> str:
        pilot = self._flight.pilots[drone]
        east, north = (round(10 * float(value)) for value in self._flight.positions[drone][:2])
        here = f"at {east} {north} layer {pilot.layer}"
        if pilot.parked is not None:
            return f"{here} parked at {gate_name(pilot.parked)}"
        doing = "waiting" if pilot.flying_to is None else f"to {gate_name(pilot.flying_to)}"
        return f"{here} {doing} speed {round(10 * self._flight.ground_speed(drone))}"

    def _tell(self, kind: Kind, text: str, drone: int | None = None) -> None:
        self._news.append(Segment(kind, text, self._step, drone))

    def frame(self) -> Frame:
        """From above and from the side."""
        flight = self._flight
        goals = [pilot.goal for pilot in flight.pilots]
        return draw(Scene(flight.positions, goals, frozenset(flight.closed), self._step * self.dt))

    def close(self) -> None:
        """Give the physics server back."""
        self._swarm.close()


def _number(name: str) -> int:
    """The number in `gate 7` or `drone 2`."""
    return int(name.split()[1])


def _switch_text(layer: int, closed: bool) -> str:
    return f"layer {layer} closed" if closed else f"layer {layer} open again"
