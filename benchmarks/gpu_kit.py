"""Models of random weights at real shapes, timing and floors: what the GPU benchmarks share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from brace.erecap import Backbone, Engine, Schedule, pruning_layers
from brace.erecap.engine import Path
from brace.erecap.scorers import Predictor

_LLAMA = {"model_type": "llama", "tie_word_embeddings": False}
SHAPES: dict[str, dict[str, Any]] = {
    "qwen2-7b": {
        "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    },
    "qwen2.5-7b": {
        "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    },
    "llama-2-7b": _LLAMA | {
        "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000,
    },
    "llama-3-8b": _LLAMA | {
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    },
    "mistral-7b": {
        "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32768, "sliding_window": None,
    },
    "glm-6b": {
        "model_type": "glm", "hidden_size": 4096, "intermediate_size": 13696, "num_hidden_layers": 28,
        "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 65024,
        "pad_token_id": 0, "eos_token_id": [2],
    },
    "tiny": _LLAMA | {
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 8,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 500,
    },
}  # fmt: skip
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DTYPE = torch.bfloat16 if DEVICE.type == "cuda" else torch.float32


def build(shape: str) -> Any:
    """A model of random weights, made where it will be used."""
    config = AutoConfig.for_model(**SHAPES[shape], max_position_embeddings=49152)
    torch.manual_seed(0)
    with torch.device(DEVICE):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=DTYPE, attn_implementation="sdpa")
    # Their own end would cut a comparison of equally many tokens short.
    model.generation_config.eos_token_id = None
    return model.eval()


def wait() -> None:
    """Until the device has done all it was asked."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def timed(work: Callable[[], Any], repeats: int, *, warm: bool = True) -> list[float]:
    """Milliseconds of each run; with `warm` after one that does not count."""
    if warm:
        work()
    times = []
    for _ in range(repeats):
        wait()
        start = time.perf_counter()
        work()
        wait()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def rates() -> tuple[float, float]:
    """Operations a second of a large product, bytes a second of a large copy."""
    size = 8192 if DEVICE.type == "cuda" else 512
    one = torch.randn(size, size, device=DEVICE, dtype=DTYPE)
    product = min(timed(lambda: one @ one, 10))
    many = torch.empty(2**31 if DEVICE.type == "cuda" else 2**24, dtype=torch.uint8, device=DEVICE)
    copy = min(timed(many.clone, 10))
    return 2e3 * size**3 / product, 2e3 * many.numel() / copy


class Floors:
    """What the card could do at best."""

    def __init__(self, backbone: Backbone) -> None:
        self.arithmetic, self.bandwidth = rates()
        self._backbone = backbone
        heads = backbone.model.lm_head.weight
        self._weights = (backbone.layer_weights() * backbone.n_layers + heads.numel()) * heads.element_size()

    def prefill(self, schedule: Schedule) -> float:
        """Milliseconds: layer by layer its arithmetic, or reading the weights, whichever takes longer.

        A layer's work cannot begin before the one before it has ended, so that the sum is a floor.
        """
        each = self._backbone.layer_weights()
        reading = each * DTYPE.itemsize / self.bandwidth
        one_layer = (Schedule(n, 1, (), ()).flops(self._backbone.hidden, each) for n in schedule.lengths())
        layers = sum(max(flops / self.arithmetic, reading) for flops in one_layer)
        head = self._weights / self.bandwidth - self._backbone.n_layers * reading
        return 1e3 * (layers + head)

    def decode(self, schedule: Schedule) -> float:
        """Milliseconds a token: its bytes."""
        kept = schedule.kv_bytes(*self._backbone.kv_shape, bytes_each=DTYPE.itemsize)
        return 1e3 * (self._weights + kept) / self.bandwidth

    def suffix(self, schedule: Schedule, tokens: int) -> float:
        """Milliseconds to read so many more after what is held."""
        width = self._backbone.hidden
        weights = 2.0 * self._backbone.layer_weights() * tokens * self._backbone.n_layers
        looks = sum(4.0 * width * tokens * (held + tokens / 2) for held in schedule.lengths())
        return max(1e3 * (weights + looks) / self.arithmetic, 1e3 * self._weights / self.bandwidth)


def engine_of(model: Any, path: Path = "auto") -> Engine:
    """With an untrained predictor: it takes as long as a trained one."""
    layers = pruning_layers(model.config.num_hidden_layers)
    torch.manual_seed(1)
    predictor = Predictor.fresh(model.config.model_type, model.config.hidden_size, layers)
    return Engine(model, predictor.eval(), path=path)
