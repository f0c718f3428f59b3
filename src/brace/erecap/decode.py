"""Writing on from a (pruned) context: greedy or sampled, stoppable between any two tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from brace.erecap.context import Context
from brace.erecap.engine import Engine
from brace.errors import ConfigError

LogitsHook = Callable[[Tensor, Tensor], Tensor]
"""(tokens written so far [batch, written], logits [batch, vocabulary]) → logits: for constrained decoding."""
OnToken = Callable[[Tensor], None]
"""Told each step's tokens, [batch]."""
StopReason = Literal["length", "end", "text", "deadline"]


class Limits(Protocol):
    """How long to go on."""

    def expired(self) -> bool:
        """True once nobody waits any more."""
        ...


class TextDecoder(Protocol):
    """A tokenizer, as far as stop strings need one."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these tokens."""
        ...


@dataclass(frozen=True)
class Writing:
    """How to write."""

    max_new_tokens: int = 64
    temperature: float = 0.0
    """0 is greedy."""
    top_p: float = 1.0
    seed: int = 0
    end_tokens: tuple[int, ...] = ()
    stop_texts: tuple[str, ...] = ()
    """Stop once one of these has been written; needs a tokenizer."""

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1 or not self.temperature >= 0 or not 0 < self.top_p <= 1:
            raise ConfigError("writing: max_new_tokens ≥ 1, temperature ≥ 0 and 0 < top_p ≤ 1 are needed")


@dataclass
class Written:
    """What was written, row by row; a row ends with its end token or stop text."""

    tokens: list[list[int]] = field(default_factory=list)
    reasons: list[StopReason] = field(default_factory=list)


def write(
    engine: Engine,
    context: Context,
    how: Writing | None = None,
    *,
    tokenizer: TextDecoder | None = None,
    limits: Limits | None = None,
    on_token: OnToken | None = None,
    logits_hook: LogitsHook | None = None,
) -> Written:
    """Write on. Afterwards `context` holds all tokens but the last one written, ready to be extended."""
    how = how or Writing()
    if how.stop_texts and tokenizer is None:
        raise ConfigError("stop texts need a tokenizer to be seen")
    rows = context.logits.shape[0]
    done = Written([[] for _ in range(rows)], ["length"] * rows)
    live = [True] * rows
    draw = torch.Generator(device=context.logits.device).manual_seed(how.seed)
    history = context.logits.new_zeros((rows, 0), dtype=torch.long)
    logits = context.logits
    if _expired(limits, live, done):
        return done
    for step in range(how.max_new_tokens):
        chosen = _pick(logits if logits_hook is None else logits_hook(history, logits), how, draw)
        history = torch.cat([history, chosen[:, None]], 1)
        _note(chosen, how, tokenizer, live, done)
        if on_token is not None:
            on_token(chosen)
        full = int(context.next_position.max()) >= engine.backbone.max_positions
        # The last token is not read: nobody asks for what comes after it.
        if not any(live) or full or step == how.max_new_tokens - 1:
            break
        if _expired(limits, live, done):
            break
        logits = engine.extend(context, chosen[:, None])
    return done


def _expired(limits: Limits | None, live: list[bool], done: Written) -> bool:
    if limits is None or not limits.expired():
        return False
    done.reasons = ["deadline" if on else reason for on, reason in zip(live, done.reasons, strict=True)]
    return True


def _note(
    chosen: Tensor, how: Writing, tokenizer: TextDecoder | None, live: list[bool], done: Written
) -> None:
    for row, token in enumerate(chosen.tolist()):
        # A row that has ended is read on with the others; what it writes now is not kept.
        if not live[row]:
            continue
        done.tokens[row].append(token)
        if token in how.end_tokens:
            live[row], done.reasons[row] = False, "end"
        elif tokenizer is not None and how.stop_texts:
            # The whole row: a stop text may span tokens, and how a token reads may depend on the one before.
            text = tokenizer.decode(done.tokens[row])
            if any(stop in text for stop in how.stop_texts):
                live[row], done.reasons[row] = False, "text"


def _pick(logits: Tensor, how: Writing, draw: torch.Generator) -> Tensor:
    if how.temperature == 0:
        return logits.argmax(-1)
    chances = (logits.float() / how.temperature).softmax(-1)
    if how.top_p < 1:
        ordered, order = chances.sort(dim=-1, descending=True)
        # A token stays while those before it have not yet reached top_p: the first always does.
        ordered = ordered.masked_fill(ordered.cumsum(-1) - ordered >= how.top_p, 0.0)
        chances = torch.zeros_like(chances).scatter(-1, order, ordered)
    return torch.multinomial(chances, 1, generator=draw)[:, 0]
