"""MiniGrid's rooms with several robots: find, carry, unlock, while people move things."""

from brace.worlds.babyai.world import BabyAIWorld

__all__ = ["BabyAIWorld"]
