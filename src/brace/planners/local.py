"""A language model on this machine as a planner, read and pruned by the E-RECAP engine.

`transformers` takes any supported model from a folder; `embedded` is the same with the small model that comes
with the package. Torch is needed only once one of them is made.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from brace.context import HfTokenizer, Tokenizer
from brace.errors import ConfigError, suggestion
from brace.plan import SkillSet
from brace.planners.base import Limits, Prompt, Usage
from brace.planners.prompt_tokens import PromptEncoder, PromptTokens
from brace.registry import planners, scorers

if TYPE_CHECKING:
    import torch

    from brace.erecap import Reading
    from brace.planners.constrained import PlanConstraint, Vocabulary

EMBEDDED = Path(__file__).parent / "weights" / "embedded"
_DTYPES = ("float32", "bfloat16", "float16")
_POLL_S = 0.01


@planners.register("transformers")
class TransformersPlanner:
    """Writes plans with a local decoder: greedily, within the plans' grammar, reading only what is new.

    With a budget it prunes in its own layers; without one it works on all it is given.
    """

    prunes = True

    def __init__(
        self,
        model: str,
        scorer: str | Mapping[str, Any] | None = None,
        granularity: Literal["token", "segment"] = "token",
        max_new_tokens: int = 256,
        dtype: str = "auto",
        device: str = "auto",
        constrain: bool = True,
        reuse: bool = True,
        chat: bool = True,
        path: Literal["auto", "eager", "static"] = "auto",
        evict: bool = True,
        compact_to: float = 1.0,
        ratio: float | None = None,
    ) -> None:
        """Load the model.

        `model` is a folder or "smollm2". `scorer` ranks tokens for pruning: a name, or its `name` and
        `options`; by default the folder's own predictor, else `attention`. `granularity` prunes single tokens
        or whole lines. `constrain` lets the model write nothing but plans of the world it is bound to.
        `reuse` keeps what was read for the next call. `chat` applies the tokenizer's chat template, if any.
        `path` is the way through the layers: `auto` takes the fast one on a GPU. `evict` makes room for news
        by dropping the least of what is kept; without it, or where the scorer cannot tell, a prompt over its
        budget is read anew and pruned to the share `compact_to` of it: below 1 the next calls read on.
        `ratio` is for calls without a budget: each pruning layer keeps this share of its tokens.
        """
        if granularity not in ("token", "segment"):
            raise ConfigError(f"planner option granularity = {granularity!r}: must be token or segment")
        if max_new_tokens < 1:
            raise ConfigError(f"planner option max_new_tokens = {max_new_tokens}: must be 1 or more")
        if not 0 < compact_to <= 1:
            raise ConfigError(f"planner option compact_to = {compact_to}: must be above 0 and at most 1")
        if ratio is not None and not 0 < ratio <= 1:
            raise ConfigError(f"planner option ratio = {ratio}: must be above 0 and at most 1")
        from brace.erecap import Engine  # noqa: PLC0415 - an extra
        from brace.planners.plan_writing import PlanWriter  # noqa: PLC0415 - needs it, too
        from brace.planners.prompt_reading import PromptReader  # noqa: PLC0415 - needs it, too

        self.name = f"transformers:{Path(model).name}"
        decoder, self._hf_tokenizer = _load(model, dtype, device)
        self._engine = Engine(decoder, _scorer(scorer, model), path)
        self._reader = PromptReader(self._engine, reuse=reuse, evict=evict, compact_to=compact_to)
        self._ratio = ratio
        self._encoder = PromptEncoder(self._hf_tokenizer, chat)
        self._tokenizer = HfTokenizer(self._hf_tokenizer, name=self.name)
        self._end_tokens = _end_tokens(decoder, self._hf_tokenizer)
        self._whole_lines = granularity == "segment"
        self._writer = PlanWriter(self._engine, self._hf_tokenizer, self._end_tokens, max_new_tokens)
        self._vocabulary = self._make_vocabulary() if constrain else None
        self._constraint: PlanConstraint | None = None
        self._busy = threading.Lock()

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's own."""
        return self._tokenizer

    @property
    def prompt_overhead(self) -> int:
        """Tokens that every prompt gets on top of its text: a chat template's, a beginning-of-text token."""
        return self._encoder.overhead

    def bind(self, world: object) -> None:
        """Take the skills and names of the world that plans are written for, and make their grammar."""
        skills, names = getattr(world, "skills", None), getattr(world, "names", {})
        if not isinstance(skills, SkillSet):
            raise ConfigError(
                f"planner {self.name!r} needs a world with skills; {type(world).__name__} has none"
            )
        if self._vocabulary is not None:
            from brace.planners.constrained import PlanConstraint  # noqa: PLC0415 - an extra

            self._constraint = PlanConstraint(self._vocabulary, skills, names)

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str | Usage]:
        """The usage once the prompt is read, then the plan token by token."""
        # One call at a time: a worker that was given up may still be within its last layer.
        while not self._busy.acquire(timeout=_POLL_S):
            if limits.expired():
                return
        try:
            yield from self._plan(prompt, limits)
        finally:
            self._busy.release()

    def _plan(self, prompt: Prompt, limits: Limits) -> Iterator[str | Usage]:
        from brace.planners.prompt_reading import TimeUp  # noqa: PLC0415 - an extra

        tokens = self._encoder.encode(prompt)
        try:
            reading = self._reader.read(
                tokens, self._budget(prompt, tokens), limits, whole_lines=self._whole_lines
            )
        except TimeUp:
            return
        yield self._usage(reading)
        mask = self._constraint.begin() if self._constraint is not None else None
        yield from self._writer.write(self._reader.context, mask, limits, tokens.ids)

    def _budget(self, prompt: Prompt, tokens: PromptTokens) -> int | None:
        if prompt.budget is not None or self._ratio is None:
            return prompt.budget
        from brace.erecap.schedule import HEAD, TAIL_LEAST, Keep  # noqa: PLC0415 - an extra

        floors = sum(tokens.floor[HEAD:-TAIL_LEAST])
        return Keep(self._ratio).schedule(len(tokens.ids), self._engine.backbone.n_layers, floors).last

    def _usage(self, reading: Reading) -> Usage:
        unbound = self._vocabulary is not None and self._constraint is None
        notes = ["not constrained: the planner was bound to no world"] if unbound else []
        # The eager path is what everybody expects; any other is worth a word.
        notes += [reading.path_note] if reading.path_note not in ("", "eager") else []
        return Usage(
            tokens_read=reading.tokens_read,
            tokens_cached=reading.tokens_cached,
            kept_last=reading.kept_last,
            kept_mean=reading.kept_mean,
            note="; ".join(notes),
        )

    def _make_vocabulary(self) -> Vocabulary:
        from brace.planners.constrained import Vocabulary  # noqa: PLC0415 - an extra

        size = int(self._engine.backbone.config.vocab_size)
        return Vocabulary(self._hf_tokenizer, size, self._end_tokens)


@planners.register("embedded")
class EmbeddedPlanner(TransformersPlanner):
    """The small planner whose weights come with the package."""

    def __init__(
        self,
        scorer: str | Mapping[str, Any] | None = None,
        granularity: Literal["token", "segment"] = "token",
        max_new_tokens: int = 256,
        dtype: str = "auto",
        device: str = "auto",
        constrain: bool = True,
        reuse: bool = True,
        path: Literal["auto", "eager", "static"] = "auto",
        evict: bool = True,
        compact_to: float = 1.0,
        ratio: float | None = None,
    ) -> None:
        """Load it; the options are those of `transformers`."""
        missing = [
            name
            for name in ("config.json", "model.safetensors", "tokenizer.json")
            if not (EMBEDDED / name).is_file()
        ]
        if missing:
            raise ConfigError(
                f"planner 'embedded': this installation has no weights ({', '.join(missing)} missing); make "
                "them with `brace planner train`, or use planner 'transformers' with a model of your own"
            )
        super().__init__(
            str(EMBEDDED), scorer, granularity, max_new_tokens, dtype, device, constrain, reuse,
            chat=False, path=path, evict=evict, compact_to=compact_to, ratio=ratio,
        )  # fmt: skip
        self.name = "embedded"


def _load(model: str, dtype: str, device: str) -> tuple[Any, Any]:
    import torch  # noqa: PLC0415 - an extra

    from brace.erecap.models import best_dtype, load_model  # noqa: PLC0415

    if dtype not in ("auto", *_DTYPES):
        raise ConfigError(f"planner option dtype = {dtype!r}{suggestion(dtype, ['auto', *_DTYPES])}")
    where = _device(device)
    chosen = best_dtype(where) if dtype == "auto" else getattr(torch, dtype)
    try:
        decoder, tokenizer = load_model(model, chosen)
    except (OSError, ValueError) as error:
        raise ConfigError(f"the model at {model!r} cannot be loaded: {error}") from error
    return decoder.to(where), tokenizer


def _device(name: str) -> torch.device:
    import torch  # noqa: PLC0415 - an extra

    from brace.erecap.models import best_device  # noqa: PLC0415

    if name == "auto":
        return best_device()
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"planner option device = {name!r}: {error}") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"planner option device = {name!r}: torch sees no GPU here; use auto or cpu")
    return device


def _scorer(given: str | Mapping[str, Any] | None, model: str) -> Any:
    """As told, or the model's own predictor where there is one."""
    if given is None:
        from brace.erecap.models import TOKENS, own_predictor  # noqa: PLC0415 - an extra

        own = own_predictor(model, TOKENS)
        return scorers.create("predictor", {"path": str(own)}) if own else scorers.create("attention")
    part: dict[str, Any] = {"name": given} if isinstance(given, str) else dict(given)
    name, options = part.pop("name", None), part.pop("options", None)
    if not isinstance(name, str) or part:
        raise ConfigError(f"planner option scorer = {given!r}: give a name, or {{name: …, options: {{…}}}}")
    return scorers.create(name, options)


def _end_tokens(decoder: Any, tokenizer: Any) -> tuple[int, ...]:
    """All that end a text: some chat models have several, and name them in different places."""
    found: set[int] = set()
    for source in (tokenizer, decoder.config, decoder.generation_config):
        named = getattr(source, "eos_token_id", None)
        found.update([named] if isinstance(named, int) else named or ())
    return tuple(sorted(found))
