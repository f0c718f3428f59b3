"""How fast the embedded planner reads and writes on this machine, in tokens a second.

    python benchmarks/prefill.py

Reading is a fresh prompt each time (nothing cached), writing is one token after another behind it.
"""

from __future__ import annotations

import statistics
import time

import torch

from brace.erecap import Engine
from brace.erecap.models import load_model
from brace.planners.local import EMBEDDED

LENGTHS = (512, 2048, 4096)
WRITTEN = 32
REPEATS = 5


def main() -> None:
    print(f"{torch.get_num_threads()} threads")
    for name in ("float32", "bfloat16"):
        model, _ = load_model(EMBEDDED, getattr(torch, name))
        engine = Engine(model)
        for length in LENGTHS:
            ids = torch.randint(3, model.config.vocab_size, (1, length))
            reading, writing = [], []
            for _ in range(REPEATS):
                begun = time.perf_counter()
                context = engine.prefill(ids).context
                reading.append(time.perf_counter() - begun)
                begun = time.perf_counter()
                for _ in range(WRITTEN):
                    engine.extend(context, ids[:, :1])
                writing.append(time.perf_counter() - begun)
            read, write = length / statistics.median(reading), WRITTEN / statistics.median(writing)
            print(f"{name:9} {length:5} tokens: reads {read:6.0f}/s, then writes {write:4.0f}/s", flush=True)


if __name__ == "__main__":
    main()
