"""Prompt templates: what stands around the context, and counts against the budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from brace.context.segments import Line


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """The text before and after the context lines."""

    head: str = ""
    foot: str = "Plan:\n"

    def render(self, lines: Iterable[Line]) -> str:
        """The whole prompt."""
        return self.head + "".join(line.text for line in lines) + self.foot


def plan_template(skills: str = "") -> PromptTemplate:
    """The default: what to do, in which words, then the context, then room for the plan.

    `skills` is the description of the skills a plan may use.
    """
    head = "You plan for a robot. Write the next plan, nothing else.\n"
    return PromptTemplate(head + (skills.strip() + "\n" if skills.strip() else ""))
