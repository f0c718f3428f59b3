"""The plan language of a world for servers that decode within a grammar: GBNF (llama.cpp) or a JSON schema.

Plans are spelt as `str(Plan)` spells them. A server may ignore what it does not know, so the answer is
checked, too (`outside`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from brace.plan import Arg, PlanSyntaxError, SkillSet, parse

Names = Mapping[str, tuple[str, ...]]

_PLAIN_CODE = re.compile("u[0-9a-fA-F]{4}(?<!u[dD][89a-fA-F]..)")
MOST_SKILLS = 8
"""In one agent's line: a weak model inside a grammar would otherwise repeat itself up to its last token."""


@dataclass(frozen=True, slots=True)
class _Notation:
    literal: Callable[[str], str]
    between: str
    """What stands between two parts of a sequence."""
    number: str
    word: str
    """A name nothing is known about: words of letters, digits, `_` and `-`."""


_GBNF = _Notation(
    literal=lambda text: msgspec.json.encode(text).decode(),
    between=" ",
    number='"-"? [0-9]{1,6} ("." [0-9]{1,4})?',
    word='[a-z0-9_-]{1,24} (" " [a-z0-9_-]{1,24}){0,4}',
)
_REGEX = _Notation(
    literal=lambda text: re.sub(r"([\\^$.|?*+()\[\]{}])", r"\\\1", text),
    between="",
    number=r"-?[0-9]{1,6}(\.[0-9]{1,4})?",
    word="[a-z0-9_-]{1,24}( [a-z0-9_-]{1,24}){0,4}",
)


def gbnf(skills: SkillSet, names: Names) -> str:
    """A grammar in llama.cpp's notation. Several agents: a line each, in order, none of them needed."""
    rules = [
        f"call ::= {_call(skills, names, _GBNF)}",
        f'line ::= call ("; " call){{0,{MOST_SKILLS - 1}}}',
    ]
    if skills.agents == 1:
        return "\n".join(["root ::= line", *rules]) + "\n"
    last = skills.agents - 1
    rules.append(f'from-{last} ::= "{last}: " line')
    for agent in range(last):
        later = f"from-{agent + 1}"
        rules.append(f'from-{agent} ::= "{agent}: " line ("\\n" {later})? | {later}')
    return "\n".join(["root ::= from-0", *rules]) + "\n"


def json_schema(skills: SkillSet, names: Names) -> dict[str, Any]:
    """A flat object of strings, each an agent's line: `{"plan": …}`, or `{"0": …, "1": …}` for several.

    All are required and none is empty: strict schemas know no optional fields, and an object of nothing but
    empty lines would be no plan.
    """
    call = f"({_call(skills, names, _REGEX)})"
    line = f"{call}(; {call}){{0,{MOST_SKILLS - 1}}}"
    lines = [str(agent) for agent in range(skills.agents)] if skills.agents > 1 else ["plan"]
    return {
        "type": "object",
        "properties": {name: {"type": "string", "pattern": f"^{line}$"} for name in lines},
        "required": lines,
        "additionalProperties": False,
    }


def outside(text: str, skills: SkillSet, names: Names, *, cut: bool = False) -> str:
    """Why the text is no plan of this world; empty if it is one. Of a `cut` text only whole skills count."""
    if cut:
        text = text[: max(text.rfind(";"), text.rfind("\n"), 0)]
        if not text:
            return ""
    try:
        plan = parse(text, skills)
    except PlanSyntaxError as problem:
        return str(problem)
    for _, calls in plan.steps:
        for call in calls:
            for arg, value in zip(skills.get(call.skill).args, call.args, strict=True):
                if arg.kind == "name" and arg.name in names and value not in names[arg.name]:
                    return f"{value!r} is no {arg.name} of this world"
    return ""


def _call(skills: SkillSet, names: Names, as_: _Notation) -> str:
    ways = []
    for skill in skills:
        parts = [as_.literal(f"{skill.name}(")]
        for index, arg in enumerate(skill.args):
            parts += [as_.literal(", ")] if index else []
            parts.append(f"({_argument(arg, names, as_)})")
        ways.append(as_.between.join([*parts, as_.literal(")")]))
    return "|".join(ways) if not as_.between else " | ".join(ways)


def _argument(arg: Arg, names: Names, as_: _Notation) -> str:
    if arg.kind == "number":
        return as_.number
    allowed = arg.choices if arg.kind == "choice" else names.get(arg.name, ())
    return "|".join(map(as_.literal, allowed)) if allowed else as_.word


class LinesOfObject:
    """Turns the text of a `json_schema` answer into plan text while it is still being written.

    What does not begin with `{` is no such object (the server ignored the schema) and passes unchanged.
    """

    _ESCAPES: Mapping[str, str] = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}

    def __init__(self, several: bool) -> None:
        self._several = several
        self._plain: bool | None = None
        self._in_string = self._is_value = self._begun = False
        self._escape = self._key = ""
        self._lines = 0

    def feed(self, text: str) -> str:
        """The plan text that these characters bring."""
        if self._plain is None:
            text = text.lstrip()
            if not text:
                return ""
            self._plain = not text.startswith("{")
        return text if self._plain else "".join(map(self._next, text))

    def _next(self, char: str) -> str:
        if not self._in_string:
            self._in_string = char == '"'
            if char == ":":
                self._is_value, self._begun = True, False
            elif char in "{,":
                self._is_value, self._key = False, ""
            return ""
        if not self._escape and char == '"':
            self._in_string = False
            return ""
        if not self._escape and char != "\\":
            return self._take(char)
        self._escape += char
        if len(self._escape) < (6 if self._escape[1:2] == "u" else 2):
            return ""
        code, self._escape = self._escape[1:], ""
        # No plan needs what lies beyond: a half of a pair of surrogates could not even be written down.
        is_character = _PLAIN_CODE.fullmatch(code) is not None
        return self._take(chr(int(code[1:], 16)) if is_character else self._ESCAPES.get(code[0], code[0]))

    def _take(self, char: str) -> str:
        if not self._is_value:
            self._key += char
            return ""
        if self._begun or not self._several:
            return char
        self._begun = True
        self._lines += 1
        return ("\n" if self._lines > 1 else "") + f"{self._key}: {char}"
