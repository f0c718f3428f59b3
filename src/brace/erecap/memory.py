"""When a GPU is full: what was asked of it, and what would fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from brace.erecap.backbone import Backbone
from brace.errors import BraceError


@contextmanager
def within_memory(backbone: Backbone, tokens: int) -> Iterator[None]:
    """Reading so many tokens, or a clear error."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise BraceError(_message(backbone, tokens)) from error


def _message(backbone: Backbone, tokens: int) -> str:
    heads, width = backbone.kv_shape
    cached = 2 * heads * width * backbone.n_layers
    # The widest moment of a layer: gate and up, their product, and the states around them.
    working = 3 * int(backbone.config.intermediate_size) + 4 * backbone.hidden
    each = (cached + working) * backbone.dtype.itemsize
    need = f"about {tokens * each / 2**30:.1f} GiB beside the weights"
    free = ""
    if backbone.device.type == "cuda":
        room = torch.cuda.mem_get_info(backbone.device)[0]
        unused = torch.cuda.memory_reserved(backbone.device) - torch.cuda.memory_allocated(backbone.device)
        free = f"; {(room + unused) / 2**30:.1f} GiB are free, enough for about {(room + unused) // each:,}"
    return (
        f"out of memory while reading {tokens:,} tokens ({need}){free}: shorten the context, end other "
        "sessions, or take a smaller model"
    )
