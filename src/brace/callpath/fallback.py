"""What the agent does when no plan came: the first rung of the ladder that is possible."""

from __future__ import annotations

from collections.abc import Sequence

from brace.errors import UnknownNameError
from brace.ledger.records import Fallback

LADDER: tuple[Fallback, ...] = ("keep", "stored", "stop")


def check_ladder(ladder: Sequence[str]) -> None:
    """Refuse unknown rungs."""
    for rung in ladder:
        if rung not in LADDER:
            raise UnknownNameError("fallback", rung, LADDER)


def choose_fallback(ladder: Sequence[Fallback], *, can_keep: bool, has_stored: bool) -> Fallback:
    """`keep` needs something left of the plan, `stored` a stored plan; `stop` is always possible."""
    possible: dict[Fallback, bool] = {"keep": can_keep, "stored": has_stored, "stop": True}
    return next((rung for rung in ladder if possible[rung]), "stop")
