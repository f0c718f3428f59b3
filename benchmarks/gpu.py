"""The engine on a GPU against its floors and against `generate`: random weights at a real model's shape.

    python benchmarks/gpu.py --shape qwen2-7b --tokens 128 1024 12847 --ratios 1 0.7
    python benchmarks/gpu.py --shape tiny --tokens 128 300 --new 8        # on a CPU: that it runs

Latency does not depend on the weights' values. Floors are computed: a prefill's arithmetic over the measured
rate of a large product, a decoded token's bytes (weights, keys and values) over the measured rate of a large
copy. Medians of repeated runs, bfloat16, batch 1, all in one run. Rows go to --out as JSON lines;
`benchmarks/gpu_table.py` makes tables of them.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from gpu_kit import DEVICE, SHAPES, Floors, build, engine_of, timed, wait
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import StoppingCriteria

from brace.erecap import Backbone, Engine, Keep, Session
from brace.erecap.static.buckets import bucket_of, quantum

Row = dict[str, Any]
FEW = 16
"""New tokens of a short answer, beside --new."""


def decode(engine: Engine, context: Any, count: int) -> None:
    """So many tokens, greedily, each known to the host before the next is asked for."""
    for _ in range(count):
        token = int(context.logits.argmax())
        engine.extend(context, torch.tensor([[token]], device=DEVICE))


def keep_of(ratio: float) -> Keep:
    """Everything, or a share at each pruning layer."""
    return Keep() if ratio >= 1 else Keep(ratio=ratio)


def draw(model: Any, tokens: int) -> torch.Tensor:
    """A text."""
    return torch.randint(3, model.config.vocab_size, (1, tokens), device=DEVICE)


def peak_gib(above: int = 0) -> float:
    """The most memory since the last reset, less what was taken before."""
    return (torch.cuda.max_memory_allocated() - above) / 2**30 if DEVICE.type == "cuda" else 0.0


def fresh_peak() -> int:
    """Begin to watch memory; what is taken now."""
    if DEVICE.type != "cuda":
        return 0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def engine_rows(model: Any, floors: Floors, given: argparse.Namespace) -> Iterator[Row]:
    """Both ways through the engine: prefill, decode."""
    for path in given.paths:
        engine = engine_of(model, path)
        for tokens in given.tokens:
            ids = draw(model, tokens)
            for ratio in given.ratios:
                row = engine_row(engine, floors, ids, keep_of(ratio), given)
                yield {"what": "engine", "path": path, "tokens": tokens, "ratio": ratio} | row


def engine_row(
    engine: Engine, floors: Floors, ids: torch.Tensor, keep: Keep, given: argparse.Namespace
) -> Row:
    """One length, one ratio."""
    start = time.perf_counter()
    made = engine.prefill(ids, keep=keep)
    decode(engine, made.context, 1)
    wait()
    cold = 1e3 * (time.perf_counter() - start)
    # The engine may find out meanwhile that pruning does not pay here.
    for _ in range(3):
        made = engine.prefill(ids, keep=keep)
    del made
    reading = timed(lambda: engine.prefill(ids, keep=keep), given.repeats)
    writing = []
    for _ in range(3):
        made = engine.prefill(ids, keep=keep)
        decode(engine, made.context, 2)
        wait()
        start = time.perf_counter()
        decode(engine, made.context, given.new)
        wait()
        writing.append(1e3 * (time.perf_counter() - start) / given.new)
    done, asked = made.schedules[0], keep.schedule(ids.shape[1], engine.backbone.n_layers)
    read, written = statistics.median(reading), statistics.median(writing)
    return {
        "cold_ms": cold, "how": made.path_note, "last_layer": done.last,
        "prefill_ms": read, "prefill_worst_ms": max(reading), "prefill_floor_ms": floors.prefill(asked),
        "prefill_x_floor": read / floors.prefill(asked),
        "decode_ms": written, "decode_floor_ms": floors.decode(done),
        "call_ms": read + given.new * written, "call_few_ms": read + FEW * written,
    }  # fmt: skip


def memory_rows(model: Any, _: Floors, given: argparse.Namespace) -> Iterator[Row]:
    """What a prefill takes beside the weights, each with an engine of its own."""
    for tokens in given.tokens:
        ids = draw(model, tokens)
        for ratio in given.ratios:
            before = fresh_peak()
            engine = engine_of(model)
            context = engine.prefill(ids, keep=keep_of(ratio)).context
            decode(engine, context, 2)
            wait()
            yield {
                "what": "memory", "tokens": tokens, "ratio": ratio, "peak_gib": peak_gib(before),
                "cached_gib": context.nbytes() / 2**30,
            }  # fmt: skip
            del engine, context


def suffix_rows(model: Any, floors: Floors, given: argparse.Namespace) -> Iterator[Row]:
    """More text after a pruned context."""
    engine = engine_of(model)
    # With eviction the scorer notes what the new tokens are worth, which costs a little.
    for tokens, evict in product(given.tokens, (False, True)):
        ids = draw(model, tokens + given.suffix)[0].tolist()
        schedule = Keep(ratio=0.7).schedule(tokens, engine.backbone.n_layers)
        session = Session(engine, budget=schedule.last + given.suffix, compact_to=schedule.last, evict=evict)
        times = []
        for _ in range(given.repeats + 1):
            session.read(ids[:tokens])
            wait()
            start = time.perf_counter()
            how = session.read(ids).how
            wait()
            times.append(1e3 * (time.perf_counter() - start))
        floor, took = floors.suffix(schedule, given.suffix), statistics.median(times[1:])
        yield {
            "what": "suffix", "tokens": tokens, "suffix": given.suffix, "how": how, "noted": evict,
            "ms": took, "floor_ms": floor, "x_floor": took / floor,
        }  # fmt: skip


def growth_rows(model: Any, _: Floors, given: argparse.Namespace) -> Iterator[Row]:
    """A context that grows from call to call: pruned anew each time, or read on and compacted rarely."""
    first, last = min(given.tokens), max(given.tokens)
    sizes = [first + (last - first) * call // (given.growth - 1) for call in range(given.growth)]
    ids = draw(model, last)
    for name in ("prune each call", "prefix + compaction", "prefix + eviction", "prefix, whole"):
        before = fresh_peak()
        engine = engine_of(model)
        session = Session(engine)
        if name == "prefix + compaction":
            session = Session(engine, budget=first, compact_to=first // 3, evict=False)
        elif name == "prefix + eviction":
            session = Session(engine, budget=first)
        times, hows = [], []
        # Twice: the first time every shape is new.
        for size in [*sizes, *sizes]:
            wait()
            start = time.perf_counter()
            if name == "prune each call":
                context = engine.prefill(ids[:, :size], keep=Keep(ratio=0.7)).context
                hows.append("read")
            else:
                hows.append(session.read(ids[0, :size].tolist()).how)
                context = session.context
            decode(engine, context, FEW)
            wait()
            times.append(1e3 * (time.perf_counter() - start))
        cold, times, hows = times[: len(sizes)], times[len(sizes) :], hows[len(sizes) :]
        yield {
            "what": "growth", "how": name, "calls": len(sizes), "from": first, "to": last, "new": FEW,
            "total_ms": sum(times), "p50_ms": statistics.median(times), "worst_ms": max(times),
            "compactions": hows.count("compacted"), "evictions": hows.count("evicted"),
            "cold_total_ms": sum(cold), "cold_worst_ms": max(cold),
            "peak_gib": peak_gib(before),
        }  # fmt: skip
        del engine, session, context


def tail_rows(model: Any, _: Floors, given: argparse.Namespace) -> Iterator[Row]:
    """Many calls of one length, and of all lengths of its bucket."""
    engine = engine_of(model)
    for tokens in given.tokens:
        top = bucket_of(tokens) or quantum(tokens)
        low = next(size for size in range(top, 0, -1) if (bucket_of(size - 1) or quantum(size - 1)) != top)
        chosen = random.Random(0)
        for kind, lengths in (
            ("fixed", [tokens] * given.calls),
            ("mixed", [chosen.randint(low, top) for _ in range(given.calls)]),
        ):
            ids = draw(model, top)
            times = []
            for length in [low, top, tokens, *lengths]:
                wait()
                start = time.perf_counter()
                made = engine.prefill(ids[:, :length], keep=Keep(ratio=0.7))
                decode(engine, made.context, 4)
                wait()
                times.append(1e3 * (time.perf_counter() - start))
            middle, high = statistics.median(times[3:]), statistics.quantiles(times[3:], n=100)[98]
            yield {
                "what": "tail", "kind": kind, "tokens": tokens, "low": low, "high": top,
                "calls": len(lengths), "new": 4, "p50_ms": middle, "p99_ms": high,
                "p99_x_p50": high / middle, "worst_ms": max(times[3:]),
            }  # fmt: skip


class StopAfter(StoppingCriteria):
    """`generate` with a cache for many tokens, of which few are written."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        """Whether there are enough, for each row."""
        enough = input_ids.shape[1] >= self._length
        return torch.full((len(input_ids),), enough, device=input_ids.device)


def best_eager(model: Any, ids: torch.Tensor, count: int) -> None:
    """Greedy, uncompiled, with the faster attention in each phase."""
    with torch.inference_mode():
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            out = model(ids, use_cache=True, logits_to_keep=1)
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            for _ in range(count):
                token = out.logits[:, -1].argmax(-1, keepdim=True)
                int(token)
                out = model(token, past_key_values=out.past_key_values, use_cache=True)


def generate_rows(model: Any, _: Floors, given: argparse.Namespace) -> Iterator[Row]:
    """transformers itself with the whole context: as it comes, at its eager best, compiled."""

    def generated(**options: Any) -> Callable[[torch.Tensor, int], None]:
        def call(ids: torch.Tensor, count: int) -> None:
            stop = [StopAfter(ids.shape[1] + count)]
            model.generate(ids, max_new_tokens=given.new, do_sample=False, stopping_criteria=stop, **options)

        return call

    ways: dict[str, Callable[[torch.Tensor, int], None]] = {
        "default": generated(),
        "best eager": lambda ids, count: best_eager(model, ids, count),
    }
    if DEVICE.type == "cuda":
        ways["static cache, compiled"] = generated(cache_implementation="static")
    for name, call in ways.items():
        for tokens in given.tokens:
            ids = draw(model, tokens)
            often = max(1, given.repeats // 3)
            cold, *times = timed(partial(call, ids, given.new), 1 + often, warm=False)
            few = timed(partial(call, ids, FEW), often, warm=False)
            # A growing context is never of the same length twice, and kernels are planned for lengths.
            other = [draw(model, tokens + 100 * number) for number in range(1, 1 + often)]
            fresh = [timed(partial(call, longer, given.new), 1, warm=False)[0] for longer in other]
            yield {
                "what": "generate", "how": name, "tokens": tokens, "cold_ms": cold,
                "call_ms": statistics.median(times), "call_few_ms": statistics.median(few),
                "call_new_length_ms": statistics.median(fresh),
            }  # fmt: skip


def same_rows(model: Any, _: Floors, given: argparse.Namespace) -> Iterator[Row]:
    """How far both ways agree at size: what they keep, and their logits."""
    for tokens in given.tokens:
        ids = draw(model, tokens)
        for ratio in given.ratios:
            eager, static = (
                engine_of(model, path).prefill(ids, keep=keep_of(ratio)) for path in ("eager", "static")
            )
            if eager.schedules != static.schedules:
                continue
            kept = (eager.survivors[-1] & static.survivors[-1]).sum() / eager.survivors[-1].sum()
            logits = [made.context.logits.float() for made in (eager, static)]
            yield {
                "what": "same", "tokens": tokens, "ratio": ratio, "kept_by_both": float(kept),
                "logits_apart": float((logits[0] - logits[1]).abs().max() / logits[0].std()),
                "same_token": bool(logits[0].argmax() == logits[1].argmax()),
            }  # fmt: skip


PARTS = {
    "engine": engine_rows, "memory": memory_rows, "suffix": suffix_rows, "growth": growth_rows,
    "tail": tail_rows, "generate": generate_rows, "same": same_rows,
}  # fmt: skip


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="qwen2-7b")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tokens", nargs="+", type=int, default=[128, 235, 1024, 2847, 12847, 38924])
    parser.add_argument("--ratios", nargs="+", type=float, default=[1.0, 0.9, 0.7, 0.5])
    parser.add_argument("--paths", nargs="+", choices=("eager", "static"), default=["static", "eager"])
    parser.add_argument("--new", type=int, default=64, help="new tokens of a call")
    parser.add_argument("--suffix", type=int, default=512, help="tokens read after a pruned context")
    parser.add_argument("--growth", type=int, default=30, help="calls with a context that grows")
    parser.add_argument("--calls", type=int, default=200, help="calls for the tail")
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
            told = {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}
            print(json.dumps(where | told), flush=True)
            if given.out is not None:
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(where | told) + "\n")


if __name__ == "__main__":
    main()
