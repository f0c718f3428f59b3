"""Where plans act. Importing this registers our own worlds, not their simulators."""

from brace.worlds.base import Events, World, WorldInfo
from brace.worlds.following import SkillWorld
from brace.worlds.proxy import ProxyWorld

__all__ = ["Events", "ProxyWorld", "SkillWorld", "World", "WorldInfo"]
