"""A tiny model and items of random tokens."""

from __future__ import annotations

import random
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from brace.erecap.scorers import Predictor
from brace.training.erecap.encoding import Item
from brace.training.erecap.frozen import FrozenModel

VOCABULARY, WIDTH, LAYERS = 64, 32, 8
PRUNING = (3, 5)


def tiny_model(dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=64, num_hidden_layers=LAYERS,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.1,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return LlamaForCausalLM(config).to(dtype).eval()


def frozen(dtype: torch.dtype = torch.float32) -> FrozenModel:
    return FrozenModel(tiny_model(dtype))


def fresh(seed: int = 0) -> Predictor:
    torch.manual_seed(seed)
    return Predictor.fresh("llama", WIDTH, PRUNING)


def item(tokens: int, answer: int, seed: int = 0, lines: int = 6) -> Item:
    draw = random.Random(seed)
    ids = [draw.randrange(3, VOCABULARY) for _ in range(tokens + answer)]
    segments = [place * lines // tokens for place in range(tokens)]
    return Item(ids, tokens, segments, [place < 3 for place in range(tokens)])
