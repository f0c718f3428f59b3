"""What the agent does when no plan came."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from brace.callpath import choose_fallback
from brace.callpath.fallback import LADDER, check_ladder
from brace.errors import UnknownNameError
from brace.ledger.records import Fallback


@pytest.mark.parametrize(
    ("ladder", "can_keep", "has_stored", "chosen"),
    [
        (("keep", "stored", "stop"), True, True, "keep"),
        (("keep", "stored", "stop"), False, True, "stored"),
        (("keep", "stored", "stop"), False, False, "stop"),
        (("stored", "keep"), True, True, "stored"),
        (("stored", "keep"), True, False, "keep"),
        (("stop", "keep"), True, True, "stop"),
        (("keep",), False, True, "stop"),
        ((), True, True, "stop"),
    ],
)
def test_the_first_possible_rung_is_taken_and_stopping_is_always_possible(
    ladder: Sequence[Fallback], can_keep: bool, has_stored: bool, chosen: Fallback
) -> None:
    assert choose_fallback(ladder, can_keep=can_keep, has_stored=has_stored) == chosen


def test_every_order_of_known_rungs_is_accepted() -> None:
    for ladder in permutations(LADDER):
        check_ladder(ladder)


def test_an_unknown_rung_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'stored'"):
        check_ladder(["keep", "store"])
