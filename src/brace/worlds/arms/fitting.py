"""robosuite's peg and board: how they sit on the arms, and where the arms must be to bring them somewhere."""

from __future__ import annotations

import numpy as np

from brace.worlds.arms.geometry import Pose, Vector, turn_towards
from brace.worlds.arms.reports import Sighting, in_millimetres
from brace.worlds.arms.simulator import Simulator

PEG, BOARD = 0, 1
"""Which arm holds what."""
_HOLE_IN_BOARD = np.array([0.1, 0.0, 0.0])


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
