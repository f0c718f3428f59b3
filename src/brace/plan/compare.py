"""When two plans are the same: the normal form, and what counts as a change."""

from __future__ import annotations

import math
from fractions import Fraction

from brace.plan.grammar import Plan, SkillCall
from brace.plan.skills import SkillSet, finite_number


def normal_form(plan: Plan, skills: SkillSet | None = None) -> str:
    """The plan's text with every number written one way, so that equal plans have equal text.

    With `skills` (which must know every skill of the plan), numbers are rounded to their argument's
    resolution and other arguments are left alone; without, whatever reads as a finite number is one.
    """
    return str(
        Plan(
            tuple((agent, tuple(_normal_call(call, skills) for call in calls)) for agent, calls in plan.steps)
        )
    )


def is_change(new: Plan, old_rest: Plan, skills: SkillSet | None = None) -> bool:
    """Whether an accepted plan differs, in normal form, from the unexecuted rest of the old one."""
    return normal_form(new, skills) != normal_form(old_rest, skills)


def _normal_call(call: SkillCall, skills: SkillSet | None) -> SkillCall:
    if skills is None:
        return SkillCall(call.skill, tuple(_normal_number(text, None) for text in call.args))
    expected = skills.get(call.skill).args
    return SkillCall(
        call.skill,
        tuple(
            _normal_number(text, arg.resolution) if arg.kind == "number" else text
            for arg, text in zip(expected, call.args, strict=True)
        ),
    )


def _normal_number(text: str, resolution: float | None) -> str:
    value = finite_number(text)
    if value is None:
        return text
    if resolution is not None:
        value = _rounded(value, resolution)
    # From 1e16 on, integers are no longer exact and their digits would be made up.
    return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)


def _rounded(value: float, resolution: float) -> float:
    """The multiple of `resolution` nearest to `value`, as the float nearest to that decimal."""
    # Where floats are about as coarse as the resolution, rounding twice could move twice: leave those alone.
    if math.ulp(value) * 4 >= resolution:
        return value
    # Through the decimals people wrote (0.05), not their binary neighbours: 3 x 0.1 is 0.3.
    unit = Fraction(repr(resolution))
    try:
        return float(round(Fraction(repr(value)) / unit) * unit)
    except OverflowError:  # the nearest multiple lies beyond the largest float
        return value
