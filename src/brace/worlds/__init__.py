"""Where plans act. Importing this registers our own worlds, not their simulators."""

from brace.worlds.arms import HandoverWorld, LiftWorld, PegWorld
from brace.worlds.babyai import BabyAIWorld
from brace.worlds.base import World, WorldInfo
from brace.worlds.drones import DronesWorld
from brace.worlds.following import SkillWorld

__all__ = [
    "BabyAIWorld",
    "DronesWorld",
    "HandoverWorld",
    "LiftWorld",
    "PegWorld",
    "SkillWorld",
    "World",
    "WorldInfo",
]
