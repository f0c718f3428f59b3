"""One view of every supported decoder: embed, rotate, run a layer, read the logits.

The engine runs the layers one by one: as few joined operations (`fused`) where that is exact, else as the
model's own modules. What differs between families is where their parts are and which layers have a window.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from brace.erecap.attention import NAME, attend_cached
from brace.erecap.fused import FusedLayer, Rotation, fuse, no_check
from brace.errors import BraceError, ConfigError

FAMILIES = {
    "qwen2": "Qwen2 and Qwen2.5",
    "qwen3": "Qwen3",
    "llama": "Llama 2 and 3, SmolLM2",
    "mistral": "Mistral",
    "glm": "GLM-4 (ChatGLM3's successor)",
    "glm4": "GLM-4-0414",
}


class Backbone:
    """A causal language model of transformers, taken apart."""

    def __init__(self, model: Any) -> None:
        config = model.config
        if config.model_type not in FAMILIES:
            supported = "; ".join(f"{kind} ({names})" for kind, names in FAMILIES.items())
            raise ConfigError(f"unsupported architecture {config.model_type!r}; supported: {supported}")
        if not hasattr(model, "lm_head"):
            raise ConfigError(f"{type(model).__name__} has no language head: load the …ForCausalLM class")
        self.model = model
        self.config = config
        self.base = model.model
        # As transformers does: a config may ask for fewer layers than there are.
        self.layers = list(self.base.layers)[: config.num_hidden_layers]
        self.n_layers = len(self.layers)
        self.hidden = int(config.hidden_size)
        self.max_positions = int(config.max_position_embeddings)
        self.check: Callable[[], None] = no_check
        """Called before each larger part of a layer; what it raises ends the reading there."""
        self._fused: dict[int, FusedLayer | None] = {}
        self.windows = [_window(config, index) for index in range(self.n_layers)]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = self.base.embed_tokens.weight.device
        return device

    @property
    def on_gpu(self) -> bool:
        """Whether there are graphs, events and Triton kernels for it."""
        return self.device.type == "cuda"

    @property
    def dtype(self) -> torch.dtype:
        """The weights' type."""
        dtype: torch.dtype = self.base.embed_tokens.weight.dtype
        return dtype

    @property
    def kv_shape(self) -> tuple[int, int]:
        """Key-value heads and the width of one."""
        attention = self.layers[0].self_attn
        return int(self.config.num_key_value_heads), int(attention.head_dim)

    def layer_weights(self) -> int:
        """Weights of one decoder layer."""
        return sum(parameter.numel() for parameter in self.layers[0].parameters())

    def embed(self, ids: Tensor) -> Tensor:
        """Token embeddings."""
        embedded: Tensor = self.base.embed_tokens(ids)
        return embedded

    def rotate(self, hidden: Tensor, positions: Tensor) -> Rotation:
        """The rotary embedding of these positions, one row a token."""
        cos, sin = self.base.rotary_emb(hidden, positions)
        return cos, sin

    def mask(self, layer: int, queries: Tensor, keys: Tensor, valid: Tensor) -> Tensor | None:
        """Where queries may look, [batch, 1, queries, keys], both given by their positions, [batch, tokens].

        None: attention without a mask sees the same, and is faster.
        """
        window = self.windows[layer]
        whole = bool(valid.all())
        # A window that reaches over all positions (gaps of dropped tokens included) is none.
        if window is not None and int(queries.max() - keys.min()) < window:
            window = None
        # Order is position, so plain causality holds within a prefill, and one last query sees all.
        # Eager attention without a mask is not causal.
        eager = self.config._attn_implementation == "eager"
        if whole and window is None and queries.shape[1] in ((1,) if eager else (1, keys.shape[1])):
            return None
        look = keys[:, None, :] <= queries[:, :, None]
        if window is not None:
            look &= keys[:, None, :] > queries[:, :, None] - window
        look &= valid[:, None, :]
        # A padded query looks at nothing real; let it see itself, for softmax of nothing is NaN.
        blind = ~look.any(2, keepdim=True)
        return (look | blind)[:, None]

    def run_layer(
        self,
        index: int,
        hidden: Tensor,
        mask: Tensor | None,
        positions: Tensor,
        rotation: Rotation,
        cache: Any,
    ) -> Tensor:
        """One decoder layer. `mask` is true where a query may look."""
        if cache is not None and self.config._attn_implementation in ("sdpa", NAME):
            fused = self.fused_layer(index)
            if fused is not None:

                def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
                    keys, values = cache.update(keys, values, index)
                    return attend_cached(queries, keys, values, mask, fused.scale)

                return fused(hidden, rotation, attend, self.check)
        self.check()
        if mask is not None and self.config._attn_implementation == "eager":
            # Eager attention adds its mask.
            mask = torch.zeros(mask.shape, dtype=hidden.dtype, device=hidden.device).masked_fill(
                ~mask, torch.finfo(hidden.dtype).min
            )
        out = self.layers[index](
            hidden,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            position_embeddings=rotation,
        )
        # Older versions of transformers give a tuple.
        result: Tensor = out[0] if isinstance(out, tuple) else out
        return result

    def fused_layer(self, index: int) -> FusedLayer | None:
        """None for a layer with parts of its own, or with hooks: those want to be called."""
        layer = self.layers[index]
        # The joined weights are plain tensors: no gradient would reach the parameters through them.
        if torch.is_grad_enabled() or layer._forward_hooks or layer._forward_pre_hooks:
            return None
        fused = self._fused.get(index)
        # None is remembered too: finding it out takes a look at all parts of the layer.
        if index not in self._fused or (fused is not None and fused.stale()):
            self._fused[index] = fused = fuse(layer, self.config)
        return fused

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits of these hidden states."""
        out: Tensor = self.model.lm_head(self.base.norm(hidden))
        return out

    def queries_and_keys(self, index: int, hidden: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor]:
        """What layer `index` would ask and offer, rotated: [batch, heads, tokens, width] each."""
        attention = self.layers[index].self_attn
        states = self.layers[index].input_layernorm(hidden)
        shape = (*states.shape[:-1], -1, attention.head_dim)
        queries, keys = attention.q_proj(states).view(shape), attention.k_proj(states).view(shape)
        # Qwen3 norms them first; the other families have no such part.
        if hasattr(attention, "q_norm"):
            queries, keys = attention.q_norm(queries), attention.k_norm(keys)
        # Families rotate in their own way (GLM only half of each head): use the one beside the attention.
        apply = sys.modules[type(attention).__module__].apply_rotary_pos_emb
        queries, keys = apply(queries.transpose(1, 2), keys.transpose(1, 2), *rotation)
        return queries, keys


def _window(config: Any, index: int) -> int | None:
    """The sliding window of a layer, if it has one."""
    window = getattr(config, "sliding_window", None)
    if window is None:
        return None
    # Where the config says it of each layer (Qwen2, Qwen3), that counts.
    kinds = getattr(config, "layer_types", None)
    if kinds is not None:
        return int(window) if kinds[index] == "sliding_attention" else None
    # Mistral has no such switch: there a window that is set is used.
    return int(window) if getattr(config, "use_sliding_window", True) else None


@contextmanager
def within_memory(backbone: Backbone, tokens: int) -> Iterator[None]:
    """Reading so many tokens, or, where a GPU is full, an error that says what would fit."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        heads, width = backbone.kv_shape
        cached = 2 * heads * width * backbone.n_layers
        # The widest moment of a layer: gate and up, their product, and the states around them.
        working = 3 * int(backbone.config.intermediate_size) + 4 * backbone.hidden
        each = (cached + working) * backbone.dtype.itemsize
        free = ""
        if backbone.on_gpu:
            room = torch.cuda.mem_get_info(backbone.device)[0]
            # What torch's allocator holds and nobody uses is free as well.
            unused = torch.cuda.memory_reserved(backbone.device) - torch.cuda.memory_allocated(
                backbone.device
            )
            free = (
                f"; {(room + unused) / 2**30:.1f} GiB are free, enough for about {(room + unused) // each:,}"
            )
        raise BraceError(
            f"out of memory while reading {tokens:,} tokens (about {tokens * each / 2**30:.1f} GiB beside "
            f"the weights){free}: shorten the context, end other sessions, or take a smaller model"
        ) from error
