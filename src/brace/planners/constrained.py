"""Constrained decoding: a mask over the next token that leaves only continuations of a plan.

The masks are llguidance's. On our worlds' grammars, on a CPU and for vocabularies of 2k to 150k, it compiles
one in about 5 ms, masks a token in 0.1 to 0.5 ms and needs no other package. xgrammar masks faster still,
but brings torch, transformers and triton; outlines-core takes half a minute to compile one for 49k tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from brace.errors import BraceError, ConfigError, MissingExtraError
from brace.plan import SkillSet
from brace.planners import plan_grammar

try:
    from llguidance import LLMatcher, LLTokenizer
except ImportError as error:
    raise MissingExtraError("writing plans within their grammar (option constrain)", "local") from error


class Vocabulary:
    """A model's tokens as bytes, prepared once (a second or two for large ones)."""

    def __init__(self, tokenizer: Any, size: int, end_tokens: Sequence[int]) -> None:
        """`tokenizer` is a fast one of transformers; `size` is that of the model's output."""
        if not end_tokens:
            raise ConfigError(
                "neither tokenizer nor model names an end-of-text token, so a plan could not end: "
                "set eos_token, or write with constrain: false"
            )
        backend = tokenizer.backend_tokenizer
        try:
            self.tokens = LLTokenizer(
                backend.to_str(),
                # Either may be the larger: outputs are padded, and tokens are added to vocabularies later.
                n_vocab=max(size, backend.get_vocab_size(with_added_tokens=True)),
                eos_token=list(end_tokens),
            )
        except ValueError as error:
            raise ConfigError(
                f"this tokenizer's tokens cannot be read as bytes ({error}): constrained writing needs a "
                "byte-level or SentencePiece one; write with constrain: false"
            ) from error


class PlanConstraint:
    """The plans of one world, compiled for one vocabulary. `begin` is cheap and gives a mask for one text."""

    def __init__(self, vocabulary: Vocabulary, skills: SkillSet, names: Mapping[str, Sequence[str]]) -> None:
        grammar = LLMatcher.grammar_from_lark(plan_grammar.lark(skills, names))
        self._start = LLMatcher(vocabulary.tokens, grammar)
        if self._start.is_error():
            raise ConfigError(f"the grammar of these skills cannot be compiled: {self._start.get_error()}")

    def begin(self) -> PlanMask:
        """For one text."""
        return PlanMask(self._start.deep_copy())


class PlanMask:
    """A logits hook for one row: it follows what is written and forbids what no plan goes on with."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher
        self._followed = 0

    def __call__(self, written: Tensor, logits: Tensor) -> Tensor:
        """The logits, minus infinity where forbidden. The end of text is allowed where a plan is whole."""
        self._follow(written[0, self._followed :].tolist())
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        allowed = np.unpackbits(bits, bitorder="little", count=logits.shape[-1]).astype(bool)
        return logits.masked_fill(~torch.from_numpy(allowed).to(logits.device), -torch.inf)

    def forced_after(self, token: int) -> list[int]:
        """Write this token, and all that every plan which begins so goes on with; the latter."""
        self._follow([token])
        forced: list[int] = self._matcher.compute_ff_tokens()
        self._follow(forced)
        return forced

    def _follow(self, tokens: list[int]) -> None:
        self._followed += len(tokens)
        if not self._matcher.consume_tokens(tokens):
            raise BraceError(f"a token outside the plan's grammar was written: {self._matcher.get_error()}")
