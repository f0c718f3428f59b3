"""A model behind any OpenAI-compatible endpoint: OpenAI's own, llama.cpp, vLLM, a robot's edge box."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from brace.context import HfTokenizer, Tokenizer
from brace.errors import ConfigError, MissingExtraError
from brace.plan import SkillSet
from brace.planners import plan_grammar
from brace.planners.base import Limits, Prompt, Usage
from brace.planners.endpoint import answers
from brace.planners.endpoint.errors import EndpointError, PassingError, Patience, TimeIsUpError, shown
from brace.planners.endpoint.events import StreamedAnswer, error_text, read_events
from brace.planners.endpoint.options import (
    DEFAULT_KEY_ENV,
    GrammarKind,
    check_options,
    checked_url,
    find_key,
)
from brace.registry import planners

RETRY_LEAST_S = 0.1
"""A second try is made only if this much of the call's time is left after the pause before it."""
BUSY_PAUSE_S = 0.1
"""The pause after a 429 or 503 that does not say how long (`Retry-After`)."""
LONGEST_PAUSE_S = 5.0
CLOSING_S = 0.02
"""How long the end of a finished answer is waited for, so that the connection can be used again."""
MOST_BYTES = 4096
"""For each token that is allowed, as received: an event carries a token and some hundred bytes around it."""


@planners.register("openai")
class OpenAIPlanner:
    """Streams a plan from `{base_url}/chat/completions` (`chat: false`: `/completions`) and hangs up in time.

    `base_url` usually ends in `/v1`. `key_env` names the environment variable with the key; unless it is
    named, OPENAI_API_KEY is used if it is set, and never over plain HTTP to another machine. `tokenizer` is
    the path of a tokenizer.json or its folder, "server" (llama.cpp's /tokenize), or nothing for an estimate.
    `grammar` has the server decode plans only: "gbnf" (llama.cpp) or "json_schema". `extra` is added to each
    request as it is; `max_completion_tokens` there replaces `max_tokens`, which some models refuse.
    `temperature: null` leaves it to the server.

    A lost connection, a 429 or a 503 before the first word is tried once more, after `Retry-After` or 0.1 s,
    if 0.1 s of the call's time is left then.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        key_env: str | None = None,
        tokenizer: str | None = None,
        max_tokens: int = 256,
        temperature: float | None = 0.0,
        grammar: GrammarKind = "none",
        chat: bool = True,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        check_options(model, max_tokens, temperature, grammar, chat, extra)
        self.name = f"openai ({model})"
        self._model, self._temperature, self._grammar, self._chat = model, temperature, grammar, chat
        self._extra = dict(extra or {})
        self._most_tokens: int = self._extra.get("max_completion_tokens", max_tokens)
        base_url = checked_url(base_url)
        self._url = f"{base_url}/{'chat/completions' if chat else 'completions'}"
        self._key_env, self._key = key_env or DEFAULT_KEY_ENV, find_key(key_env, base_url)
        self._headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._skills: SkillSet | None = None
        self._names: plan_grammar.Names = {}
        self._constraint: dict[str, Any] = {}
        try:
            # An extra; the planner's name must be known without it.
            from brace.planners.endpoint import counting, wire  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"planner 'openai' ({error.name} is not installed)", "endpoint"
            ) from error
        self._wire = wire.Wire(secure=base_url.startswith("https:"))
        weakref.finalize(self, self._wire.close)
        self.tokenizer: Tokenizer
        self._learn: Callable[[str, int], None] | None = None
        self._template_url: str | None = None
        if tokenizer is None:
            self.tokenizer = counting.EstimateTokenizer()
        elif tokenizer == "server":
            # llama.cpp's own paths stand beside its OpenAI-compatible ones.
            url = f"{base_url.removesuffix('/v1')}/tokenize"
            self.tokenizer = server = counting.ServerTokenizer(self._wire, url, self._headers)
            self._learn = server.learn
            if chat:
                self._template_url = url.removesuffix("tokenize") + "apply-template"
        else:
            self.tokenizer = HfTokenizer.from_file(tokenizer)
        self._counts = counting.CountCheck(self.tokenizer)

    @property
    def prompt_overhead(self) -> int:
        """What the server's chat template adds to every prompt, where the server says so beforehand."""
        if self._template_url is None:
            return 0
        server: Any = self.tokenizer
        overhead: int = server.around(self._template_url)
        return overhead

    def bind(self, world: Any) -> None:
        """Learn the world's skills and names: they make the grammar, and tell where a plan ends."""
        self._skills, self._names = world.skills, getattr(world, "names", {})
        if self._grammar == "gbnf":
            self._constraint = {"grammar": plan_grammar.gbnf(world.skills, self._names)}
        elif self._grammar == "json_schema":
            schema = plan_grammar.json_schema(world.skills, self._names)
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
            yield from self._attempt(prompt, body, limits)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._wire.close()

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        if self._grammar != "none" and self._skills is None:
            raise ConfigError("planner 'openai': a grammar needs the world's skills; call bind(world) first")
        body: dict[str, Any] = {
            "model": self._model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": self._most_tokens,
        }
        if self._temperature is not None:
            body["temperature"] = self._temperature
        if self._chat:
            body["messages"] = [{"role": "user", "content": prompt.text}]
        else:
            # A plain completion goes on writing after the plan: one line, or a line for each agent.
            several = self._skills is not None and self._skills.agents > 1
            body |= {"prompt": prompt.text, "stop": ["\n\n" if several else "\n"]}
        if "max_completion_tokens" in self._extra:
            del body["max_tokens"]
        return body | self._constraint | self._extra

    def _attempt(self, prompt: Prompt, body: bytes, limits: Limits) -> Iterator[str | Usage]:
        patience = Patience(limits)
        with self._wire.post(self._url, body, self._headers, patience) as reply:
            if reply.status != 200:
                raise self._refusal(reply.status, reply.headers, _beginning(reply.chunks))
            kind = reply.headers.get("content-type", "something")
            if not kind.startswith("text/event-stream"):
                said = shown(_beginning(reply.chunks).decode("utf-8", "replace"), self._key)
                raise EndpointError(f"{self._url} does not stream; it sent {kind}: {said!r}")
            answer = StreamedAnswer(self._most_tokens, self._unwrapper())
            for chunk in read_events(reply.chunks, self._most_tokens * MOST_BYTES, self._key):
                if piece := answer.take(chunk):
                    if self._learn is not None:
                        self._learn(answer.text, answer.pieces)
                    yield piece
                    if limits.expired():
                        return
            answer.check_end()
            yield self._usage(prompt, answer)
            patience.at_most(CLOSING_S)
            reply.finish()

    def _unwrapper(self) -> Callable[[str], str]:
        if self._grammar == "json_schema" and self._skills is not None:
            return answers.LinesOfObject(several=self._skills.agents > 1).feed
        return str

    def _usage(self, prompt: Prompt, answer: StreamedAnswer) -> Usage:
        read, cached, problem = self._counts.compare(prompt.tokens, answer.usage)
        cut = answer.finish_reason == "length"
        notes = [problem, f"cut by the server at {self._most_tokens} tokens" if cut else ""]
        if self._grammar != "none" and self._skills is not None:
            why = answers.outside(answer.text, self._skills, self._names, cut=cut)
            notes.append(f"outside the grammar, which the server seems to ignore: {why}" if why else "")
        return Usage(tokens_read=read, tokens_cached=cached, note="; ".join(filter(None, notes)))

    def _refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> EndpointError:
        if status in (401, 403):
            # Not the server's own words: some repeat the key, or most of it.
            if self._key:
                return EndpointError(f"{self._url} answered {status}: the key in {self._key_env} is refused")
            return EndpointError(
                f"{self._url} answered {status}: it wants a key; put it into an environment variable and "
                f"name that one as key_env (for example {self._key_env})"
            )
        said = error_text(body, self._key)
        problem = f"{self._url} answered {status} for model {self._model!r}: {said}"
        if status in (429, 503):
            after = headers.get("retry-after", "").strip()
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
