"""Prompt templates: what stands around the context, and counts against the budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from brace.context.segments import Line
from brace.errors import ConfigError, UnknownNameError
from brace.registry import templates

CONTEXT, SKILLS = "{context}", "{skills}"


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A text with a place for the `{context}`, and perhaps one for the description of the `{skills}`."""

    text: str
    head: str = field(init=False, repr=False)
    """What stands before the context."""
    foot: str = field(init=False, repr=False)
    """What stands after it."""

    def __post_init__(self) -> None:
        head, place, foot = self.text.partition(CONTEXT)
        if not place or CONTEXT in foot:
            raise ConfigError(
                f"a template needs one place for the context: write {CONTEXT} where its lines belong, "
                f"once; got {self.text!r}"
            )
        object.__setattr__(self, "head", head)
        object.__setattr__(self, "foot", foot)

    def with_skills(self, description: str) -> PromptTemplate:
        """With the place for the skills filled, or closed where there is nothing to say."""
        described = description.strip()
        return PromptTemplate(self.text.replace(SKILLS, described + "\n" if described else ""))

    def render(self, lines: Iterable[Line]) -> str:
        """The whole prompt."""
        return self.head + "".join(line.text for line in lines) + self.foot


DEFAULT = PromptTemplate(
    "You plan for a robot. Write the next plan, nothing else.\n{skills}{context}Plan:\n"
)
templates.add("plan", DEFAULT)


def plan_template(skills: str = "") -> PromptTemplate:
    """The default, for robots with these skills: their description, as the prompt says it."""
    return DEFAULT.with_skills(skills)


def find_template(name_or_text: str) -> PromptTemplate:
    """A registered template by its name, or the one that is written out here."""
    if CONTEXT in name_or_text:
        return PromptTemplate(name_or_text)
    try:
        found: PromptTemplate = templates.get(name_or_text)
    except UnknownNameError as error:
        raise ConfigError(f"{error}; a template written out here needs a place for the {CONTEXT}") from error
    return found
