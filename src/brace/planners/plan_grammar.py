"""The language of plans as a grammar, for decoders that are to write plans and nothing else.

It is the canonical spelling of `brace.plan`, as `str(Plan)` writes it, so that every text of the language
parses and no two of them differ in spaces only. Numbers, free names and lines have a bounded length, so that
a text comes to its end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from brace.errors import ConfigError
from brace.plan import Arg, Skill, SkillSet
from brace.plan.skills import ARGUMENT, canonical

MOST_SKILLS = 8
"""On one line: longer plans are outdated before they are done."""
_NUMBER = r"/-?(0|[1-9][0-9]{0,5})(\.[0-9]{1,4})?/"
# Characters that `canonical` never changes.
_FREE_NAME = r"/[a-z0-9_.'\-]{1,24}( [a-z0-9_.'\-]{1,24}){0,3}/"


def plan_grammar(skills: SkillSet, names: Mapping[str, Sequence[str]]) -> str:
    """All plans of these skills in Lark's notation.

    `names` has the names that arguments of kind `name` can take; an argument it does not mention takes any.
    One agent's plan is a line without its number; those of several are lines in the order of the agents, or
    the bare line of agent 0.
    """
    terminals: dict[str, str] = {}

    def call(skill: Skill) -> str:
        args = [terminals.setdefault(_values(arg, names), f"ARG{len(terminals)}") for arg in skill.args]
        between = f" {_quoted(', ')} "
        return f"{_quoted(skill.name + '(')} {between.join(args)} {_quoted(')')}"

    calls = " | ".join(call(skill) for skill in skills)
    rules = [
        "start: line" if skills.agents == 1 else "start: line | agent0",
        f"line: call ({_quoted('; ')} call){{0,{MOST_SKILLS - 1}}}",
        f"call: {calls}",
        *(_agent_rule(agent, skills.agents) for agent in range(skills.agents) if skills.agents > 1),
        *(f"{name}: {values}" for values, name in terminals.items()),
    ]
    return "\n".join(rules) + "\n"


def _agent_rule(agent: int, agents: int) -> str:
    """The lines of this agent and those after it, or of those after it only."""
    own = f"agent{agent}: {_quoted(f'{agent}: ')} line"
    if agent == agents - 1:
        return own
    later = f"agent{agent + 1}"
    return f"{own} ({_quoted(chr(10))} {later})? | {later}"


def _values(arg: Arg, names: Mapping[str, Sequence[str]]) -> str:
    """What an argument can be, as the right side of a terminal."""
    if arg.kind == "number":
        return _NUMBER
    allowed = arg.choices if arg.kind == "choice" else names.get(arg.name)
    if allowed is None:
        return _FREE_NAME
    spelt = sorted({canonical(name) for name in allowed})
    if not spelt:
        raise ConfigError(f"names[{arg.name!r}] is empty: leave it out if the argument takes any name")
    for name in spelt:
        if ARGUMENT.fullmatch(name) is None:
            raise ConfigError(
                f"names[{arg.name!r}] has {name!r}, which a plan cannot hold: no ( ) , ; : in names"
            )
    return " | ".join(_quoted(name) for name in spelt)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
