"""The embedded planner's own tokens: a small byte-level BPE in which every number up to 999 is one token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from brace.errors import MissingExtraError

VOCABULARY = 4096
PAD, BEGIN, END = "<pad>", "<begin>", "<end>"
_COPIES_OF_NUMBERS = 40
"""Often enough for every number to earn its merges."""


def train_tokenizer(texts: Iterable[str], path: Path) -> None:
    """Fit the BPE to texts and write `tokenizer.json`."""
    try:
        from tokenizers import (  # noqa: PLC0415
            Regex,
            Tokenizer,
            decoders,
            models,
            pre_tokenizers,
            processors,
            trainers,
        )
    except ImportError as error:
        raise MissingExtraError("training a tokenizer", "tokenizers") from error
    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r" ?\d{1,3}"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, BEGIN, END],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(_with_numbers(texts), trainer)
    begin = tokenizer.token_to_id(BEGIN)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, begin)]
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))


def _with_numbers(texts: Iterable[str]) -> Iterator[str]:
    numbers = " ".join(f"{number} ,{number}" for number in range(1000))
    for _ in range(_COPIES_OF_NUMBERS):
        yield numbers
    yield from texts
