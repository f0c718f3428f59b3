"""robosuite's things: the pot, the hammer, the peg and its board, as the arms have to do with them."""

from __future__ import annotations

import numpy as np

from brace.worlds.arms.geometry import Pose, Vector, about_z, quaternion_of, turn_towards, wrapped
from brace.worlds.arms.simulator import Simulator
from brace.worlds.arms.surroundings import Sighting, in_millimetres

COLOURS = ("blue", "green")
"""The colour of handle 0 and of handle 1."""
TABLE_Z = 0.80
GRIPS = ("p", "q")
_FROM_HEAD = {"p": 0.02, "q": 0.06}
"""Metres from the head to where it may be gripped."""
_FROM_END = 0.02
"""Metres from the handle's end to where arm 1 takes it."""
PEG, BOARD = 0, 1
"""Which arm holds what."""
# In the board's own frame, as robosuite's check has it.
_HOLE_IN_BOARD = np.array([0.1, 0.0, 0.0])


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
        # After half a turn the fingers close in the same way.
        yaw = round(wrapped(self.yaw + 90.0, 180.0))
        places = (env._handle0_xpos, env._handle1_xpos)
        return {colour: (*in_millimetres(at), yaw) for colour, at in zip(COLOURS, places, strict=True)}


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
        # robosuite's handle lies along its own z, with the head at the upper end.
        return np.asarray(-self.pose.rotation[:, 2])

    def _along(self, metres: float) -> Sighting:
        """A point on the handle, so far from its middle towards the tail."""
        return (*in_millimetres(self.pose.position + self._tail() * metres), round(self.yaw))


class Fitting:
    """The arms' calibration, taken when they are at home, and a view of the simulated peg and hole."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        peg, board = self._peg(), self._board()
        at_peg, at_board = simulator.pose(PEG), simulator.pose(BOARD)
        self._home = (at_peg.rotation, at_board.rotation)
        self._peg_offset = at_peg.rotation.T @ (peg.position - at_peg.position)
        self._peg_axis = at_peg.rotation.T @ peg.rotation[:, 2]
        self._hole_offset = at_board.rotation.T @ (_hole_of(board) - at_board.position)
        self._board_normal = at_board.rotation.T @ board.rotation[:, 2]
        # robosuite's `peg_length` is half of it, as MuJoCo measures cylinders.
        self._peg_half = float(simulator.env.peg_length)

    def _peg(self) -> Pose:
        return self._simulator.body(self._simulator.env.peg_body_id)

    def _board(self) -> Pose:
        return self._simulator.body(self._simulator.env.hole_body_id)

    def peg_pose(self, hole: Sighting, before: float) -> Pose:
        """Arm 0's pose when the peg points at a hole and its tip is so many metres before it."""
        axis = _axis(hole[3])
        rotation = turn_towards(self._home[PEG], self._peg_axis, axis)
        centre = np.array(hole[:3]) / 1e3 - axis * (before + self._peg_half)
        return Pose(centre - rotation @ self._peg_offset, rotation)

    def board_pose(self, hole: Sighting) -> Pose:
        """Arm 1's pose when its hole is there."""
        # By way of level: the shortest way straight to a tilt may also turn the board about its normal.
        level = turn_towards(self._home[BOARD], self._board_normal, _axis(0.0))
        rotation = turn_towards(level, self._board_normal, _axis(hole[3]))
        return Pose(np.array(hole[:3]) / 1e3 - rotation @ self._hole_offset, rotation)

    def hole(self) -> Sighting:
        """Where the hole is and how it is tilted."""
        board = self._board()
        return (*in_millimetres(_hole_of(board)), _tilt(board.rotation[:, 2]))

    def tip(self) -> Sighting:
        """Where the peg's tip is and how it is tilted."""
        peg = self._peg()
        axis = peg.rotation[:, 2]
        return (*in_millimetres(peg.position + axis * self._peg_half), _tilt(axis))

    def depth(self) -> float:
        """How deep the tip is behind the hole's plane (negative: before it), in metres."""
        along, _, _ = self._simulator.env._compute_orientation()
        return self._peg_half - float(along)

    def aside(self) -> float:
        """How far the peg's line passes the middle of the hole, in metres."""
        _, aside, _ = self._simulator.env._compute_orientation()
        return float(aside)


def _axis(tilt: float) -> Vector:
    """The direction from arm 0 to arm 1, tilted down by so many degrees."""
    angle = np.radians(tilt)
    return np.array([0.0, np.cos(angle), -np.sin(angle)])


def _tilt(axis: Vector) -> int:
    return round(float(np.degrees(np.arctan2(-axis[2], axis[1]))))


def _hole_of(board: Pose) -> Vector:
    return np.asarray(board.position + board.rotation @ _HOLE_IN_BOARD)
