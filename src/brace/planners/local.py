"""A language model on this machine as a planner, read and pruned by the E-RECAP engine.

`transformers` takes any supported model from a folder; `embedded` is the same with the small model that comes
with the package. Torch is needed only once one of them is made.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from brace.context import HfTokenizer
from brace.errors import ConfigError
from brace.options import check_choices
from brace.planners.base import Limits, Planner, Prompt, Usage, Vocabulary
from brace.planners.prompt_tokens import PromptEncoder, PromptTokens
from brace.registry import planners, scorers

if TYPE_CHECKING:
    from brace.erecap import Reading
    from brace.planners import constrained

EMBEDDED = Path(__file__).parent / "weights" / "embedded"
# How often a call that waits for another looks at its limits: a lock does not know of them.
_POLL_S = 0.01


@planners.register("transformers")
@dataclass(eq=False)
class TransformersPlanner(Planner):
    """Writes plans with a local decoder: greedily, within the plans' grammar, reading only what is new.

    With a budget it prunes in its own layers; without one it works on all it is given.
    """

    needs_extra = "local"
    prunes = True

    model: str
    """A folder with config.json, weights and tokenizer, or "smollm2". Nothing is downloaded."""
    scorer: str | Mapping[str, Any] | None = None
    """What ranks tokens for pruning: a name, or its `name` and `options`. By default the predictor in the
    model's folder, else `attention`."""
    granularity: Literal["token", "segment"] = "token"
    """Prune single tokens, or whole lines of the context."""
    max_new_tokens: int = 256
    """The longest plan, in tokens."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """What the model computes in. `auto`: bfloat16 where the machine computes with it, else float32."""
    device: str = "auto"
    """A device as torch names it. `auto`: the GPU, if there is one."""
    constrain: bool = True
    """Let the model write nothing but plans of the world it is bound to."""
    reuse: bool = True
    """Keep what was read for the next call, which then reads only what is new."""
    chat: bool = True
    """Apply the tokenizer's chat template, if it has one."""
    path: Literal["auto", "eager", "static"] = "auto"
    """The way through the layers. `auto` takes the fast one (`static`) on a GPU."""
    evict: bool = True
    """Make room for news by dropping the least of what is kept. Without it, or where the scorer cannot tell,
    a prompt over its budget is read anew and pruned."""
    compact_to: float = 1.0
    """The share of the budget that a prompt which is read anew is pruned to. Below 1 the next calls have room
    to read on."""
    ratio: float | None = None
    """For calls without a budget: the share of its tokens that each pruning layer keeps."""

    def __post_init__(self) -> None:
        check_choices(self, f"planner {type(self).__name__}")
        if self.max_new_tokens < 1:
            raise ConfigError(f"planner option max_new_tokens = {self.max_new_tokens}: must be 1 or more")
        for name, share in (("compact_to", self.compact_to), ("ratio", self.ratio)):
            if share is not None and not 0 < share <= 1:
                raise ConfigError(f"planner option {name} = {share}: must be above 0 and at most 1")
        from brace.erecap import Engine  # noqa: PLC0415 - an extra
        from brace.planners.plan_writing import PlanWriter  # noqa: PLC0415 - needs it, too
        from brace.planners.prompt_reading import PromptReader  # noqa: PLC0415 - needs it, too

        self.name = f"transformers:{Path(self.model).name}"
        decoder, tokenizer = self._load()
        self._engine = Engine(decoder, self._make_scorer(), self.path)
        self._reader = PromptReader(
            self._engine, reuse=self.reuse, evict=self.evict, compact_to=self.compact_to
        )
        self._encoder = PromptEncoder(tokenizer, self.chat)
        self.tokenizer = HfTokenizer(tokenizer, name=self.name)
        # Some chat models have several tokens that end a text, and name them in different places.
        places = (tokenizer, decoder.config, decoder.generation_config)
        named = [getattr(place, "eos_token_id", None) for place in places]
        ends = sorted({end for one in named for end in ([one] if isinstance(one, int) else one or ())})
        self._writer = PlanWriter(self._engine, tokenizer, ends, self.max_new_tokens)
        self._tokens: constrained.Vocabulary | None = None
        if self.constrain:
            from brace.planners import constrained  # noqa: PLC0415 - an extra

            size = int(self._engine.backbone.config.vocab_size)
            self._tokens = constrained.Vocabulary(tokenizer, size, ends)
        self._constraint: constrained.PlanConstraint | None = None
        self._busy = threading.Lock()

    @property
    def prompt_overhead(self) -> int:
        """Tokens that every prompt gets on top of its text: a chat template's, a beginning-of-text token."""
        return self._encoder.overhead

    def bind(self, vocabulary: Vocabulary) -> None:
        """Make the grammar of the plans that can be written."""
        if self._tokens is not None:
            from brace.planners.constrained import PlanConstraint  # noqa: PLC0415 - an extra

            self._constraint = PlanConstraint(self._tokens, vocabulary.skills, vocabulary.names)

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
        whole_lines = self.granularity == "segment"
        try:
            reading = self._reader.read(tokens, self._budget(prompt, tokens), limits, whole_lines=whole_lines)
        except TimeUp:
            return
        yield self._usage(reading)
        mask = self._constraint.begin() if self._constraint is not None else None
        yield from self._writer.write(self._reader.context, mask, limits, tokens.ids)

    def _budget(self, prompt: Prompt, tokens: PromptTokens) -> int | None:
        if prompt.budget is not None or self.ratio is None:
            return prompt.budget
        from brace.erecap.schedule import HEAD, TAIL_LEAST, Keep  # noqa: PLC0415 - an extra

        # Those in the head and in the least tail are protected anyhow.
        floors = sum(tokens.floor[HEAD:-TAIL_LEAST])
        return Keep(self.ratio).schedule(len(tokens.ids), self._engine.backbone.n_layers, floors).last

    def _usage(self, reading: Reading) -> Usage:
        unbound = self.constrain and self._constraint is None
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

    def _load(self) -> tuple[Any, Any]:
        """The decoder, where it is to compute, and its tokenizer."""
        import torch  # noqa: PLC0415 - an extra

        from brace.erecap.models import best_device, best_dtype, load_model  # noqa: PLC0415

        try:
            device = best_device() if self.device == "auto" else torch.device(self.device)
        except RuntimeError as error:
            raise ConfigError(f"planner option device = {self.device!r}: {error}") from error
        if device.type == "cuda" and not torch.cuda.is_available():
            raise ConfigError(
                f"planner option device = {self.device!r}: torch sees no GPU here; use auto or cpu"
            )
        dtype = best_dtype(device) if self.dtype == "auto" else getattr(torch, self.dtype)
        try:
            decoder, tokenizer = load_model(self.model, dtype)
        except (OSError, ValueError) as error:
            raise ConfigError(f"the model at {self.model!r} cannot be loaded: {error}") from error
        return decoder.to(device), tokenizer

    def _make_scorer(self) -> Any:
        if self.scorer is None:
            from brace.erecap.models import TOKENS, own_predictor  # noqa: PLC0415 - an extra

            own = own_predictor(self.model, TOKENS)
            return scorers.create("predictor", {"path": str(own)}) if own else scorers.create("attention")
        part: dict[str, Any] = {"name": self.scorer} if isinstance(self.scorer, str) else dict(self.scorer)
        name, options = part.pop("name", None), part.pop("options", None)
        if not isinstance(name, str) or part:
            raise ConfigError(
                f"planner option scorer = {self.scorer!r}: give a name, or {{name: …, options: {{…}}}}"
            )
        return scorers.create(name, options)


@planners.register("embedded")
@dataclass(eq=False)
class EmbeddedPlanner(TransformersPlanner):
    """The small planner whose weights come with the package."""

    # Fixed, and with `init=False` no option any more.
    model: str = field(init=False)
    chat: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        files = ("config.json", "model.safetensors", "tokenizer.json")
        if missing := [name for name in files if not (EMBEDDED / name).is_file()]:
            raise ConfigError(
                f"planner 'embedded': this installation has no weights ({', '.join(missing)} missing); make "
                "them with `brace planner train`, or use planner 'transformers' with a model of your own"
            )
        self.model = str(EMBEDDED)
        super().__post_init__()
        # After the parent's, which names the planner by its folder.
        self.name = "embedded"
