"""The plan grammar: what a planner may write, how it is read, and when two plans are the same.

A plan is a short program of skills, `goto(red ball); pickup(red ball)`, and where there are several agents
one line for each:

    0: goto(red ball); pickup(red ball)
    1: wait()

A world says which skills it has (`SkillSet`), a planner's text is read strictly (`parse`) or as far as it
goes (`parse_partial`), and a new plan is compared with what is left of the old one (`is_change`).
"""

from brace.plan.grammar import (
    Plan,
    PlanSyntaxError,
    SkillCall,
    is_change,
    normal_form,
    parse,
    parse_partial,
)
from brace.plan.skills import Arg, Skill, SkillSet

__all__ = [
    "Arg",
    "Plan",
    "PlanSyntaxError",
    "Skill",
    "SkillCall",
    "SkillSet",
    "is_change",
    "normal_form",
    "parse",
    "parse_partial",
]
