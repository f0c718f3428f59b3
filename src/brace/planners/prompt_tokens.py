"""A prompt in a model's tokens: what may never be pruned, and which line each token belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from brace.errors import ConfigError
from brace.planners.base import Prompt

_PLACE = "HERE-GOES-THE-PROMPT"


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """A prompt's tokens; the three lists are of one length."""

    ids: list[int]
    floor: list[bool]
    """It may never go."""
    segments: list[int]
    """The context line it belongs to; -1 for what stands around the lines."""


class PromptEncoder:
    """Turns prompts into tokens. What it puts around a text is encoded apart, so that counts add up."""

    def __init__(self, tokenizer: Any, chat: bool) -> None:
        """`chat` applies the tokenizer's chat template, if it has one."""
        self._tokenizer = tokenizer
        if chat and tokenizer.chat_template:
            before, after = _chat_frame(tokenizer)
            self._before, self._after = self._ids(before), self._ids(after)
        else:
            # What the tokenizer begins every text with. Ending the text is left to the model.
            self._before, self._after = list(tokenizer("").input_ids), []
            if self._before and self._before[-1] == tokenizer.eos_token_id != tokenizer.bos_token_id:
                self._before.pop()

    @property
    def overhead(self) -> int:
        """How many tokens it puts around every text."""
        return len(self._before) + len(self._after)

    def encode(self, prompt: Prompt) -> PromptTokens:
        """The prompt's tokens. Everything but the lines that are no floors is protected."""
        # `verbose=False`: no warning that a text is long; whether it is too long is checked when it is read.
        encoded = self._tokenizer(
            prompt.text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        floor, segments = _marks(prompt, encoded.offset_mapping)
        before, after = len(self._before), len(self._after)
        return PromptTokens(
            [*self._before, *encoded.input_ids, *self._after],
            [True] * before + floor + [True] * after,
            [-1] * before + segments + [-1] * after,
        )

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False).input_ids
        return ids


def _marks(prompt: Prompt, offsets: list[tuple[int, int]]) -> tuple[list[bool], list[int]]:
    """Floors and line numbers of the text's tokens. Without known lines there are neither."""
    if not prompt.lines or not offsets:
        return [False] * len(offsets), [-1] * len(offsets)
    fixed = np.ones(len(prompt.text), dtype=bool)
    line = np.full(len(prompt.text), -1)
    for number, span in enumerate(prompt.lines):
        fixed[span.start : span.end] = span.floor
        line[span.start : span.end] = number
    spans = np.array(offsets)
    first = np.minimum(spans[:, 0], len(prompt.text) - 1)
    last = np.clip(spans[:, 1] - 1, first, len(prompt.text) - 1)
    # A token across a line's end belongs to the line that may not be cut, or else to the first.
    owner = np.where(fixed[last] & ~fixed[first], last, first)
    floors: list[bool] = fixed[owner].tolist()
    lines: list[int] = line[owner].tolist()
    return floors, lines


def _chat_frame(tokenizer: Any) -> tuple[str, str]:
    """What the chat template puts before and after a user's message, up to where the answer begins."""
    asked = [{"role": "user", "content": _PLACE}]
    rendered = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    before, place, after = rendered.partition(_PLACE)
    if not place or _PLACE in after:
        raise ConfigError(
            "the tokenizer's chat template does not give a user's message back once: use chat: false"
        )
    return before, after
