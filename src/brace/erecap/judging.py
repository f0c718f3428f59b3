"""Judging every token of a text that grows from call to call, without reading its beginning again."""

from __future__ import annotations

import torch
from torch import Tensor

from brace.erecap.attention import folded
from brace.erecap.cache import KvCache
from brace.erecap.engine import Engine
from brace.erecap.masks import mask_for
from brace.erecap.memory import within_memory
from brace.erecap.scorers.base import ScoreInput
from brace.erecap.session import common_prefix
from brace.errors import ConfigError


class Judge:
    """What the engine's scorer says of all tokens before one layer. Nothing is pruned, later layers are not
    read.

    Of a text that begins like the one before only the rest is read, if the scorer's judgements last.
    """

    def __init__(self, engine: Engine, layer: int) -> None:
        self._engine = engine
        self._layer = layer
        self._ids: list[int] = []
        self._cache = KvCache()
        self._lasting = torch.zeros((1, 0), device=engine.backbone.device)
        self.tokens_read = 0
        """By the last `scores`."""

    def scores(self, ids: list[int]) -> Tensor:
        """[tokens]: what each is worth, the text ending here."""
        backbone, scorer = self._engine.backbone, self._engine.scorer
        if not 0 < len(ids) <= backbone.max_positions:
            raise ConfigError(f"{len(ids)} tokens to judge: the model reads 1 to {backbone.max_positions}")
        self._forget_from(common_prefix(self._ids, ids) if scorer.lasts else 0)
        shared = len(self._ids)
        self.tokens_read = len(ids) - shared
        if shared < len(ids):
            with torch.inference_mode(), folded(backbone.config), within_memory(backbone, len(ids)):
                self._lasting = torch.cat([self._lasting, self._read(ids, shared)], 1)
            self._ids = list(ids)
        with torch.inference_mode():
            positions = torch.arange(len(ids), device=backbone.device)[None]
            return scorer.again(self._layer, self._lasting, positions, positions[:, -1:])[0]

    def _read(self, ids: list[int], shared: int) -> Tensor:
        """What the scorer says of the tokens from `shared` on, for good."""
        backbone = self._engine.backbone
        text = torch.tensor([ids], device=backbone.device)
        places = torch.arange(len(ids), device=text.device)[None]
        valid = torch.ones_like(text, dtype=torch.bool)
        new = places[:, shared:]
        self._engine.scorer.prepare(backbone, text, valid)
        hidden = backbone.embed(text[:, shared:])
        rotation = backbone.rotate(hidden, new)
        for layer in range(self._layer):
            mask = mask_for(backbone, layer, new, places, valid)
            hidden = backbone.run_layer(layer, hidden, mask, new, rotation, self._cache)
        return self._engine.scorer.lasting(
            ScoreInput(self._layer, hidden, new, valid[:, shared:], new, rotation, backbone)
        )

    def _forget_from(self, place: int) -> None:
        self._ids = self._ids[:place]
        self._lasting = self._lasting[:, :place]
        for layer in self._cache.layers:
            layer.length = min(layer.length, place)
