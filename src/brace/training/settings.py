"""The variety of a world that training sees: every difficulty, disturbance and size of team."""

from __future__ import annotations

import inspect
import random
from typing import Any

from brace.registry import worlds

TEAMS = (1, 2, 3, 4, 4, 5, 6, 7, 8)


def varied_options(name: str, draw: random.Random) -> dict[str, Any]:
    """Random settings of a world, normal ones more often."""
    takes = inspect.signature(worlds.get(name)).parameters
    options: dict[str, Any] = {}
    if "difficulty" in takes:
        options["difficulty"] = draw.choice(("easy", "normal", "normal", "hard"))
    if "disturbance" in takes:
        options["disturbance"] = draw.choice(("none", "normal", "normal", "strong"))
    if "agents" in takes:
        options["agents"] = draw.choice(TEAMS)
    return options
