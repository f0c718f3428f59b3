"""The language of plans, for decoders that are to write plans and nothing else, in three notations.

It is the canonical spelling of `brace.plan`, as `str(Plan)` writes it, so that every text of the language
parses and no two of them differ in spaces only. Numbers, free names and lines have a bounded length, so that
a text comes to its end. One agent's plan is a line without its number; those of several are lines in the
order of the agents, none of them needed, or the bare line of agent 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from brace.errors import ConfigError
from brace.plan import Arg, Skill, SkillSet
from brace.plan.skills import ARGUMENT, canonical

Names = Mapping[str, Sequence[str]]
"""The names that arguments of kind `name` can take; an argument it does not mention takes any."""

MOST_SKILLS = 8
"""On one line: longer plans are outdated before they are done, and a weak model would repeat itself."""
_NUMBER = r"-?(0|[1-9][0-9]{0,5})(\.[0-9]{1,4})?"
_NUMBER_GBNF = '"-"? ("0" | [1-9] [0-9]{0,5}) ("." [0-9]{1,4})?'
# Characters that `canonical` never changes.
_WORD = "[a-z0-9_.'-]{1,24}"


def lark(skills: SkillSet, names: Names) -> str:
    """All plans of these skills as llguidance reads them."""
    terminals: dict[str, str] = {}

    def argument(arg: Arg) -> str:
        allowed = _values(arg, names)
        values = f"/{_pattern(arg)}/" if allowed is None else " | ".join(map(_quoted, allowed))
        return terminals.setdefault(values, f"ARG{len(terminals)}")

    rules = _rules(skills, argument, "start", ":")
    return "\n".join([*rules, *(f"{name}: {values}" for values, name in terminals.items())]) + "\n"


def gbnf(skills: SkillSet, names: Names) -> str:
    """All plans of these skills as llama.cpp reads them."""

    def argument(arg: Arg) -> str:
        allowed = _values(arg, names)
        if allowed is not None:
            return f"({'|'.join(map(_quoted, allowed))})"
        return f"({_NUMBER_GBNF})" if arg.kind == "number" else f'({_WORD} (" " {_WORD}){{0,3}})'

    return "\n".join(_rules(skills, argument, "root", " ::=")) + "\n"


def json_schema(skills: SkillSet, names: Names) -> dict[str, Any]:
    """A flat object of strings, each an agent's line: `{"plan": …}`, or `{"0": …, "1": …}` for several.

    All are required and none is empty: strict schemas know no optional fields, and an object of nothing but
    empty lines would be no plan.
    """

    def argument(arg: Arg) -> str:
        allowed = _values(arg, names)
        return f"({_pattern(arg) if allowed is None else '|'.join(map(_escaped, allowed))})"

    def call(skill: Skill) -> str:
        return _escaped(f"{skill.name}(") + ", ".join(map(argument, skill.args)) + _escaped(")")

    either = f"({'|'.join(map(call, skills))})"
    line = f"{either}(; {either}){{0,{MOST_SKILLS - 1}}}"
    lines = [str(agent) for agent in range(skills.agents)] if skills.agents > 1 else ["plan"]
    return {
        "type": "object",
        "properties": {name: {"type": "string", "pattern": f"^{line}$"} for name in lines},
        "required": lines,
        "additionalProperties": False,
    }


def _rules(skills: SkillSet, argument: Callable[[Arg], str], root: str, means: str) -> list[str]:
    """What the notations for whole plans have in common."""

    def call(skill: Skill) -> str:
        args = f" {_quoted(', ')} ".join(map(argument, skill.args))
        return f"{_quoted(skill.name + '(')} {args} {_quoted(')')}"

    rules = [
        f"{root}{means} line" if skills.agents == 1 else f"{root}{means} line | agent0",
        f"line{means} call ({_quoted('; ')} call){{0,{MOST_SKILLS - 1}}}",
        f"call{means} {' | '.join(map(call, skills))}",
    ]
    last = skills.agents - 1
    for agent in range(skills.agents if last else 0):
        # The lines of this agent and those after it, or of those after it only.
        own, later = f"{_quoted(f'{agent}: ')} line", f"agent{agent + 1}"
        rule = own if agent == last else f"{own} ({_quoted(chr(10))} {later})? | {later}"
        rules.append(f"agent{agent}{means} {rule}")
    return rules


def _pattern(arg: Arg) -> str:
    return _NUMBER if arg.kind == "number" else f"{_WORD}( {_WORD}){{0,3}}"


def _values(arg: Arg, names: Names) -> list[str] | None:
    """What an argument can be, if that is a matter of names."""
    if arg.kind == "number":
        return None
    allowed = arg.choices if arg.kind == "choice" else names.get(arg.name)
    if allowed is None:
        return None
    # Sorted, for a set has no order of its own: the same names always make the same grammar.
    spelt = sorted({canonical(name) for name in allowed})
    if not spelt:
        raise ConfigError(f"names[{arg.name!r}] is empty: leave it out if the argument takes any name")
    for name in spelt:
        if ARGUMENT.fullmatch(name) is None:
            raise ConfigError(
                f"names[{arg.name!r}] has {name!r}, which a plan cannot hold: no ( ) , ; : in names"
            )
    return spelt


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _escaped(text: str) -> str:
    return re.sub(r"([\\^$.|?*+()\[\]{}])", r"\\\1", text)
