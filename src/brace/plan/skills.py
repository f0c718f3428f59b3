"""What a world's agents can do: the skills a plan may use, and how to tell a planner about them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from brace.errors import ConfigError, UnknownNameError

NAME = re.compile(r"[a-z_][a-z0-9_]*")
ARGUMENT = re.compile(r"[^(),;:\n]+")
# No two parts of this pattern can match the same digits, so that it stays linear on a long wrong text.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?")


def canonical(argument: str) -> str:
    """An argument as plans hold it, lower-cased and single-spaced, so that spelling makes no difference."""
    return " ".join(argument.split()).lower()


def finite_number(argument: str) -> float | None:
    """The value of a canonical argument that is a finite decimal number, else None.

    Narrower than `float`, which also takes nan, infinities, underscores and foreign digits.
    """
    if _NUMBER.fullmatch(argument) is None:
        return None
    value = float(argument)
    return value if math.isfinite(value) else None


def normal_number(argument: str, resolution: float | None = None) -> str:
    """A finite number written one way, as the nearest multiple of `resolution`. Others stay as they are."""
    value = finite_number(argument)
    if value is None:
        return argument
    # Where floats are about as coarse as the resolution, rounding twice could move twice: leave those alone.
    if resolution is not None and math.ulp(value) * 4 < resolution:
        # Through the decimals people wrote (0.05), not their binary neighbours: 3 x 0.1 is 0.3.
        unit = Fraction(repr(resolution))
        with suppress(OverflowError):  # the nearest multiple lies beyond the largest float
            value = float(round(Fraction(repr(value)) / unit) * unit)
    # From 1e16 on, integers are no longer exact and their digits would be made up.
    return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)


@dataclass(frozen=True)
class Arg:
    """One argument of a skill: a free name, a number, or one of a few choices.

    `resolution` is for numbers: plans whose numbers round to the same multiple of it count as the same
    plan. It has no effect on the plan that is executed.
    """

    name: str
    kind: Literal["name", "number", "choice"]
    choices: tuple[str, ...] = ()
    resolution: float | None = None

    def __post_init__(self) -> None:
        _check_name("argument", self.name)
        if self.kind not in ("name", "number", "choice"):
            raise ConfigError(f"argument {self.name!r}: kind {self.kind!r} is not name, number or choice")
        if (self.kind == "choice") != bool(self.choices):
            raise ConfigError(f"argument {self.name!r}: kind 'choice', and no other, needs choices")
        for choice in self.choices:
            if canonical(choice) != choice or ARGUMENT.fullmatch(choice) is None:
                raise ConfigError(
                    f"argument {self.name!r}: choice {choice!r} can never be read from a plan; "
                    "write it lower-case, single-spaced and without ( ) , ; :"
                )
        if self.resolution is None:
            return
        if self.kind != "number":
            raise ConfigError(f"argument {self.name!r}: only a number has a resolution")
        if not (self.resolution > 0 and math.isfinite(self.resolution)):
            raise ConfigError(
                f"argument {self.name!r}: resolution {self.resolution} must be above 0 and finite"
            )

    def accepts(self, argument: str) -> bool:
        """Whether a canonical argument is of this kind."""
        if self.kind == "number":
            return finite_number(argument) is not None
        return self.kind == "name" or argument in self.choices

    def normal(self, argument: str) -> str:
        """A canonical argument, a number rounded to the resolution."""
        return normal_number(argument, self.resolution) if self.kind == "number" else argument


@dataclass(frozen=True)
class Skill:
    """Something an agent can be told to do, with a line of `doc` for the planner's prompt."""

    name: str
    args: tuple[Arg, ...] = ()
    doc: str = ""

    def __post_init__(self) -> None:
        _check_name("skill", self.name)
        _check_distinct(f"argument of skill {self.name!r}", [arg.name for arg in self.args])

    def signature(self) -> str:
        """The skill as it is called, `goto(place)`, for prompts and messages."""
        return f"{self.name}({', '.join(arg.name for arg in self.args)})"


class SkillSet:
    """All skills a world offers and the number of agents a plan may address; it never changes.

    It iterates over its skills in the order given, which is also the order in the prompt.
    """

    __slots__ = ("_agents", "_skills")

    def __init__(self, skills: Iterable[Skill], agents: int = 1) -> None:
        listed = tuple(skills)
        if not listed:
            raise ConfigError("a skill set needs at least one skill")
        if agents < 1:
            raise ConfigError(f"a skill set needs at least one agent, not {agents}")
        _check_distinct("skill", [skill.name for skill in listed])
        self._skills = {skill.name: skill for skill in listed}
        self._agents = agents

    @property
    def agents(self) -> int:
        """How many agents a plan may address: 0 to `agents - 1`."""
        return self._agents

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the skills, in order."""
        return tuple(self._skills)

    def get(self, name: str) -> Skill:
        """The skill of that name; UnknownNameError, with a suggestion, when there is none."""
        try:
            return self._skills[name]
        except KeyError:
            raise UnknownNameError("skill", name, self._skills) from None

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._skills.values())

    def __len__(self) -> int:
        return len(self._skills)

    def describe(self) -> str:
        """The skills and how to write a plan, as text for a planner's prompt."""
        skills = list(self)
        example = f"{skills[0].signature()}; {skills[-1].signature()}"
        how = f"Write a plan as skills joined by ';', and nothing else: {example}"
        if self.agents > 1:
            how = (
                f"Write one line for each agent (0 to {self.agents - 1}), its number, ':' and its skills "
                f"joined by ';', and nothing else: 0: {example}"
            )
        return "\n".join([*(_describe(skill) for skill in skills), how])


def _describe(skill: Skill) -> str:
    """One skill's line of the prompt; names explain themselves, other kinds of argument are spelt out."""
    notes = [skill.doc] if skill.doc else []
    for arg in skill.args:
        if arg.kind == "number":
            notes.append(f"{arg.name} is a number")
        elif arg.kind == "choice":
            notes.append(f"{arg.name} is {' or '.join(arg.choices)}")
    return f"{skill.signature()}: {'; '.join(notes)}" if notes else skill.signature()


def _check_name(what: str, name: str) -> None:
    if NAME.fullmatch(name) is None:
        raise ConfigError(f"{what} name {name!r} must be lower-case letters, digits and '_', no digit first")


def _check_distinct(what: str, names: list[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ConfigError(f"{what} {name!r} is given twice; names must be distinct")
