"""A tiny random language model with a tokenizer of its own, for whatever needs one."""

from __future__ import annotations

import functools
from typing import Any

TEXT = [
    "the robot sees the red ball near door 3 and walks to the kitchen",
    "[observation 12 a1] gap 5312 since 120 ok, plan refused: it is wet there!",
    "Ünïcödé ☃ 0123456789 goto(hall); pickup(cup)",
]


@functools.cache
def tiny() -> tuple[Any, Any]:
    """A Llama of eight layers and a byte-level BPE tokenizer."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet))
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=backend.get_vocab_size(), hidden_size=32, intermediate_size=64, num_hidden_layers=8,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=4096, initializer_range=0.4,
        pad_token_id=0, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval(), PreTrainedTokenizerFast(tokenizer_object=backend)
