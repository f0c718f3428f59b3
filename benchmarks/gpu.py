"""The engine on a GPU against its floors and against `generate`: random weights at a real model's shape.

    python benchmarks/gpu.py --shape qwen2-7b --tokens 128 1024 12847 --ratios 1 0.7
    python benchmarks/gpu.py --shape tiny --tokens 128 300 --new 8        # on a CPU: that it runs

Latency does not depend on the weights' values. Floors are computed: a prefill's arithmetic over the measured
rate of a large product, a decoded token's bytes (weights, keys and values) over the measured rate of a large
copy. Medians of repeated runs, bfloat16, batch 1, all in one run. Rows go to --out as JSON lines.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from brace.erecap import Backbone, Engine, Keep, Prefill, Schedule, Session, pruning_layers
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


def timed(work: Callable[[], Any], repeats: int) -> list[float]:
    """Milliseconds of each run, after one that does not count."""
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
        """Milliseconds: its arithmetic, or reading the weights once, whichever takes longer."""
        flops = schedule.flops(self._backbone.hidden, self._backbone.layer_weights())
        return max(1e3 * flops / self.arithmetic, 1e3 * self._weights / self.bandwidth)

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


def decode(engine: Engine, prefill: Prefill, count: int) -> None:
    """So many tokens, greedily, each known to the host before the next is asked for."""
    context = prefill.context
    for _ in range(count):
        token = int(context.logits.argmax())
        engine.extend(context, torch.tensor([[token]], device=DEVICE))


def engine_rows(model: Any, floors: Floors, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Both ways through the engine: prefill, decode, memory."""
    layers = pruning_layers(model.config.num_hidden_layers)
    torch.manual_seed(1)
    predictor = Predictor.fresh(model.config.model_type, model.config.hidden_size, layers).to(DEVICE).eval()
    for path in given.paths:
        engine = Engine(model, predictor, path=path)
        for tokens in given.tokens:
            ids = torch.randint(3, model.config.vocab_size, (1, tokens), device=DEVICE)
            for ratio in given.ratios:
                keep = Keep() if ratio >= 1 else Keep(ratio=ratio)
                schedule = keep.schedule(tokens, engine.backbone.n_layers)
                yield _engine_row(engine, floors, ids, keep, schedule, given) | {
                    "path": path, "tokens": tokens, "ratio": ratio,
                }  # fmt: skip


def _engine_row(
    engine: Engine,
    floors: Floors,
    ids: torch.Tensor,
    keep: Keep,
    schedule: Schedule,
    given: argparse.Namespace,
) -> dict[str, Any]:
    if DEVICE.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    made = engine.prefill(ids, keep=keep)
    decode(engine, made, 1)
    wait()
    cold = 1e3 * (time.perf_counter() - start)
    del made
    reading = timed(lambda: engine.prefill(ids, keep=keep), given.repeats)
    writing = []
    for _ in range(3):
        made = engine.prefill(ids, keep=keep)
        decode(engine, made, 2)
        wait()
        start = time.perf_counter()
        decode(engine, made, given.new)
        wait()
        writing.append(1e3 * (time.perf_counter() - start) / given.new)
        del made
    row = {
        "what": "engine", "cold_ms": cold,
        "prefill_ms": statistics.median(reading), "prefill_worst_ms": max(reading),
        "prefill_floor_ms": floors.prefill(schedule),
        "decode_ms": statistics.median(writing), "decode_floor_ms": floors.decode(schedule),
        "last_layer": schedule.last,
    }  # fmt: skip
    row["prefill_x_floor"] = row["prefill_ms"] / row["prefill_floor_ms"]
    row["decode_x_floor"] = row["decode_ms"] / row["decode_floor_ms"]
    row["call_ms"] = row["prefill_ms"] + given.new * row["decode_ms"]
    if DEVICE.type == "cuda":
        row["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    return row


def session_rows(model: Any, floors: Floors, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A suffix after a pruned context."""
    layers = pruning_layers(model.config.num_hidden_layers)
    predictor = Predictor.fresh(model.config.model_type, model.config.hidden_size, layers).to(DEVICE).eval()
    engine = Engine(model, predictor, path="static")
    for tokens in given.tokens:
        ids = torch.randint(3, model.config.vocab_size, (tokens + given.suffix,)).tolist()
        keep = Keep(ratio=0.7)
        schedule = keep.schedule(tokens, engine.backbone.n_layers)
        session = Session(engine, budget=schedule.last + given.suffix, compact_to=schedule.last)
        times = []
        for _ in range(given.repeats + 1):
            session.read(ids[:tokens])
            wait()
            start = time.perf_counter()
            how = session.read(ids).how
            wait()
            times.append(1e3 * (time.perf_counter() - start))
        floor = floors.suffix(schedule, given.suffix)
        took = statistics.median(times[1:])
        yield {
            "what": "suffix", "tokens": tokens, "suffix": given.suffix, "how": how, "ms": took,
            "floor_ms": floor, "x_floor": took / floor,
        }  # fmt: skip


def generate_rows(model: Any, _: Floors, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """transformers itself, the whole context: its default, and a static cache with compiled steps."""
    for tokens in given.tokens:
        ids = torch.randint(3, model.config.vocab_size, (1, tokens), device=DEVICE)
        for name, options in (("default", {}), ("static cache", {"cache_implementation": "static"})):
            if name != "default" and DEVICE.type != "cuda":
                continue

            def call(options: dict[str, Any] = options, ids: torch.Tensor = ids) -> None:
                model.generate(ids, max_new_tokens=given.new, do_sample=False, **options)

            start = time.perf_counter()
            call()
            wait()
            cold = 1e3 * (time.perf_counter() - start)
            took = statistics.median(timed(call, max(1, given.repeats // 3)))
            yield {"what": "generate", "how": name, "tokens": tokens, "call_ms": took, "cold_ms": cold}


PARTS = {"engine": engine_rows, "suffix": session_rows, "generate": generate_rows}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="qwen2-7b")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tokens", nargs="+", type=int, default=[128, 235, 1024, 2847, 12847, 38924])
    parser.add_argument("--ratios", nargs="+", type=float, default=[1.0, 0.9, 0.7, 0.5])
    parser.add_argument("--paths", nargs="+", choices=("eager", "static"), default=["static", "eager"])
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--suffix", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--out", type=Path, default=None, help="a file for JSON lines")
    given = parser.parse_args()
    card = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "CPU"
    model = build(given.shape)
    floors = Floors(Backbone(model))
    where = {"shape": given.shape, "card": card, "torch": torch.__version__}
    where |= {"tflops": round(floors.arithmetic / 1e12, 2), "gb_s": round(floors.bandwidth / 1e9)}
    for part in given.parts:
        for row in PARTS[part](model, floors, given):
            told = {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}
            print(json.dumps(where | told), flush=True)
            if given.out is not None:
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(where | told) + "\n")


if __name__ == "__main__":
    main()
