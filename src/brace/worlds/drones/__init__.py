"""Drones that cross an intersection in flight layers (PyFlyt): the air row of the paper, for real."""

from brace.worlds.drones.world import DronesWorld

__all__ = ["DronesWorld"]
