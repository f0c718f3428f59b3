"""What servers answer that were given a grammar or a schema: they may ignore what they do not know."""

from __future__ import annotations

import re
from collections.abc import Mapping

from brace.plan import PlanSyntaxError, SkillSet, parse
from brace.planners.plan_grammar import Names

_PLAIN_CODE = re.compile("u[0-9a-fA-F]{4}(?<!u[dD][89a-fA-F]..)")


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
