"""Tokens of a model that runs elsewhere: asked of its server or estimated, and compared with its count."""

from __future__ import annotations

import functools
import math
import time
from typing import Any

import msgspec

from brace.context import Tokenizer, WordTokenizer
from brace.context.tokens import Span
from brace.errors import ConfigError
from brace.planners.endpoint import EndpointError, PassingError, Patience, TimeIsUpError, shown
from brace.planners.endpoint.wire import Wire

MARGIN = 1.3
"""The estimate's safety: what a real vocabulary needs more than the built-in words."""
FIRST_ANSWER_S = 2.0
TEMPLATE_ANSWER_S = 10.0
"""What is asked before the first episode may take its time: no robot waits for it."""
ANSWER_S = 0.25
"""Counts are taken outside any deadline, so the control loop waits for them: not longer than this."""
REST_S = 2.0
"""A server that did not answer a count is left alone for so long."""
REMEMBERED = 2048
_PLACE = "HERE-GOES-THE-PROMPT"
MOST_TEMPLATE = 128
"""More tokens than this are not put down to a chat template."""
TOLERANCE = 2
"""Tokens may melt together where the template touches the prompt."""


class EstimateTokenizer(WordTokenizer):
    """The built-in words times a margin, for servers that do not say how they count.

    Its spans are the words: where to cut. There are fewer of them than `count` says tokens.
    """

    name = f"estimate (words × {MARGIN})"

    def count(self, text: str) -> int:
        """Rounded up."""
        return math.ceil(MARGIN * super().count(text))


class ServerTokenizer:
    """The server's own tokens, through llama.cpp's `POST /tokenize`. Answers are remembered.

    The first count must succeed, so that a wrong address shows before the first episode. A server that fails
    later must not stop a robot: those counts are estimates, and `take_note` says so once.
    """

    name = "server (/tokenize)"

    def __init__(self, wire: Wire, root: str, headers: dict[str, str]) -> None:
        """`root` is where llama.cpp's own paths begin."""
        self._wire, self._root, self._headers = wire, root, headers
        self._estimate = EstimateTokenizer()
        self._answered = False
        self._rest_until = -math.inf
        self._estimated = 0
        self._written: dict[str, int] = {}
        # What raises is not remembered, so that a count which was owed once is asked again.
        self._count = functools.lru_cache(REMEMBERED)(lambda text: len(self._ask(text, with_pieces=False)))
        self._spans = functools.lru_cache(REMEMBERED)(self._ask_spans)

    def learn(self, text: str, count: int) -> None:
        """Note what the server has just written, so that its length need not be asked when time is up."""
        self._written[text] = count
        while len(self._written) > REMEMBERED:
            # The oldest, for a dict keeps its order. Another thread may have been faster.
            self._written.pop(next(iter(self._written)), None)

    def count(self, text: str) -> int:
        """The number of tokens, special tokens not counted."""
        if (written := self._written.get(text)) is not None:
            return written
        try:
            return self._count(text)
        except _NoAnswerError:
            return self._estimate.count(text)

    def spans(self, text: str) -> list[Span]:
        """Where they lie; tokens that share a character all report it whole."""
        try:
            return self._spans(text)
        except _NoAnswerError:
            return self._estimate.spans(text)

    def template_tokens(self) -> int:
        """Tokens that the server's chat template puts around a prompt, through llama.cpp's `/apply-template`;
        0 where it does not know that path: then the first answer's usage tells, and it is noted."""
        url = f"{self._root}/apply-template"
        body = {"messages": [{"role": "user", "content": _PLACE}]}
        try:
            status, answer = self._post(url, body, Patience(at_most_s=TEMPLATE_ANSWER_S))
        except (EndpointError, TimeIsUpError) as error:
            reason = str(error) or f"no answer in {TEMPLATE_ANSWER_S:g} s"
            raise ConfigError(
                f"planner 'openai': what the server's chat template adds cannot be asked at {url} "
                f"({reason}): is it busy or gone? Try again, or set chat = false if it has no template"
            ) from error
        try:
            rendered = msgspec.json.decode(answer)["prompt"] if status == 200 else ""
            before, place, after = rendered.partition(_PLACE)
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
            return 0
        return self.count(before) + self.count(after) if place else 0

    def take_note(self) -> str:
        """What the ledger should know about the counts since the last time."""
        count, self._estimated = self._estimated, 0
        return f"{count} token counts are estimates: the server's /tokenize did not answer" if count else ""

    def _ask_spans(self, text: str) -> list[Span]:
        pieces = [token["piece"] for token in self._ask(text, with_pieces=True)]
        spans = spans_of_pieces(pieces, text)
        # A tokenizer that rewrites the text: the words are as good a place to cut.
        return self._estimate.spans(text) if spans is None else spans

    def _ask(self, text: str, *, with_pieces: bool) -> list[Any]:
        if time.perf_counter() < self._rest_until:
            self._estimated += 1
            raise _NoAnswerError
        url = f"{self._root}/tokenize"
        body = {"content": text, "add_special": False, "with_pieces": with_pieces}
        patience = Patience(at_most_s=ANSWER_S if self._answered else FIRST_ANSWER_S)
        try:
            status, answer = self._post(url, body, patience)
            if status != 200:
                raise EndpointError(f"it answered {status}")
            tokens: list[Any] = msgspec.json.decode(answer)["tokens"]
        except (EndpointError, TimeIsUpError, msgspec.DecodeError, KeyError, TypeError) as error:
            if not self._answered:
                reason = str(error) or f"no answer in {FIRST_ANSWER_S:g} s"
                raise ConfigError(
                    f"planner 'openai': tokenizer = 'server', but tokens cannot be counted at {url} "
                    f"({reason}); only llama.cpp's server has it: else give a tokenizer.json, or leave it out"
                ) from error
            self._rest_until = time.perf_counter() + REST_S
            self._estimated += 1
            raise _NoAnswerError from error
        self._answered = True
        return tokens

    def _post(
        self, url: str, body: dict[str, Any], patience: Patience, *, again: bool = True
    ) -> tuple[int, bytes]:
        """The status and the whole answer. A server may close a kept connection just as it is used: once
        more, then, on a new one."""
        try:
            with self._wire.post(url, msgspec.json.encode(body), self._headers, patience) as reply:
                return reply.status, b"".join(reply.chunks)
        except PassingError:
            if not again:
                raise
        return self._post(url, body, patience, again=False)


class _NoAnswerError(Exception):
    """The server owes a count."""


def spans_of_pieces(pieces: list[Any], text: str) -> list[Span] | None:
    """Character ranges of llama.cpp's pieces: strings, or lists of bytes where a character is split.

    None where they do not add up to the text. A space that the tokenizer puts before it is left out.
    """
    raw, ends = bytearray(), []
    for piece in pieces:
        raw += piece.encode() if isinstance(piece, str) else bytes(piece)
        ends.append(len(raw))
    added = len(raw) - len(text.encode())
    if bytes(raw) != b" " * added + text.encode():
        return None
    character = [0] * added
    for index, char in enumerate(text):
        character += [index] * len(char.encode())
    # A token ends after the character that its last byte belongs to.
    spans, start = [], 0
    for end in ends:
        first = character[start] if start < len(character) else len(text)
        spans.append((first, character[end - 1] + 1 if end > max(start, added) else first))
        start = end
    return spans


class CountCheck:
    """Compares the server's count of each prompt with ours; what a template adds is learnt at the first."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._template: int | None = None

    def compare(self, ours: int, usage: dict[str, Any] | None) -> tuple[int | None, int, str]:
        """What the server read, what it had in its cache, and what to write down about that."""
        estimated = self._tokenizer.take_note() if isinstance(self._tokenizer, ServerTokenizer) else ""
        if usage is None:
            return None, 0, estimated or "the server gave no usage"
        details = usage.get("prompt_tokens_details")
        theirs = usage.get("prompt_tokens")
        cached = (details.get("cached_tokens") if isinstance(details, dict) else None) or 0
        if not isinstance(theirs, int) or not isinstance(cached, int) or not 0 <= cached <= theirs > 0:
            return None, 0, f"the server's usage makes no sense: {shown(str(usage))}"
        # A prompt that was estimated says nothing about the server's count.
        return theirs - cached, cached, estimated or self._note(ours, theirs)

    def _note(self, ours: int, theirs: int) -> str:
        said = f"the server counted {theirs} prompt tokens, we {ours}"
        if isinstance(self._tokenizer, EstimateTokenizer):
            if theirs > ours:
                return f"{said} (an estimate, too low: the budget was exceeded; give the model's tokenizer)"
            return f"{said} (an estimate, far too high)" if theirs < ours / 2 else ""
        if self._template is None:
            if not -TOLERANCE <= theirs - ours <= MOST_TEMPLATE:
                return f"{said}: no chat template explains that; is the tokenizer the model's own?"
            self._template = theirs - ours
            return f"the server adds {self._template} tokens to each prompt" if self._template else ""
        unexplained = theirs - ours - self._template
        return f"{said} plus {self._template} of its template" if abs(unexplained) > TOLERANCE else ""
