"""robosuite's pot: where it stands and where its handles are."""

from __future__ import annotations

import numpy as np

from brace.worlds.arms.geometry import Vector, about_z, quaternion_of, wrapped
from brace.worlds.arms.reports import Sighting, in_millimetres
from brace.worlds.arms.simulator import Simulator

COLOURS = ("blue", "green")
"""The colour of handle 0 and of handle 1."""


class Pot:
    """A view of the simulated pot. Its yaw is 0 when the blue handle points to arm 1, the green to arm 0."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._joint = str(simulator.env.pot.joints[0])

    def stand(self, position: Vector, yaw: float) -> None:
        """Put it somewhere."""
        self._simulator.place(self._joint, position, quaternion_of(about_z(yaw)))

    @property
    def position(self) -> Vector:
        """Of its middle."""
        return self._simulator.body(self._simulator.env.pot_body_id).position

    @property
    def yaw(self) -> float:
        """In degrees."""
        rotation = self._simulator.body(self._simulator.env.pot_body_id).rotation
        return float(np.degrees(np.arctan2(rotation[1, 0], rotation[0, 0])))

    @property
    def height(self) -> float:
        """How high its bottom is above the table."""
        env = self._simulator.env
        centre = float(env.sim.data.site_xpos[env.pot_center_id][2])
        return centre - float(env.pot.top_offset[2]) - float(env.sim.data.site_xpos[env.table_top_id][2])

    def handles(self) -> dict[str, Sighting]:
        """Each handle's place, and the yaw at which fingers close across it."""
        env = self._simulator.env
        yaw = round(wrapped(self.yaw + 90.0, 180.0))
        places = (env._handle0_xpos, env._handle1_xpos)
        return {colour: (*in_millimetres(at), yaw) for colour, at in zip(COLOURS, places, strict=True)}
