"""robosuite's hammer: where its grips and its tail are."""

from __future__ import annotations

import numpy as np

from brace.worlds.arms.geometry import Pose, Vector, about_z, quaternion_of
from brace.worlds.arms.reports import Sighting, in_millimetres
from brace.worlds.arms.simulator import Simulator

TABLE_Z = 0.80
GRIPS = ("p", "q")
_FROM_HEAD = {"p": 0.02, "q": 0.06}
"""Metres from the head to where it may be gripped."""
_FROM_END = 0.02
"""Metres from the handle's end to where arm 1 takes it."""


class Hammer:
    """A view of the simulated hammer. Its yaw is 0 when the handle's end, the tail, points to arm 1."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        model = simulator.env.hammer
        self._joint = str(model.joints[0])
        self._half = float(model.handle_length) / 2.0
        self._rest_z = TABLE_Z + float(model.head_halfsize)

    def lay(self, x: float, y: float, yaw: float) -> None:
        """Lay it flat on the table."""
        tail = about_z(yaw) @ np.array([0.0, 1.0, 0.0])
        up = np.array([0.0, 0.0, 1.0])
        rotation = np.stack([np.cross(up, -tail), up, -tail], axis=1)
        self._simulator.place(self._joint, np.array([x, y, self._rest_z]), quaternion_of(rotation))

    @property
    def pose(self) -> Pose:
        """The middle of the handle."""
        return self._simulator.body(self._simulator.env.hammer_body_id)

    @property
    def height(self) -> float:
        """How high it is above where it lies on the table."""
        return float(self.pose.position[2]) - self._rest_z

    @property
    def yaw(self) -> float:
        """In degrees."""
        tail = self._tail()
        return float(np.degrees(np.arctan2(-tail[0], tail[1])))

    def grips(self) -> dict[str, Sighting]:
        """Where arm 0 may grip it."""
        return {name: self._along(_FROM_HEAD[name] - self._half) for name in GRIPS}

    def tail(self) -> Sighting:
        """Where arm 1 may take it."""
        return self._along(self._half - _FROM_END)

    def _tail(self) -> Vector:
        return np.asarray(-self.pose.rotation[:, 2])

    def _along(self, metres: float) -> Sighting:
        """A point on the handle, so far from its middle towards the tail."""
        return (*in_millimetres(self.pose.position + self._tail() * metres), round(self.yaw))
