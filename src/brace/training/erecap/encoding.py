"""Examples as padded batches of tokens: what is prompt, what is answer, which line a token is of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from brace.planners.base import LineSpan, Prompt
from brace.planners.prompt_tokens import PromptEncoder
from brace.training.erecap.examples import Example


@dataclass(frozen=True, slots=True)
class Item:
    """One example in tokens: the prompt's come first, then the answer's."""

    ids: list[int]
    prompt: int
    """Tokens of the prompt."""
    segments: list[int]
    """Of each prompt token, its line; -1 for what stands around them."""
    floor: list[bool]
    """Of each prompt token: it is never pruned."""


class ItemEncoder:
    """Examples as one model reads them."""

    def __init__(self, tokenizer: Any, *, chat: bool = True) -> None:
        """`chat` puts the tokenizer's chat template, if it has one, around the prompt."""
        self._tokenizer = tokenizer
        self._prompts = PromptEncoder(tokenizer, chat)

    def encode(self, example: Example, most: int) -> Item | None:
        """The item; None if it is longer than `most` tokens or there is nothing to read or write."""
        text = "".join(example.lines)
        ended = "" if self._tokenizer.eos_token is None else self._tokenizer.eos_token
        answer = self._tokenizer(example.answer + ended, add_special_tokens=False).input_ids
        spans, at = [], 0
        for number, line in enumerate(example.lines):
            spans.append(LineSpan(at, at + len(line), number in example.protected))
            at += len(line)
        prompt = self._prompts.encode(Prompt(text, 0, lines=tuple(spans)))
        if not text or not answer or len(prompt.ids) + len(answer) > most:
            return None
        return Item([*prompt.ids, *answer], len(prompt.ids), prompt.segments, prompt.floor)


@dataclass(frozen=True)
class Batch:
    """Items side by side, padded on the right. All are [rows, tokens]; all but the numbers are masks."""

    ids: Tensor
    valid: Tensor
    prompt: Tensor
    answer: Tensor
    """True for the answer's tokens: each is predicted from the one before it."""
    floor: Tensor
    segments: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same, elsewhere."""
        parts = (self.ids, self.valid, self.prompt, self.answer, self.floor, self.segments)
        return Batch(*(part.to(device) for part in parts))


def collate(items: Sequence[Item]) -> Batch:
    """One batch of all these."""
    # Padded on the right, where with causal attention nothing real looks at it.
    longest = max(len(item.ids) for item in items)
    ids = torch.zeros(len(items), longest, dtype=torch.long)
    segments = torch.full_like(ids, -1)
    lengths = torch.tensor([[len(item.ids)] for item in items])
    prompts = torch.tensor([[item.prompt] for item in items])
    floor = torch.zeros_like(ids, dtype=torch.bool)
    for row, item in enumerate(items):
        ids[row, : len(item.ids)] = torch.tensor(item.ids)
        segments[row, : item.prompt] = torch.tensor(item.segments)
        floor[row, : item.prompt] = torch.tensor(item.floor)
    place = torch.arange(longest)[None]
    valid, prompt = place < lengths, place < prompts
    return Batch(ids, valid, prompt, valid & ~prompt, floor, segments)


def batches_of(items: Sequence[Item], tokens: int) -> list[list[int]]:
    """The items' numbers, grouped so that a batch has items of like length and at most about `tokens`."""
    order = sorted(range(len(items)), key=lambda number: len(items[number].ids))
    groups: list[list[int]] = []
    for number in order:
        size = len(items[number].ids)
        if not groups or (len(groups[-1]) + 1) * size > tokens:
            groups.append([])
        groups[-1].append(number)
    return groups
