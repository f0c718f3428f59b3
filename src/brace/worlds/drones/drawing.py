"""A picture of the intersection: from above, and from the side with its layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from brace.worlds.drones.airspace import (
    GATES,
    LAYERS,
    RADIUS,
    SPACING,
    Vector,
    altitude,
    gate_angle,
    on_circle,
    parking,
)

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

    from brace.worlds.base import Frame

TOP, SIDE = 480, 240
_REACH = 10.0
"""Metres from the middle to the picture's edge."""
_SCALE = TOP / (2 * _REACH)
_COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22")
_INK, _PAPER, _GREY, _SHUT, _STRANGER = "#222222", "#ffffff", "#bbbbbb", "#f4b6b6", "#d62728"


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to see."""

    positions: Vector
    """Of our drones, and after them the intruder if it is there."""
    goals: Sequence[int]
    closed: frozenset[int]
    seconds: float


def draw(scene: Scene) -> Frame:
    """The view from above, and the side view below it."""
    from PIL import Image, ImageDraw  # noqa: PLC0415 - only who asks for a picture needs it

    image = Image.new("RGB", (TOP, TOP + SIDE), _PAPER)
    pen = ImageDraw.Draw(image)
    _draw_top(pen, scene)
    _draw_side(pen, scene)
    return np.asarray(image)


def _draw_top(pen: ImageDraw, scene: Scene) -> None:
    middle, radius = TOP / 2, RADIUS * _SCALE
    pen.ellipse((middle - radius, middle - radius, middle + radius, middle + radius), outline=_GREY)
    for gate in range(1, GATES + 1):
        x, y = _from_above(on_circle(gate_angle(gate), RADIUS + 1.4))
        pen.text((x, y), str(gate), fill=_INK, anchor="mm", font_size=16)
        x, y = _from_above(on_circle(gate_angle(gate)))
        pen.rectangle((x - 4, y - 4, x + 4, y + 4), fill=_GREY)
    for number, position in enumerate(scene.positions):
        x, y = _from_above(position)
        if number < len(scene.goals):
            pen.line((x, y, *_from_above(parking(scene.goals[number]))), fill=_colour(number, scene), width=1)
        _draw_drone(pen, x, y, number, scene)
    pen.text((6, 4), f"from above, {scene.seconds:.1f} s", fill=_INK, font_size=14)


def _draw_side(pen: ImageDraw, scene: Scene) -> None:
    for layer in LAYERS:
        y, half = _from_side(altitude(layer)), SPACING / 2 * _side_scale()
        if layer in scene.closed:
            pen.rectangle((0, y - half + 1, TOP, y + half - 1), fill=_SHUT)
        pen.line((24, y, TOP, y), fill=_GREY)
        pen.text((4, y), str(layer), fill=_INK, anchor="lm", font_size=14)
    pen.line((0, TOP, TOP, TOP), fill=_INK)
    for number, position in enumerate(scene.positions):
        _draw_drone(pen, _from_above(position)[0], _from_side(float(position[2])), number, scene)
    pen.text((TOP - 6, TOP + 4), "from the side, closed layers shaded", fill=_INK, anchor="ra", font_size=14)


def _draw_drone(pen: ImageDraw, x: float, y: float, number: int, scene: Scene) -> None:
    label = str(number) if number < len(scene.goals) else "!"
    pen.ellipse((x - 8, y - 8, x + 8, y + 8), fill=_colour(number, scene))
    pen.text((x, y), label, fill=_PAPER, anchor="mm", font_size=12)


def _colour(number: int, scene: Scene) -> str:
    return _COLOURS[number] if number < len(scene.goals) else _STRANGER


def _from_above(place: Vector) -> tuple[float, float]:
    return TOP / 2 + float(place[0]) * _SCALE, TOP / 2 - float(place[1]) * _SCALE


def _side_scale() -> float:
    return SIDE / (altitude(LAYERS[-1]) + SPACING)


def _from_side(height: float) -> float:
    return TOP + SIDE - height * _side_scale()
