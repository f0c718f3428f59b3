"""Where plans act. Importing this registers our own worlds."""

from brace.worlds.base import Events, World
from brace.worlds.proxy import ProxyWorld

__all__ = ["Events", "ProxyWorld", "World"]
