"""E-RECAP against plain `generate`, side by side in one run: `python benchmarks/erecap.py`.

Methods take turns within each repeat and medians are shown, so that a slow minute of the machine hits all
alike. The predictor is untrained: its cost is what counts here. Peak memory is the resident high-water mark
over what was resident after a warm-up, in a process of its own for each method and length (Linux only).
`--quick` takes a tiny random model and leaves memory out.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

from brace.erecap import Engine, Keep, Session, Writing, pruning_layers, write
from brace.erecap.models import load_model
from brace.erecap.scorers import Predictor

RATIOS = (1.0, 0.9, 0.7, 0.5)
SUFFIX = 256
TINY = "tiny"
PLAIN, SUFFIXED, REREAD = "generate", "session, suffix", "generate, all anew"
MIB = 2**20


@dataclass(frozen=True)
class Setup:
    model: str
    dtype: str
    new: int
    threads: int
    cpu_time: bool


@dataclass(frozen=True)
class Call:
    first: float
    """Seconds to the first token."""
    whole: float
    kv_bytes: int


Method = Callable[[list[int]], Call]


class Subject:
    """A model and the ways to call it."""

    def __init__(self, setup: Setup) -> None:
        torch.set_num_threads(setup.threads)
        torch.manual_seed(0)
        dtype = getattr(torch, setup.dtype)
        if setup.model == TINY:
            self.model, self.encode = tiny_model().to(dtype), lambda text: list(text.encode())
        else:
            self.model, tokenizer = load_model(setup.model, dtype)
            self.encode = tokenizer.encode
        self.model.generation_config = GenerationConfig(pad_token_id=0)  # no end token: always `new` tokens
        config = self.model.config
        layers = pruning_layers(config.num_hidden_layers)
        self.engine = Engine(
            self.model, Predictor.fresh(config.model_type, config.hidden_size, layers).eval()
        )
        self.new = setup.new
        self.clock = time.process_time if setup.cpu_time else time.perf_counter
        self.methods: dict[str, Method] = {PLAIN: self.plain} | {
            f"engine r = {ratio:g}": self.pruned(ratio) for ratio in RATIOS
        }

    def text(self, tokens: int) -> list[int]:
        """Exactly this many tokens of reports."""
        ids = list(self.encode(" ".join(itertools.islice(reports(), tokens // 8 + 1))))
        assert len(ids) >= tokens
        return ids[:tokens]

    def generate(self, ids: list[int], new: int) -> tuple[float, int]:
        prompt = torch.tensor([ids])
        began = self.clock()
        out = self.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=new,
            do_sample=False,
            use_cache=True,
            return_dict_in_generate=True,
        )
        took = self.clock() - began
        assert out.sequences.shape[1] == len(ids) + new
        return took, sum(layer.keys.nbytes + layer.values.nbytes for layer in out.past_key_values.layers)

    def plain(self, ids: list[int]) -> Call:
        first, _ = self.generate(ids, 1)
        return Call(first, *self.generate(ids, self.new))

    def pruned(self, ratio: float) -> Method:
        def call(ids: list[int]) -> Call:
            began = self.clock()
            context = self.engine.prefill(torch.tensor([ids]), keep=Keep(ratio=ratio)).context
            first = self.clock() - began
            write(self.engine, context, Writing(max_new_tokens=self.new))
            return Call(first, self.clock() - began, context.nbytes())

        return call

    def suffixed(self, tokens: int) -> Method:
        """Reads only what comes after the first `tokens`, which were read before."""
        session = Session(self.engine)
        session.read(self.text(tokens))

        def call(ids: list[int]) -> Call:
            began = self.clock()
            reading = session.read(ids)
            first = self.clock() - began
            assert (reading.how, reading.tokens_cached) == ("extended", tokens)
            write(self.engine, session.context, Writing(max_new_tokens=self.new))
            whole = self.clock() - began
            kv_bytes = session.context.nbytes()
            session.read(ids[:tokens])  # back to where it was
            return Call(first, whole, kv_bytes)

        return call

    def warm_up(self) -> None:
        ids = self.text(64)
        for method in self.methods.values():
            method(ids)


def tiny_model() -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=256,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=20,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=8192,
        )
    ).eval()


def reports() -> Iterator[str]:
    """A text that goes on for ever: what agents saw, where, and what they did."""
    agents, things = ("Ada", "Ben", "Cleo", "Dov"), ("red mug", "blue box", "small lamp", "green book", "key")
    rooms = ("kitchen", "hall", "study", "bedroom", "garage", "garden", "cellar")
    acts = ("saw the {} in the {}", "moved the {} to the {}", "could not find the {} in the {}")
    for step in itertools.count():
        what = acts[step % 3].format(things[step * 7 % 5], rooms[step * 5 % 7])
        yield f"At step {step} {agents[step * 3 % 4]} {what}."


def measure(subject: Subject, tokens: int, repeats: int, advance: Callable[[], None]) -> dict[str, Call]:
    """Medians of all methods at one length."""
    long, short = subject.text(tokens + SUFFIX), subject.text(tokens)
    jobs = [(name, method, short) for name, method in subject.methods.items()]
    jobs += [(SUFFIXED, subject.suffixed(tokens), long), (REREAD, subject.plain, long)]
    calls: dict[str, list[Call]] = {name: [] for name, _, _ in jobs}
    for turn in range(repeats):
        for name, method, ids in jobs[turn % len(jobs) :] + jobs[: turn % len(jobs)]:
            calls[name].append(method(ids))
            advance()
    return {
        name: Call(
            statistics.median(call.first for call in seen),
            statistics.median(call.whole for call in seen),
            seen[0].kv_bytes,
        )
        for name, seen in calls.items()
    }


def peak(setup: Setup, name: str, tokens: int) -> float:
    """MiB that one call needs beyond the loaded, warmed-up model. For a process of its own."""
    disable_progress_bar()
    subject = Subject(setup)
    subject.warm_up()
    suffixed = name in {SUFFIXED, REREAD}
    ids = subject.text(tokens + SUFFIX * suffixed)
    before = resident("VmRSS")
    method = subject.suffixed(tokens) if name == SUFFIXED else subject.methods.get(name, subject.plain)
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    method(ids)
    return resident("VmHWM") - before


def resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def measure_peaks(
    setup: Setup, lengths: list[int], names: list[str], advance: Callable[[], None]
) -> dict[tuple[int, str], float]:
    peaks = {}
    alone = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=alone, max_tasks_per_child=1) as pool:
        for tokens, name in itertools.product(lengths, names):
            peaks[tokens, name] = pool.submit(peak, setup, name, tokens).result()
            advance()
    return peaks


def baseline(name: str) -> str:
    return REREAD if name in {SUFFIXED, REREAD} else PLAIN


def verdict(tokens: int, name: str, calls: dict[str, Call]) -> str:
    """The target of a row, and whether it is met."""
    mine, other = calls[name], calls[baseline(name)]
    if name == "engine r = 1":
        return mark("call ≤ 1.05 × generate", mine.whole <= 1.05 * other.whole)
    if tokens == 4096 and name == "engine r = 0.7":
        return mark("call ≥ 1.8 × faster", other.whole >= 1.8 * mine.whole)
    if tokens == 4096 and name == SUFFIXED:
        return mark("prefill ≥ 6 × faster", other.first >= 6 * mine.first)
    return ""


def mark(target: str, met: bool) -> str:
    return f"[green]{target}: met[/]" if met else f"[red]{target}: missed[/]"


def show(
    setup: Setup, results: dict[int, dict[str, Call]], peaks: dict[tuple[int, str], float]
) -> Iterator[Table]:
    """One table a length. In brackets: how many times faster than the plain way."""
    for tokens, calls in results.items():
        clock = "processor time" if setup.cpu_time else "wall clock"
        table = Table(title=f"N = {tokens}, {setup.new} new, {setup.dtype}, {setup.threads} threads, {clock}")
        table.add_column("method")
        for column in ("prefill s", "decode ms/token", "whole call s", "KV MiB", "peak MiB over model"):
            table.add_column(column, justify="right")
        table.add_column("target")
        for name, call in calls.items():
            other = calls[baseline(name)]
            decode, plain = per_token(call, setup.new), per_token(other, setup.new)
            table.add_row(
                f"{name} of {SUFFIX}" if name == SUFFIXED else name,
                f"{call.first:.3f} ({other.first / call.first:.2f}×)",
                f"{decode:.1f} ({plain / decode:.2f}×)",
                f"{call.whole:.3f} ({other.whole / call.whole:.2f}×)",
                f"{call.kv_bytes / MIB:.1f}",
                f"{peaks[tokens, name]:.0f}" if peaks else "–",
                verdict(tokens, name, calls),
                end_section=name == f"engine r = {RATIOS[-1]:g}",
            )
        yield table


def per_token(call: Call, new: int) -> float:
    return 1000 * (call.whole - call.first) / max(1, new - 1)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2", help="smollm2 or a local folder")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048, 4096])
    parser.add_argument("--new", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--cpu-time", action="store_true", help="processor time: for a busy machine, 1 thread"
    )
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--no-memory", action="store_true", help="leave peak memory out")
    parser.add_argument("--quick", action="store_true", help="a tiny random model, short texts")
    options = parser.parse_args()
    if options.quick:  # one thread: two of them wait for each other for ever on a busy machine
        options.model, options.lengths, options.new = TINY, [128, 512], 8
        options.no_memory, options.threads = True, 1
    return options


def main() -> None:
    options = parse()
    setup = Setup(options.model, options.dtype, options.new, options.threads, options.cpu_time)
    disable_progress_bar()
    subject = Subject(setup)
    subject.warm_up()
    names: list[str] = [*subject.methods, SUFFIXED, REREAD]
    results: dict[int, dict[str, Call]] = {}
    peaks: dict[tuple[int, str], float] = {}
    with Progress(transient=True) as progress:
        rounds = options.repeats + (not options.no_memory)
        bar: Any = progress.add_task("measuring", total=len(options.lengths) * len(names) * rounds)
        for tokens in options.lengths:
            results[tokens] = measure(subject, tokens, options.repeats, lambda: progress.advance(bar))
        if not options.no_memory:
            peaks = measure_peaks(setup, options.lengths, names, lambda: progress.advance(bar))
    console = Console(width=150)
    for table in show(setup, results, peaks):
        console.print(table)


if __name__ == "__main__":
    main()
