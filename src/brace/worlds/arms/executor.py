"""How one arm moves: rate-limited straight lines, skills written as generators that yield once a step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from brace.errors import BraceError
from brace.worlds.arms.geometry import Pose, angle_between, rotation_of, vector_of
from brace.worlds.arms.simulator import CONTROL_FREQUENCY, Simulator

ARMS = (0, 1)
FAST, SLOW = 0.25, 0.10
"""Metres a second: with free hands, and while holding or inserting something."""
_TURNING = 1.5
"""Radians a second."""
_NEAR_M, _NEAR_DEGREES = 0.012, 4.5
"""An arm this close to a pose has reached it."""
_ON_LINE_M, _ON_LINE_DEGREES = 0.025, 8.0
"""An arm this close to the line of its approach is on it."""
_TOO_DEEP_M = 0.05
"""An arm with less than this left before the goal's level draws back before it moves sideways."""
_SPARE_STEPS = 50
"""A motion that takes this many steps more than its length needs is stuck."""
_CLOSING_STEPS, _OPENING_STEPS = 14, 6
_EMPTY_M = 0.010
"""Fingers that come closer than this hold nothing."""

Motion = Iterator[None]


class SkillFailedError(BraceError):
    """A skill could not be done; the text says why."""


class Arm:
    """One arm: where it was told to be, what its fingers do, and what it feels between them."""

    def __init__(self, number: int, simulator: Simulator) -> None:
        self.number = number
        self._simulator = simulator
        self.reset()

    def reset(self) -> None:
        """Stand where the simulator has put it, fingers open."""
        self.told = self._simulator.pose(self.number)
        self.home = self.told
        self.grip = -1.0
        self.closing = False
        self.holding = False

    @property
    def pose(self) -> Pose:
        """Where it is."""
        return self._simulator.pose(self.number)

    @property
    def gripper(self) -> str:
        """What its own sensing says of its fingers: open, closing, holding or empty."""
        if self.closing:
            return "closing"
        if self.holding:
            return "holding"
        return "open" if self.grip < 0 else "empty"

    def feels_something(self) -> bool:
        """Whether something keeps the closed fingers apart."""
        return self._simulator.width(self.number) > _EMPTY_M

    def stop(self) -> None:
        """Stay where it was told to be last; a grasp under way is broken off and does not count."""
        self.closing = False

    def go(self, goal: Pose, speed: float = FAST, metres: float = _NEAR_M) -> Motion:
        """In a straight line to a pose, turning on the way."""
        way = float(np.linalg.norm(goal.position - self.told.position)) / speed
        turn = np.radians(angle_between(goal.rotation, self.told.rotation)) / _TURNING
        limit = round(max(way, turn) * CONTROL_FREQUENCY) + _SPARE_STEPS
        for _ in range(limit):
            if self._advance(goal, speed):
                now = self.pose
                away = float(np.linalg.norm(goal.position - now.position))
                if away < metres and angle_between(goal.rotation, now.rotation) < _NEAR_DEGREES:
                    return
            yield
        raise SkillFailedError("could not get there")

    def approach(self, goal: Pose, length: float, speed: float = FAST) -> Motion:
        """To a pose along the fingers' own direction, for the last `length` metres.

        An arm that is on that line already goes straight on: a new plan for the same place costs nothing.
        """
        axis = goal.rotation[:, 2]
        way = goal.position - self.pose.position
        along = float(way @ axis)
        aside = float(np.linalg.norm(way - along * axis))
        if aside > _ON_LINE_M or angle_between(goal.rotation, self.pose.rotation) > _ON_LINE_DEGREES:
            if along < _TOO_DEEP_M:
                back = self.told.position - self.told.rotation[:, 2] * length
                yield from self.go(Pose(back, self.told.rotation))
            # Roughly is enough here: the straight rest of the way corrects it.
            yield from self.go(Pose(goal.position - axis * length, goal.rotation), metres=0.015)
        yield from self.go(goal, speed)

    def _advance(self, goal: Pose, speed: float) -> bool:
        """Tell it the next point of the line; whether that is the line's end."""
        # From where it was told to be: it lags behind, and a line drawn from where it is would bend.
        reach = speed / CONTROL_FREQUENCY
        way = goal.position - self.told.position
        length = float(np.linalg.norm(way))
        position = goal.position if length <= reach else self.told.position + way / length * reach
        most = _TURNING / CONTROL_FREQUENCY
        turn = vector_of(goal.rotation @ self.told.rotation.T)
        angle = float(np.linalg.norm(turn))
        rotation = goal.rotation if angle <= most else rotation_of(turn / angle * most) @ self.told.rotation
        self.told = Pose(position, rotation)
        return length <= reach and angle <= most

    def open(self) -> Motion:
        """Open the fingers, which takes a moment if they are not open."""
        if self.grip > 0:
            self.let_go()
            for _ in range(_OPENING_STEPS):
                yield

    def let_go(self) -> None:
        """Open the fingers at once, without waiting for them."""
        self.grip, self.closing, self.holding = -1.0, False, False

    def close(self) -> Motion:
        """Close the fingers on something; if there is nothing, back off upwards and fail."""
        self.grip, self.closing, self.holding = 1.0, True, False
        for _ in range(_CLOSING_STEPS):
            yield
        self.closing = False
        if self.feels_something():
            self.holding = True
            return
        yield from self.back_off("nothing between the fingers")

    def back_off(self, why: str) -> Motion:
        """Open, rise out of the way, and fail."""
        yield from self.open()
        yield from self.go(self.told.shifted(z=0.1))
        raise SkillFailedError(why)
