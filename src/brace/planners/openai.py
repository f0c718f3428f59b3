"""A model behind any OpenAI-compatible endpoint: OpenAI's own, llama.cpp, vLLM, a robot's edge box."""

from __future__ import annotations

import contextlib
import os
import urllib.parse
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from brace.context import HfTokenizer
from brace.errors import ConfigError, MissingExtraError
from brace.options import check_choices
from brace.planners import plan_grammar
from brace.planners.base import Limits, Planner, Prompt, Usage, Vocabulary
from brace.planners.endpoint import EndpointError, PassingError, Patience, TimeIsUpError, answers, shown
from brace.registry import planners

if TYPE_CHECKING:
    from brace.planners.endpoint.counting import ServerTokenizer

DEFAULT_KEY_ENV = "OPENAI_API_KEY"
RETRY_LEAST_S = 0.1
"""A second try is made only if this much of the call's time is left after the pause before it."""
BUSY_PAUSE_S = 0.1
"""The pause after a 429 or 503 that does not say how long (`Retry-After`)."""
LONGEST_PAUSE_S = 5.0
CLOSING_S = 0.02
"""How long the end of a finished answer is waited for, so that the connection can be used again."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@planners.register("openai")
@dataclass(eq=False)
class OpenAIPlanner(Planner):
    """Streams a plan from `{base_url}/chat/completions` (`chat: false`: `/completions`) and hangs up in time.

    A lost connection, a 429 or a 503 before the first word is tried once more, after `Retry-After` or 0.1 s,
    if 0.1 s of the call's time is left then.
    """

    needs_extra = "endpoint"

    base_url: str
    """Where the endpoint is; it usually ends in `/v1`."""
    model: str
    """The name by which the server knows the model."""
    key_env: str | None = None
    """The environment variable with the key. Unless it is named, OPENAI_API_KEY is used if it is set, and
    never over plain HTTP to another machine."""
    tokenizer: InitVar[str | None] = None
    """What counts tokens: the path of a tokenizer.json or its folder, "server" (llama.cpp's /tokenize), or
    nothing for an estimate."""
    max_tokens: int = 256
    """The longest answer, in tokens."""
    temperature: float | None = 0.0
    """0: always the likeliest token. `null` leaves it to the server."""
    grammar: Literal["none", "gbnf", "json_schema"] = "none"
    """Have the server write nothing but plans: "gbnf" (llama.cpp) or "json_schema"."""
    chat: bool = True
    """Send the prompt as a chat's message. `false`: as the beginning of a text."""
    extra: Mapping[str, Any] | None = field(default=None, repr=False)
    """Added to each request as it is. `max_completion_tokens` there replaces `max_tokens`, which some models
    refuse."""

    def __post_init__(self, tokenizer: str | None) -> None:
        check_choices(self, "planner 'openai'")
        if not self.model:
            raise _wrong("model", self.model, "give the name by which the server knows it")
        self._extra = dict(self.extra or {})
        self._most_tokens = most = self._extra.get("max_completion_tokens", self.max_tokens)
        # What `extra` holds was checked by nobody, and Python takes True for an int.
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise _wrong("max_tokens", most, "must be a whole number, 1 or more")
        if self.temperature is not None and self.temperature < 0:
            raise _wrong("temperature", self.temperature, "must be 0 or more, or null for the server's own")
        if self.grammar == "json_schema" and not self.chat:
            raise _wrong(
                "grammar", self.grammar, "only chats have a response_format; use chat: true, or gbnf"
            )
        self.name = f"openai ({self.model})"
        root = _checked_url(self.base_url)
        self._url = f"{root}/{'chat/completions' if self.chat else 'completions'}"
        self._key = find_key(self.key_env, root)
        self._headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._words: Vocabulary | None = None
        self._several = False
        self._constraint: dict[str, Any] = {}
        try:
            # An extra; the planner's name must be known without it.
            from brace.planners.endpoint import counting, wire  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"planner 'openai' ({error.name} is not installed)", self.needs_extra
            ) from error
        self._wire = wire.Wire(secure=root.startswith("https:"))
        weakref.finalize(self, self._wire.close)
        self._server: ServerTokenizer | None = None
        if tokenizer is None:
            self.tokenizer = counting.EstimateTokenizer()
        elif tokenizer == "server":
            # llama.cpp's own paths stand beside its OpenAI-compatible ones.
            self._server = counting.ServerTokenizer(self._wire, root.removesuffix("/v1"), self._headers)
            self.tokenizer = self._server
        else:
            self.tokenizer = HfTokenizer.from_file(tokenizer)
        self._counts = counting.CountCheck(self.tokenizer)

    @property
    def prompt_overhead(self) -> int:
        """What the server's chat template adds to every prompt, where the server says so beforehand."""
        return self._server.template_tokens() if self._server is not None and self.chat else 0

    def bind(self, vocabulary: Vocabulary) -> None:
        """Learn the skills and names: they make the grammar, and tell where a plan ends."""
        self._words, self._several = vocabulary, vocabulary.skills.agents > 1
        if self.grammar == "gbnf":
            self._constraint = {"grammar": plan_grammar.gbnf(vocabulary.skills, vocabulary.names)}
        elif self.grammar == "json_schema":
            schema = plan_grammar.json_schema(vocabulary.skills, vocabulary.names)
            wanted = {"name": "plan", "strict": True, "schema": schema}
            self._constraint = {"response_format": {"type": "json_schema", "json_schema": wanted}}

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str | Usage]:
        """The plan as it is written. Ends quietly when the time is over; raises if no whole answer came."""
        body = msgspec.json.encode(self._request(prompt))
        spoken = False
        with contextlib.suppress(TimeIsUpError):
            try:
                for piece in self._attempt(prompt, body, limits):
                    spoken = True
                    yield piece
                return
            except PassingError as error:
                left_s = limits.remaining_s() - error.pause_s
                if spoken or error.pause_s > LONGEST_PAUSE_S or left_s < RETRY_LEAST_S:
                    raise
                self._wire.pause(error.pause_s, limits)
            # Outside the handler, so that an error of this try does not carry the first one along.
            yield from self._attempt(prompt, body, limits)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._wire.close()

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        if self.grammar != "none" and self._words is None:
            raise ConfigError("planner 'openai': a grammar needs the world's skills; call bind(world) first")
        body: dict[str, Any] = {
            "model": self.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": self._most_tokens,
        }
        if self.temperature is not None:
            body["temperature"] = self.temperature
        if self.chat:
            body["messages"] = [{"role": "user", "content": prompt.text}]
        else:
            # A plain completion goes on writing after the plan: one line, or a line for each agent.
            body |= {"prompt": prompt.text, "stop": ["\n\n" if self._several else "\n"]}
        if "max_completion_tokens" in self._extra:
            del body["max_tokens"]
        return body | self._constraint | self._extra

    def _attempt(self, prompt: Prompt, body: bytes, limits: Limits) -> Iterator[str | Usage]:
        patience = Patience(limits)
        with self._wire.post(self._url, body, self._headers, patience) as reply:
            if reply.status != 200:
                raise self._refusal(reply.status, reply.headers, _beginning(reply.chunks))
            kind = reply.headers.get("content-type", "something")
            # A charset may follow.
            if not kind.startswith("text/event-stream"):
                said = shown(_beginning(reply.chunks).decode("utf-8", "replace"), self._key)
                raise EndpointError(f"{self._url} does not stream; it sent {kind}: {said!r}")
            unwrap = answers.LinesOfObject(self._several).feed if self.grammar == "json_schema" else str
            answer = answers.StreamedAnswer(self._most_tokens, unwrap, self._key)
            for piece in answer.read(reply.chunks):
                if self._server is not None:
                    self._server.learn(answer.text, answer.pieces)
                yield piece
                if limits.expired():
                    return
            yield self._usage(prompt, answer)
            patience.at_most(CLOSING_S)
            reply.finish()

    def _usage(self, prompt: Prompt, answer: answers.StreamedAnswer) -> Usage:
        read, cached, problem = self._counts.compare(prompt.tokens, answer.usage)
        cut = answer.finish_reason == "length"
        notes = [problem, f"cut by the server at {self._most_tokens} tokens" if cut else ""]
        if self.grammar != "none" and self._words is not None:
            why = answers.outside(answer.text, self._words.skills, self._words.names, cut=cut)
            notes.append(f"outside the grammar, which the server seems to ignore: {why}" if why else "")
        return Usage(tokens_read=read, tokens_cached=cached, note="; ".join(filter(None, notes)))

    def _refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> EndpointError:
        if status in (401, 403):
            # Not the server's own words: some repeat the key, or most of it.
            variable = self.key_env or DEFAULT_KEY_ENV
            if self._key:
                return EndpointError(f"{self._url} answered {status}: the key in {variable} is refused")
            return EndpointError(
                f"{self._url} answered {status}: it wants a key; put it into an environment variable and "
                f"name that one as key_env (for example {variable})"
            )
        said = answers.error_text(body, self._key)
        problem = f"{self._url} answered {status} for model {self.model!r}: {said}"
        if status in (429, 503):
            after = headers.get("retry-after", "").strip()
            # Retry-After may also be a date; that is taken as if nothing was said.
            return PassingError(problem, float(after) if after.isdecimal() else BUSY_PAUSE_S)
        hint = "; is the model's name right, and does base_url end in /v1?" if status == 404 else ""
        return EndpointError(problem + hint)


def _beginning(chunks: Iterator[bytes], most: int = 65_536) -> bytes:
    """As much of a body as could be a message."""
    body = b""
    for chunk in chunks:
        body += chunk
        if len(body) >= most:
            break
    return body


def _checked_url(base_url: str) -> str:
    """The URL without a slash at its end."""
    parts = urllib.parse.urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _wrong("base_url", base_url, "give it as http(s)://host:port/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        # Not shown: it may hold a secret.
        raise ConfigError(
            "planner 'openai': base_url has a user, a password or a query; a key belongs into an environment "
            "variable, which key_env names"
        )
    return parts.geturl().rstrip("/")


def find_key(key_env: str | None, base_url: str) -> str:
    """The key, or nothing. One that nobody named is not sent in the clear to another machine."""
    variable = key_env or DEFAULT_KEY_ENV
    key = os.environ.get(variable, "").strip()
    if key_env is not None and not key:
        raise _wrong("key_env", key_env, "that environment variable is not set; set it, or leave key_env out")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"planner 'openai': the environment variable {variable} holds no valid key: no key has spaces, "
            "line breaks or letters beyond ASCII"
        )
    parts = urllib.parse.urlsplit(base_url)
    is_private = parts.scheme == "https" or parts.hostname in _LOOPBACK
    return key if key_env is not None or is_private else ""


def _wrong(option: str, value: object, remedy: str) -> ConfigError:
    return ConfigError(f"planner 'openai': {option} = {value!r}: {remedy}")
