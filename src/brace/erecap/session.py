"""Prefix caches: replanning contexts grow at their end, so a later call pays for what is new only.

A `Session` is for prompts that are written from, a `PrefixScorer` for texts whose tokens are scored.

What was read stays in the caches. A new prompt is compared with the old one token by token; the common
beginning is reused, whatever the old prompt had after it (its last lines, the words that ask for the plan,
the plan that was written) is forgotten, and only the rest is read. When what is kept would exceed the budget,
what is worth least leaves the caches. Where that cannot be (the scorer's scores cannot be cached, whole
segments are wanted, a floor has gone before, floors and news leave no room), the whole prompt is read anew,
pruned: a compaction. When the prompt has outgrown the model's positions, what still lives in the last layer
is read anew with what is new, in positions counted afresh.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from brace.erecap.context import Context
from brace.erecap.eager import EagerContext, computing, run_layers
from brace.erecap.engine import Engine
from brace.erecap.schedule import HEAD, TAIL_LEAST, Keep
from brace.erecap.selection import evict
from brace.errors import ConfigError

How = Literal["read", "extended", "evicted", "compacted", "restarted"]
C = TypeVar("C", bound=Context)


@dataclass(frozen=True)
class Reading:
    """What one call had to read."""

    how: How
    """read: the first time · extended: only what is new · evicted: only what is new, others had to go ·
    compacted: anew, pruned to the budget · restarted: anew, because the beginning had changed."""
    tokens: int
    """The prompt's length."""
    tokens_cached: int
    """Of these, not read again."""
    tokens_read: int
    """What went through the first layer in this call."""
    kept_last: int
    """Tokens in the last layer's cache now: what the budget binds."""
    kept_mean: float
    """Mean over the layers."""
    changed_at: int | None = None
    """Where the old prompt and the new one part, if that is before the old one's end."""
    path_note: str = ""
    """Which path a reading from the beginning took (`Prefill.path_note`), or what had to be captured for
    another."""


class PrefixCache(Generic[C]):
    """The tokens of a text that were read, and the context with what is held of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._context: C | None = None
        self.ids: list[int] = []
        """The text, as far as it was read."""

    @property
    def context(self) -> C:
        """To write from. What is written is forgotten at the next reading unless that text repeats it."""
        if self._context is None:
            raise ConfigError("nothing has been read yet")
        return self._context

    def forget_from(self, place: int) -> None:
        """Hold only what was read before this place of the text."""
        self.context.crop(place)
        self.ids = self.ids[:place]

    def _tensor(self, numbers: list[int]) -> Tensor:
        return torch.tensor([numbers], device=self._engine.backbone.device)


class PrefixScorer(PrefixCache[EagerContext]):
    """What the engine's scorer says of all tokens before one layer. Nothing is pruned, later layers are not
    read.

    Of a text that begins like the one before only the rest is read, if the scorer's scores can be cached.
    """

    def __init__(self, engine: Engine, layer: int) -> None:
        super().__init__(engine)
        self._layer = layer
        self._context = EagerContext(1, layer, engine.backbone.device)
        self._cached = torch.zeros((1, 0), device=engine.backbone.device)
        self.tokens_read = 0
        """By the last `scores`."""

    def scores(self, ids: list[int]) -> Tensor:
        """[tokens]: what each is worth, the text ending here."""
        backbone, scorer = self._engine.backbone, self._engine.scorer
        if not 0 < len(ids) <= backbone.max_positions:
            raise ConfigError(f"{len(ids)} tokens to score: the model reads 1 to {backbone.max_positions}")
        shared = common_prefix(self.ids, ids) if scorer.cacheable else 0
        self.forget_from(shared)
        self._cached = self._cached[:, :shared]
        self.tokens_read = len(ids) - shared
        if self.tokens_read:
            text = self._tensor(ids)
            valid = torch.ones_like(text, dtype=torch.bool)
            scorer.prepare(backbone, text, valid)
            with computing(backbone, text):
                tokens = self.context.begin(backbone, text[:, shared:], valid[:, shared:])
                run_layers(backbone, scorer, self.context, tokens)
                new = scorer.cacheable_score(tokens.before(self._layer, backbone))
                self._cached = torch.cat([self._cached, new], 1)
            self.ids = list(ids)
        with torch.inference_mode():
            positions = torch.arange(len(ids), device=backbone.device)[None]
            return scorer.rescore(self._layer, self._cached, positions, positions[:, -1:])[0]


class Session(PrefixCache[Context]):
    """One growing prompt and its caches."""

    def __init__(
        self,
        engine: Engine,
        budget: int | None = None,
        *,
        compact_to: int | None = None,
        evict: bool = True,
        least_shared: float = 0.5,
    ) -> None:
        """`budget` bounds the last layer's cache. Without `evict` a prompt that outgrows it is read anew. A
        compaction ends at `compact_to` (the budget, if not given): the lower, the rarer compactions are, and
        the less is left. A prompt that shares less than `least_shared` of the old one is read anew: what a
        pruned cache holds was chosen for the old text."""
        super().__init__(engine)
        self.limit(budget, compact_to)
        if not 0 <= least_shared <= 1:
            raise ConfigError(f"least_shared = {least_shared}: must be between 0 and 1")
        self._evict = evict
        self._least_shared = least_shared
        self._origin: list[int] = []
        """For each position of the caches, the place in the prompt it stands for."""

    def limit(self, budget: int | None, compact_to: int | None = None) -> None:
        """Bind the readings from now on; what has gone does not come back."""
        if compact_to is not None and (budget is None or not 1 <= compact_to <= budget):
            raise ConfigError(f"compact_to = {compact_to}: must be between 1 and the budget of {budget}")
        self._budget, self._compact_to = budget, compact_to or budget

    def shared_with(self, ids: list[int]) -> int:
        """How much of this prompt need not be read again: the last token always is, for its logits are what
        comes next."""
        return min(common_prefix(self.ids, ids), len(ids) - 1)

    def reset(self) -> None:
        """Forget everything."""
        self._context, self.ids, self._origin = None, [], []

    def forget_from(self, place: int) -> None:
        """Hold only what was read before this place of the prompt."""
        cut = bisect_left(self._origin, place)
        self.context.crop(cut)
        self.ids, self._origin = self.ids[:place], self._origin[:cut]

    def read(
        self, ids: list[int], *, floor: list[bool] | None = None, segments: list[int] | None = None
    ) -> Reading:
        """Take the prompt in. `floor` and `segments` matter when it is over the budget."""
        if not ids:
            raise ConfigError("an empty context cannot be read")
        if self._context is None:
            return self._anew(ids, "read", floor, segments, None)
        common = common_prefix(self.ids, ids)
        shared = min(common, len(ids) - 1)
        changed_at = common if common < len(self.ids) else None
        if shared < self._least_shared * len(self.ids):
            return self._anew(ids, "restarted", floor, segments, changed_at)
        # Nothing is forgotten before it is sure that the new prompt can be read.
        context = self._context
        # A place of the prompt is no position any more, once it was read anew without what had gone.
        cut = bisect_left(self._origin, shared)
        new = len(ids) - shared
        living = context.held_before(cut)
        over_budget = self._budget is not None and len(living) + new > self._budget
        fits = cut + new <= self._engine.backbone.max_positions
        if over_budget or not fits:
            places = [self._origin[position] for position in living] + list(range(shared, len(ids)))
            evictable = fits and self._evict and segments is None and not _missing(floor, places)
            if not evictable or not self._make_room(shared, len(ids), floor):
                return self._anew(ids, "compacted", floor, segments, changed_at, places)
        self.forget_from(shared)
        try:
            self._engine.extend(context, self._tensor(ids[shared:]), remember=True)
        except BaseException:
            # However it ends, by Ctrl-C or by a deadline's check too.
            context.undo()
            raise
        self.ids, self._origin = list(ids), [*self._origin, *range(shared, len(ids))]
        how: How = "evicted" if over_budget else "extended"
        return self._reading(how, shared, new, changed_at, context.capture_note)

    def _make_room(self, shared: int, end: int, floor: list[bool] | None) -> bool:
        """Hold only as much of what was read before `shared` that the rest, up to `end`, fits the budget."""
        places = [*self._origin[: bisect_left(self._origin, shared)], *range(shared, end)]
        marks = None if floor is None else np.array(floor)[places]
        new, tokens = end - shared, len(places)
        # Those in the head and in the least tail are protected anyhow.
        floors = 0 if marks is None else int(marks[HEAD : max(HEAD, tokens - TAIL_LEAST)].sum())
        schedule = Keep(budget=self._budget).schedule(tokens, self._engine.backbone.n_layers, floors)
        self.forget_from(shared)
        device = self._engine.backbone.device
        given = None if marks is None else torch.from_numpy(marks).to(device)
        with torch.inference_mode():
            return evict(self.context, self._engine.scorer, schedule, new, given)

    def _anew(
        self,
        ids: list[int],
        how: How,
        floor: list[bool] | None,
        segments: list[int] | None,
        changed_at: int | None,
        living: list[int] | None = None,
    ) -> Reading:
        """Read the whole prompt, or, where it is longer than the model reads, the `living` places of it."""
        fits = len(ids) <= self._engine.backbone.max_positions
        places = list(range(len(ids))) if fits or living is None else living
        pruned = self._budget is not None and len(places) > self._budget
        prefill = self._engine.prefill(
            self._tensor([ids[place] for place in places]),
            # A prompt within the budget is kept whole, even where `compact_to` is less.
            keep=Keep(budget=self._compact_to if pruned else None),
            floor=None if floor is None else torch.tensor([[floor[place] for place in places]]),
            segments=None if segments is None else self._tensor([segments[place] for place in places]),
            remember=self._evict and self._budget is not None and segments is None,
        )
        self._context, self.ids, self._origin = prefill.context, list(ids), places
        return self._reading(how, 0, len(places), changed_at, prefill.path_note)

    def _reading(self, how: How, cached: int, read: int, changed_at: int | None, path_note: str) -> Reading:
        lengths = self.context.lengths()
        mean = sum(lengths) / len(lengths)
        return Reading(how, len(self.ids), cached, read, lengths[-1], mean, changed_at, path_note)


def _missing(floor: list[bool] | None, places: list[int]) -> bool:
    """Whether a floor is not among these places."""
    if floor is None:
        return False
    wanted = np.array(floor)
    wanted[places] = False
    return bool(wanted.any())


def common_prefix(old: list[int], new: list[int]) -> int:
    """The length of the common beginning. Slices are compared: prompts are long and mostly alike."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
