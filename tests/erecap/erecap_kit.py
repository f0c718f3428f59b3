"""Tiny decoders of every family, a masked reference, fake scorers (no test in here)."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import transformers
from torch import Tensor

from brace.erecap import Context, Engine, Keep, Prefill
from brace.erecap.scorers import Predictor, Random, ScoreInput, Scorer
from brace.registry import scorers

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

VOCAB = 211
LAYERS = 8
POSITIONS = 512
WINDOW = 16
FULL, SLIDING = "full_attention", "sliding_attention"
MIXED = [SLIDING if index % 2 else FULL for index in range(LAYERS)]
SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": POSITIONS,
    "initializer_range": 0.4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}


@dataclass(frozen=True)
class Family:
    kind: str
    extra: dict[str, Any] = field(default_factory=dict)
    windows: tuple[int | None, ...] = (None,) * LAYERS


FAMILIES = {
    "qwen2": Family("Qwen2"),
    "qwen2-mixed": Family(
        "Qwen2",
        {"use_sliding_window": True, "sliding_window": WINDOW, "layer_types": MIXED},
        tuple(WINDOW if kind == SLIDING else None for kind in MIXED),
    ),
    "qwen3": Family("Qwen3", {"head_dim": 16}),
    "llama": Family("Llama", {"tie_word_embeddings": False}),
    "smollm2": Family("Llama", {"tie_word_embeddings": True}),
    "mistral": Family("Mistral", {"sliding_window": None}),
    "mistral-window": Family("Mistral", {"sliding_window": WINDOW}, (WINDOW,) * LAYERS),
    "glm": Family("Glm", {"head_dim": 16}),
    "glm4": Family("Glm4", {"head_dim": 16}),
}
EVERY = [(name, attention) for name in FAMILIES for attention in ("sdpa", "eager")]
"""Each family with each way to compute attention."""


@functools.cache
def model_of(name: str, attention: str = "sdpa", **other: Any) -> Any:
    """A random model, the same for each attention, in float64."""
    family = FAMILIES[name]
    config = getattr(transformers, f"{family.kind}Config")(**(SHAPE | family.extra | other))
    config._attn_implementation = attention
    torch.manual_seed(7)
    model = getattr(transformers, f"{family.kind}ForCausalLM")(config).eval().double()
    assert model.config._attn_implementation == attention
    return model


def text(length: int, seed: int = 0) -> list[int]:
    """Random tokens, never padding, begin or end."""
    draw = torch.Generator().manual_seed(1000 * seed + length)
    return torch.randint(2, VOCAB, (length,), generator=draw).tolist()


def row(ids: Sequence[int]) -> Tensor:
    return torch.tensor([list(ids)])


def padded(rows: Sequence[Sequence[Any]], side: str, fill: Any = 0) -> tuple[Tensor, Tensor]:
    """A rectangle and its attention mask."""
    longest = max(map(len, rows))
    left = side == "left"
    ids, mask = [], []
    for one in rows:
        gap = longest - len(one)
        ids.append([fill] * gap + list(one) if left else list(one) + [fill] * gap)
        mask.append([0] * gap + [1] * len(one) if left else [1] * len(one) + [0] * gap)
    return torch.tensor(ids), torch.tensor(mask)


def generated(model: Any, ids: Tensor, mask: Tensor, count: int) -> list[list[int]]:
    """What transformers itself writes."""
    out = model.generate(ids, attention_mask=mask, max_new_tokens=count, do_sample=False)
    return out[:, ids.shape[1] :].tolist()


def greedy(engine: Engine, context: Context, count: int) -> tuple[list[int], Tensor]:
    """Tokens of a single row, and the logits each was chosen from, [count, vocabulary]."""
    tokens, logits = [], [context.logits[0].clone()]
    for step in range(count):
        tokens.append(int(logits[-1].argmax()))
        if step < count - 1:
            logits.append(engine.extend(context, row(tokens[-1:]))[0].clone())
    return tokens, torch.stack(logits)


def kept_of(prefill: Prefill, index: int, mask: Tensor) -> list[Tensor]:
    """Per layer, the survivors of one row, its padding removed."""
    real = mask[index].bool()
    assert not any(bool((layer[index] & ~real).any()) for layer in prefill.survivors)
    return [layer[index][real] for layer in prefill.survivors]


def reference(
    name: str, attention: str, ids: Sequence[int], kept: Sequence[Tensor], more: Sequence[int] = ()
) -> Tensor:
    """The plain model over ids + more, no cache; a layer's dropped tokens are hidden from all others.

    Logits of the last token of `ids` and of each of `more`.
    """

    def unseen(layer: int) -> Tensor:
        seen = torch.cat([kept[layer], torch.ones(len(more), dtype=torch.bool)])
        return ~seen[None, :].expand(len(seen), -1)

    return masked(name, attention, [*ids, *more], unseen)[len(ids) - 1 :]


def masked(name: str, attention: str, ids: Sequence[int], unseen: Callable[[int], Tensor]) -> Tensor:
    """The plain model's logits, no cache; `unseen` tells of a layer what is hidden, [queries, keys]. Every
    token sees itself."""
    model, windows = model_of(name, attention), FAMILIES[name].windows
    place = torch.arange(len(ids))

    def masking(layer: int) -> Callable[..., Any]:
        look = place[None, :] <= place[:, None]
        if windows[layer] is not None:
            look = look & (place[None, :] > place[:, None] - windows[layer])
        look = (look & ~unseen(layer)) | torch.eye(len(ids), dtype=torch.bool)
        mask = look[None, None]
        if attention == "eager":
            mask = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -1e300)
        return lambda _, args, given: (args, {**given, "attention_mask": mask})

    hooks = [
        layer.register_forward_pre_hook(masking(index), with_kwargs=True)
        for index, layer in enumerate(model.model.layers)
    ]
    try:
        with torch.no_grad():
            logits: Tensor = model(row(ids), use_cache=False).logits[0]
    finally:
        for hook in hooks:
            hook.remove()
    return logits


def close(one: Tensor, other: Tensor, attention: str = "sdpa") -> None:
    """Equal up to float64's noise; transformers' eager attention has its softmax in float32."""
    assert one.shape == other.shape
    worst = float((one - other).abs().max())
    assert worst <= (1e-6 if attention == "sdpa" else 1e-3), f"differs by {worst}"


class FakeScorer(Scorer):
    """Planted scores by position, the same at every layer."""

    name: ClassVar[str] = "fake"

    def __init__(self, worth: Sequence[float]) -> None:
        self.worth = torch.tensor(list(worth), dtype=torch.float64)
        self.layers: list[int] = []

    def score(self, given: ScoreInput) -> Tensor:
        self.layers.append(given.layer)
        return self.worth[given.positions]


def scorer_of(kind: str, model: Any) -> Scorer:
    """A registered scorer; the predictor is untrained."""
    if kind != "predictor":
        return scorers.create(kind)
    torch.manual_seed(3)
    layers = tuple(range(1, model.config.num_hidden_layers))
    return Predictor.fresh(model.config.model_type, model.config.hidden_size, layers).eval()


def engine_of(name: str, attention: str = "sdpa", scorer: Scorer | None = None) -> Engine:
    return Engine(model_of(name, attention), scorer or Random(seed=5))


RATIO = Keep(ratio=0.7)
