"""Prompt templates: what stands around the context, and counts against the budget."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from brace.context.segments import Line
from brace.errors import ConfigError, suggestion
from brace.registry import templates

CONTEXT, SKILLS = "{context}", "{skills}"
"""The places in a template. All other braces are text."""
_REMEDY = f"write {CONTEXT} once, where the lines of the context belong"


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt's text with a place for the context's lines and, where it is wanted, one for the skills."""

    text: str
    """It has `{context}` once, and may have `{skills}`."""
    skills: str = field(default="", kw_only=True)
    """What stands in the place of `{skills}`."""

    def __post_init__(self) -> None:
        if (places := self.text.count(CONTEXT)) != 1:
            found = f"{CONTEXT} {places} times" if places else f"no {CONTEXT}"
            raise ConfigError(f"template {_shown(self.text)} has {found}; {_REMEDY}")

    @property
    def head(self) -> str:
        """What stands before the context."""
        # Cut first, filled in after: a description of skills may itself hold `{context}`.
        return self.text.partition(CONTEXT)[0].replace(SKILLS, self.skills)

    @property
    def foot(self) -> str:
        """What stands after it."""
        return self.text.partition(CONTEXT)[2].replace(SKILLS, self.skills)

    def with_skills(self, description: str) -> PromptTemplate:
        """The same with the skills a plan may use described in their place, or with nothing there."""
        described = description.strip()
        return replace(self, skills=described + "\n" if described else "")

    def render(self, lines: Iterable[Line]) -> str:
        """The whole prompt."""
        return self.head + "".join(line.text for line in lines) + self.foot


PLAN = PromptTemplate(
    "You plan for a robot. Write the next plan, nothing else.\n" + SKILLS + CONTEXT + "Plan:\n"
)
"""The default: what to do, in which words, then the context, then room for the plan."""
templates.add("plan", PLAN)


def plan_template(skills: str = "") -> PromptTemplate:
    """The default template; `skills` is the description of the skills a plan may use."""
    return PLAN.with_skills(skills)


def find_template(text_or_name: str) -> PromptTemplate:
    """A text with the place of the context in it is a template itself; any other is the name of one."""
    if CONTEXT in text_or_name:
        return PromptTemplate(text_or_name)
    if text_or_name not in (names := templates.names()):
        raise ConfigError(
            f"unknown template {_shown(text_or_name)}{suggestion(text_or_name, names)}; in a template that "
            f"is written out, {_REMEDY}"
        )
    found: PromptTemplate = templates.get(text_or_name)
    return found


def _shown(text: str) -> str:
    return repr(textwrap.shorten(text, 60, placeholder="…"))
