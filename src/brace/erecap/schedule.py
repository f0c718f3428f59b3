"""How many tokens live on after each pruning layer. Pure arithmetic: no torch here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from brace.errors import ConfigError

HEAD = 4
TAIL_LEAST, TAIL_SHARE = 16, 0.1


def pruning_layers(n_layers: int) -> tuple[int, ...]:
    """The paper's, 0-indexed, pruning before them: every third layer, in small models every second."""
    if n_layers < 20:
        return tuple(range(3, n_layers - 2, 2))
    return tuple(range(4, n_layers - 2, 3))


def tail_of(tokens: int) -> int:
    """How many of the last tokens always stay."""
    return min(tokens, max(TAIL_LEAST, math.ceil(TAIL_SHARE * tokens)))


def protected(tokens: int, floors: int) -> int:
    """Tokens that pruning `tokens` may not touch: head, tail, and `floors` others."""
    return min(tokens, HEAD + tail_of(tokens) + floors)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The length of one sequence along the layers."""

    tokens: int
    """N, what the first layer reads."""
    n_layers: int
    layers: tuple[int, ...]
    """The pruning layers."""
    kept: tuple[int, ...]
    """Tokens that live on from each of them."""

    @property
    def last(self) -> int:
        """Tokens in the last layer: what a budget binds."""
        return self.kept[-1] if self.kept else self.tokens

    def lengths(self) -> list[int]:
        """Tokens in every layer."""
        steps = dict(zip(self.layers, self.kept, strict=True))
        lengths, now = [], self.tokens
        for layer in range(self.n_layers):
            now = steps.get(layer, now)
            lengths.append(now)
        return lengths

    @property
    def mean(self) -> float:
        """Tokens worked on, mean over the layers."""
        return sum(self.lengths()) / self.n_layers

    @property
    def last_reduction(self) -> float:
        """The share of tokens gone in the last layer."""
        return 1 - self.last / self.tokens

    @property
    def mean_reduction(self) -> float:
        """The share of tokens gone, mean over the layers."""
        return 1 - self.mean / self.tokens

    def kv_bytes(self, kv_heads: int, head_dim: int, bytes_each: int = 2) -> int:
        """Memory of the keys and values of all layers."""
        return 2 * kv_heads * head_dim * bytes_each * sum(self.lengths())

    def flops(self, hidden: int, layer_weights: int) -> float:
        """Arithmetic of the prefill: two operations a weight and token, and causal attention."""
        # Attention: two products of n² · hidden, two operations each, of which causality leaves out half.
        return float(sum(2.0 * layer_weights * n + 2.0 * n * n * hidden for n in self.lengths()))

    def flops_saved(self, hidden: int, layer_weights: int) -> float:
        """The share of a whole prefill's arithmetic that pruning saves."""
        whole = Schedule(self.tokens, self.n_layers, (), ())
        return 1 - self.flops(hidden, layer_weights) / whole.flops(hidden, layer_weights)


@dataclass(frozen=True, slots=True)
class Keep:
    """How much to keep: a ratio at each pruning layer, or a budget in the last; neither keeps everything."""

    ratio: float | None = None
    budget: int | None = None
    layers: tuple[int, ...] | None = None
    """Other pruning layers than the paper's."""

    def __post_init__(self) -> None:
        if self.ratio is not None and self.budget is not None:
            raise ConfigError("keep: give a ratio or a budget, not both")
        if self.ratio is not None and not 0 < self.ratio <= 1:
            raise ConfigError(f"keep.ratio = {self.ratio}: must be above 0 and at most 1")
        if self.budget is not None and self.budget < 1:
            raise ConfigError(f"keep.budget = {self.budget}: must be 1 or more tokens")

    def schedule(self, tokens: int, n_layers: int, floors: int = 0) -> Schedule:
        """The lengths of a sequence of `tokens`, of which `floors` (besides head and tail) may never go."""
        if tokens < 1:
            raise ConfigError("an empty context cannot be read")
        layers = pruning_layers(n_layers) if self.layers is None else self.layers
        if any(not 0 < layer < n_layers for layer in layers) or list(layers) != sorted(set(layers)):
            raise ConfigError(f"pruning layers {layers} must ascend within 1…{n_layers - 1}")
        if self.budget is not None and self.budget < tokens:
            return _to_budget(tokens, self.budget, n_layers, layers, floors)
        if self.ratio is None or self.ratio == 1:
            return Schedule(tokens, n_layers, (), ())
        kept, now = [], tokens
        for _ in layers:
            # Protected tokens are part of the share that is kept, and do not come on top of it.
            now = max(math.floor(self.ratio * now), protected(now, floors))
            kept.append(now)
        return Schedule(tokens, n_layers, tuple(layers), tuple(kept))


def _least(tokens: int, floors: int, steps: int) -> int:
    for _ in range(steps):
        tokens = protected(tokens, floors)
    return tokens


def _to_budget(tokens: int, budget: int, n_layers: int, layers: Sequence[int], floors: int) -> Schedule:
    """Even ratios (a geometric way down) that end at exactly the budget.

    Even ratios as in the paper: each predictor drops the same share of what it sees, and no layer has to
    judge far more at once than it was trained for.
    """
    if not layers:
        raise ConfigError(f"a model of {n_layers} layers has no pruning layer; name some, or do not prune")
    least = HEAD + TAIL_LEAST + floors
    if budget < least:
        raise ConfigError(
            f"a budget of {budget} tokens cannot hold the {HEAD} first, the {TAIL_LEAST} last and {floors} "
            f"protected tokens; it must be {least} or more"
        )
    kept: list[int] = []
    now, steps = tokens, len(layers)
    if _least(tokens, floors, steps) > budget:
        raise ConfigError(
            f"a budget of {budget} tokens cannot be reached from {tokens} in {steps} steps: head, tail and "
            f"floors hold {_least(tokens, floors, steps)} of them"
        )
    for step in range(steps, 0, -1):
        # From where the last step ended: rounding and protected tokens have moved it off the even way.
        even = math.floor(now * (budget / now) ** (1 / step))
        low = protected(now, floors)
        # The last step is the budget itself: rounding could miss it by one.
        high = budget if step == 1 else min(now, max(even, budget, low))
        # Where the tail of an even way would be too long to get there, go down faster at first.
        while _least(high, floors, step - 1) > budget:
            high = max(low, high - max(1, (high - low) // 8))
        now = high
        kept.append(now)
    return Schedule(tokens, n_layers, tuple(layers), tuple(kept))
