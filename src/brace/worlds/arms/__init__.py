"""Two robot arms over a table (robosuite): lift a pot, hand a hammer over, put a peg into a hole."""

from brace.worlds.arms.handover import HandoverWorld
from brace.worlds.arms.lift import LiftWorld
from brace.worlds.arms.peg import PegWorld

__all__ = ["HandoverWorld", "LiftWorld", "PegWorld"]
