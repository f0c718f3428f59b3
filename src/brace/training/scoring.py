"""How well a planner model reads: the share of exactly right plans on texts it has not seen."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import torch

from brace.training.batches import PLAN_WEIGHT, Encoder
from brace.training.lessons import make_lesson
from brace.training.logs import Log
from brace.training.readers import reader_of


def exact_plans(
    model: Any,
    logs: dict[str, list[Log]],
    encoder: Encoder,
    lengths: tuple[int, ...],
    each: int,
    seed: int = 0,
) -> dict[tuple[str, int], float]:
    """By world and length: the share of lessons whose whole plan is the most likely text, token by token."""
    draw = random.Random(seed)
    hits: dict[tuple[str, int], list[bool]] = defaultdict(list)
    device = next(model.parameters()).device
    model.eval()
    for world, mine in logs.items():
        for length in lengths:
            for _ in range(each):
                log = draw.choice(mine)
                lesson = make_lesson(log, reader_of(log), draw, int(length * 2.4))
                ids, weights, start = encoder.encode(lesson)
                end = start + weights[start:].count(PLAN_WEIGHT)
                if end > 8192:
                    continue
                x = torch.tensor([ids[:end]], device=device)
                # Every text has a length of its own: compiling for each would take longer than reading.
                eager = torch.compiler.set_stance("force_eager")
                with eager, torch.inference_mode(), torch.autocast(device.type, torch.bfloat16):
                    hidden = model.model(x, use_cache=False).last_hidden_state[:, start - 1 : end - 1]
                    guess = model.lm_head(hidden)[0].argmax(-1).tolist()
                hits[world, length].append(guess == ids[start:end])
    model.train()
    return {key: sum(values) / len(values) for key, values in hits.items() if values}
