"""Rotations: what the arms are told must be what was meant, half turns included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.worlds.arms.geometry import about_z, angle_between, rotation_of, turn_towards, vector_of, wrapped

UNIT = st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda v: np.linalg.norm(v) > 0.1)


@settings(max_examples=50, deadline=None)
@given(axis=UNIT, angle=st.floats(0, np.pi))
def test_a_rotation_vector_survives_the_way_through_a_matrix(
    axis: tuple[float, float, float], angle: float
) -> None:
    matrix = rotation_of(np.array(axis) / np.linalg.norm(axis) * angle)
    assert np.allclose(matrix @ matrix.T, np.eye(3))
    assert np.allclose(rotation_of(vector_of(matrix)), matrix, atol=1e-6)
    assert angle_between(np.eye(3), matrix) == pytest.approx(np.degrees(angle), abs=1e-3)


def test_a_turn_about_the_vertical_goes_from_x_to_y() -> None:
    assert np.allclose(about_z(90.0) @ [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])


@settings(max_examples=30, deadline=None)
@given(axis=UNIT, target=UNIT)
def test_turning_towards_something_ends_there(
    axis: tuple[float, float, float], target: tuple[float, float, float]
) -> None:
    own, wanted = (np.array(v) / np.linalg.norm(v) for v in (axis, target))
    if np.linalg.norm(own + wanted) > 1e-3:  # straight behind, no way is the shortest
        assert np.allclose(turn_towards(np.eye(3), own, wanted) @ own, wanted, atol=1e-6)


@pytest.mark.parametrize(("angle", "period", "same"), [(190, 360, -170), (-95, 180, 85), (90, 180, -90)])
def test_angles_wrap(angle: float, period: float, same: float) -> None:
    assert wrapped(angle, period) == same
