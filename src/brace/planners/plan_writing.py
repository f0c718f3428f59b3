"""Writing a plan token by token, and faster than that: what is likely to come is read along and checked.

A plan resembles the one before it and repeats names and numbers of its prompt. So the tokens that followed
the last few ones the latest time they were seen are taken as a draft, read together with the token that is
sure, and kept as far as the model would have written them itself. The text is the same; a small model on a
CPU needs hardly longer for eight tokens at once than for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tokenizers.decoders import DecodeStream
from torch import Tensor

from brace.erecap import Context, Engine
from brace.planners.base import Limits

if TYPE_CHECKING:
    from brace.planners.constrained import PlanMask

DRAFT = 7
"""Tokens read along at most: with the sure one, eight rows."""
_LONGEST_CLUE = 4


class PlanWriter:
    """Writes greedily from a context, within a grammar if given one. Remembers the last text as a draft."""

    def __init__(
        self, engine: Engine, tokenizer: Any, end_tokens: Sequence[int], max_new_tokens: int
    ) -> None:
        self._engine, self._tokenizer = engine, tokenizer
        self._end_tokens, self._most = end_tokens, max_new_tokens
        self._last: list[int] = []

    def write(
        self, context: Context, mask: PlanMask | None, limits: Limits, prompt: list[int]
    ) -> Iterator[str]:
        """The text, piece by piece. Bytes of an unfinished character wait for the rest of it."""
        backbone = self._engine.backbone
        text = DecodeStream(skip_special_tokens=True)
        seen = np.array([*prompt, *self._last])
        first = self._last[:DRAFT]
        written: list[int] = []
        sure = self._next(context.logits, mask, written)
        while sure and len(written) < self._most and not limits.expired():
            yield from self._pieces(text, sure)
            written += sure
            start = int(context.next_position[0])
            room = min(self._most - len(written), backbone.max_positions - start - len(sure))
            if room <= 0:
                break
            # As long as the plan is the last one again, that one is the best draft.
            drafted = first[len(written) :] if written == first[: len(written)] else []
            drafted = (drafted or draft(seen, prompt, written))[:room]
            read = torch.tensor([sure + drafted], device=backbone.device)
            rows = self._engine.extend(context, read, every=True)[0]
            agreed, place = 0, len(sure) - 1
            sure = self._next(rows[None, place], mask, written)
            while sure and sure == drafted[agreed : agreed + len(sure)]:
                yield from self._pieces(text, sure)
                written += sure
                agreed += len(sure)
                sure = self._next(rows[None, place + agreed], mask, written)
            # The rest of the draft is not what the model would have written, so it leaves the caches.
            context.crop(start + place + 1 + agreed)
        if written:
            self._last = written

    def _next(self, logits: Tensor, mask: PlanMask | None, written: list[int]) -> list[int]:
        """The likeliest token, and those that the grammar forces after it; none at the end."""
        if mask is not None:
            logits = mask(torch.tensor([written], dtype=torch.long), logits)
        likeliest = int(logits.argmax(-1))
        if likeliest in self._end_tokens:
            return []
        return [likeliest] if mask is None else [likeliest, *mask.forced_after(likeliest)]

    def _pieces(self, text: DecodeStream, tokens: list[int]) -> Iterator[str]:
        for token in tokens:
            piece = text.step(self._tokenizer.backend_tokenizer, token)
            if piece:
                yield piece


def draft(seen: np.ndarray[Any, Any], prompt: list[int], written: list[int]) -> list[int]:
    """What followed the last tokens the latest time they were seen: here, in the last text, in the prompt."""
    before = np.concatenate([seen, written]).astype(np.int64)
    ends = [*prompt[-_LONGEST_CLUE:], *written][-_LONGEST_CLUE:]
    matching = np.arange(1, len(before))
    best = matching[:0]
    for back, token in enumerate(reversed(ends), start=1):
        matching = matching[matching >= back]
        matching = matching[before[matching - back] == token]
        if not len(matching):
            break
        best = matching
    return [] if not len(best) else before[best[-1] : best[-1] + DRAFT].tolist()
