"""How fast the embedded planner reads and writes on this machine, in tokens a second.

    python benchmarks/prefill.py

Reading is a fresh prompt each time (nothing cached), writing is one token after another behind it. The last
column is reading the same prompt pruned to 512 tokens with the shipped predictor, and what share of that time
is the predictor's scoring.
"""

from __future__ import annotations

import statistics
import time

import torch
from torch import Tensor

from brace.erecap import Context, Engine, Keep
from brace.erecap.models import TOKENS, load_model
from brace.erecap.scorers import Predictor, ScoreInput
from brace.planners.local import EMBEDDED

LENGTHS = (512, 2048, 4096)
BUDGET = 512
WRITTEN = 32
REPEATS = 5


class TimedPredictor(Predictor):
    """Knows how long it has scored."""

    spent = 0.0

    def score(self, given: ScoreInput) -> Tensor:
        begun = time.perf_counter()
        worth = super().score(given)
        self.spent += time.perf_counter() - begun
        return worth


def read(engine: Engine, ids: Tensor, keep: Keep) -> tuple[Context, float]:
    """The context, and the seconds it took."""
    begun = time.perf_counter()
    context = engine.prefill(ids, keep=keep).context
    return context, time.perf_counter() - begun


def main() -> None:
    print(f"{torch.get_num_threads()} threads")
    for name in ("float32", "bfloat16"):
        model, _ = load_model(EMBEDDED, getattr(torch, name))
        predictor = TimedPredictor(EMBEDDED / TOKENS)
        engine = Engine(model, predictor)
        for length in LENGTHS:
            ids = torch.randint(3, model.config.vocab_size, (1, length))
            reading, writing, pruning, scoring = [], [], [], []
            for _ in range(REPEATS):
                context, seconds = read(engine, ids, Keep())
                reading.append(seconds)
                begun = time.perf_counter()
                for _ in range(WRITTEN):
                    engine.extend(context, ids[:, :1])
                writing.append(time.perf_counter() - begun)
                predictor.spent = 0.0
                pruning.append(read(engine, ids, Keep(budget=BUDGET))[1])
                scoring.append(predictor.spent / pruning[-1])
            fast, slow = length / statistics.median(reading), WRITTEN / statistics.median(writing)
            told = f"{name:9} {length:5} tokens: reads {fast:6.0f}/s, then writes {slow:4.0f}/s"
            if length > BUDGET:
                pruned, share = length / statistics.median(pruning), statistics.median(scoring)
                told += f"; pruned to {BUDGET} reads {pruned:6.0f}/s, of it scoring {share:.1%}"
            print(told, flush=True)


if __name__ == "__main__":
    main()
