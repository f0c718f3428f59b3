"""What servers answer: the stream of events, the plan text in them, and whether it is what was asked for.

The stream is lines `data: {json}`, the last one `data: [DONE]`. A server that was given a grammar or a schema
may ignore it: many ignore what they do not know.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from brace.plan import PlanSyntaxError, SkillSet, parse
from brace.planners.endpoint import EndpointError, shown
from brace.planners.plan_grammar import Names

END = b"[DONE]"
MOST_BYTES = 4096
"""For each token that was allowed, as received: an event carries a token and some hundred bytes around it."""
MOST_CHARACTERS = 16
"""For each token, of text: a server that writes more does not keep to what was allowed."""


class Delta(msgspec.Struct):
    """A piece of a chat's answer."""

    content: str | None = None
    reasoning_content: str | None = None


class Choice(msgspec.Struct):
    """A piece of one answer: `delta` in a chat, `text` in a plain completion."""

    delta: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class Event(msgspec.Struct):
    """One event. The one with the usage has no choices on most servers."""

    # msgspec makes a new list for each event.
    choices: list[Choice] = []
    usage: dict[str, Any] | None = None
    error: Any = None


_decode = msgspec.json.Decoder(Event).decode
# A character's code that is no half of a surrogate pair.
_PLAIN_CODE = re.compile("u[0-9a-fA-F]{4}(?<!u[dD][89a-fA-F]..)")


class StreamedAnswer:
    """An answer as it comes: its text, how it ended, what it cost. No error repeats the `secret`."""

    def __init__(self, most_tokens: int, unwrap: Callable[[str], str], secret: str = "") -> None:
        self.text = ""
        self.pieces = 0
        """In how many events the text came: servers send one for each token."""
        self.finish_reason: str | None = None
        self.usage: dict[str, Any] | None = None
        self._most_tokens, self._unwrap, self._secret = most_tokens, unwrap, secret

    def read(self, chunks: Iterator[bytes]) -> Iterator[str]:
        """The plan's text piece by piece, up to the end mark or to the end of the stream.

        Raises in the end unless this was an answer, and a whole one as far as the server says. One that is
        longer than any honest answer is an error too.
        """
        written = reasoned = 0
        for data in _events(chunks, self._most_tokens * MOST_BYTES):
            event = self._decoded(data)
            self.usage = event.usage or self.usage
            raw = ""
            # Only one answer was asked for.
            for choice in event.choices[:1]:
                delta = choice.delta or Delta()
                raw = delta.content or choice.text or ""
                reasoned += len(delta.reasoning_content or "")
                self.finish_reason = choice.finish_reason or self.finish_reason
            written += len(raw)
            # Reasoning counts as well: a model can think without end.
            if written + reasoned > (most := self._most_tokens * MOST_CHARACTERS):
                raise EndpointError(
                    f"endless output: more than {most} characters; the server ignores max_tokens"
                )
            if piece := self._unwrap(raw):
                self.text += piece
                self.pieces += 1
                yield piece
        if self.finish_reason is None:
            raise EndpointError("the stream ended before the answer did")
        if not self.text.strip():
            only = f", only {reasoned} characters of reasoning" if reasoned else ""
            raise EndpointError(f"the model wrote no plan{only} (finish_reason {self.finish_reason!r})")

    def _decoded(self, data: bytes) -> Event:
        try:
            event = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            said = shown(data.decode("utf-8", "replace"), self._secret, most=80)
            raise EndpointError(f"cannot read the stream ({shown(str(error))}): {said!r}") from error
        if event.error is not None:
            raise EndpointError(f"the server broke off: {_error_text(event.error, self._secret)}")
        return event


def _events(chunks: Iterator[bytes], most_bytes: int) -> Iterator[bytes]:
    """What stands in the `data` lines: each is taken as one event, as all servers write them."""
    received, rest = 0, b""
    # The last line may lack its end.
    for chunk in itertools.chain(chunks, (b"\n",)):
        received += len(chunk)
        if received > most_bytes:
            raise EndpointError(f"endless output: more than {most_bytes} bytes for one answer")
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
            if data == END:
                return
            if data:
                yield data


def error_text(body: bytes, secret: str = "") -> str:
    """What a server says in an error's body, JSON or not, except the `secret`."""
    try:
        said = msgspec.json.decode(body)
    except msgspec.DecodeError:
        said = body.decode("utf-8", "replace")
    return _error_text(said.get("error", said) if isinstance(said, dict) else said, secret)


def _error_text(said: Any, secret: str) -> str:
    if isinstance(said, dict):
        said = said.get("message") or said.get("detail") or said
    return shown(str(said), secret)


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
