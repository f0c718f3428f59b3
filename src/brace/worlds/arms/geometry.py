"""Rotations, as far as two arms need them: 3×3 matrices, and vectors that are axis times angle (radians)."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]


class Pose(NamedTuple):
    """Where something is and how it is turned, in the world frame (metres)."""

    position: Vector
    rotation: Matrix

    def shifted(self, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Pose:
        """The same rotation elsewhere."""
        return Pose(self.position + np.array([x, y, z]), self.rotation)


def rotation_of(vector: Vector) -> Matrix:
    """The matrix of a rotation vector."""
    angle = float(np.linalg.norm(vector))
    if angle < 1e-12:
        return np.eye(3)
    x, y, z = vector / angle
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * (cross @ cross))


def vector_of(matrix: Matrix) -> Vector:
    """The rotation vector of a matrix, by way of its quaternion: that also works near half a turn."""
    w, x, y, z = quaternion_of(matrix)
    axis = np.array([x, y, z])
    sine = float(np.linalg.norm(axis))
    if sine < 1e-12:
        return np.zeros(3)
    return np.asarray(axis / sine * 2.0 * np.arctan2(sine, w))


def quaternion_of(matrix: Matrix) -> Vector:
    """The quaternion w, x, y, z of a matrix, w not negative."""
    m = matrix
    # Of the four equal ways, the one with the largest divisor is exact.
    squares = np.array(
        [
            1.0 + m[0, 0] + m[1, 1] + m[2, 2],
            1.0 + m[0, 0] - m[1, 1] - m[2, 2],
            1.0 - m[0, 0] + m[1, 1] - m[2, 2],
            1.0 - m[0, 0] - m[1, 1] + m[2, 2],
        ]
    )
    largest = int(np.argmax(squares))
    products = np.array(
        [
            [squares[0], m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], squares[1], m[1, 0] + m[0, 1], m[0, 2] + m[2, 0]],
            [m[0, 2] - m[2, 0], m[1, 0] + m[0, 1], squares[2], m[2, 1] + m[1, 2]],
            [m[1, 0] - m[0, 1], m[0, 2] + m[2, 0], m[2, 1] + m[1, 2], squares[3]],
        ]
    )
    quaternion = products[largest] / (2.0 * np.sqrt(squares[largest]))
    return np.asarray(quaternion if quaternion[0] >= 0 else -quaternion)


def about_z(degrees: float) -> Matrix:
    """A turn about the vertical."""
    return rotation_of(np.array([0.0, 0.0, np.radians(degrees)]))


def turn_towards(rotation: Matrix, axis: Vector, target: Vector) -> Matrix:
    """Turn `rotation` the shortest way so that its own `axis` (in its frame) points along `target`."""
    now = rotation @ axis
    normal = np.cross(now, target)
    sine = float(np.linalg.norm(normal))
    # It is there already, or straight behind, where no way is the shortest.
    if sine < 1e-9:
        return rotation
    return np.asarray(rotation_of(normal / sine * np.arctan2(sine, now @ target)) @ rotation)


def angle_between(one: Matrix, other: Matrix) -> float:
    """How far two rotations are apart, in degrees."""
    cosine = (float(np.trace(one.T @ other)) - 1.0) / 2.0
    # Rounding may carry the cosine just beyond 1.
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


def wrapped(degrees: float, period: float = 360.0) -> float:
    """The same angle in [-period/2, period/2)."""
    return (degrees + period / 2.0) % period - period / 2.0
