"""Token counting. A budget is only exact in the planner's own tokens, so the tokenizer is pluggable."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Protocol

from brace.errors import ConfigError, MissingExtraError

Span = tuple[int, int]


class Tokenizer(Protocol):
    """What counting and cutting need: how many tokens a text has, and where they lie in it."""

    @property
    def name(self) -> str:
        """Written into the ledger beside every count."""
        ...

    def count(self, text: str) -> int:
        """The number of tokens of `text`, without special tokens."""
        ...

    def spans(self, text: str) -> list[Span]:
        """The character range of each token, in order."""
        ...


class WordTokenizer:
    """The built-in one: no model's tokens, but fast, exact and additive over lines.

    Words are cut into pieces of at most six characters, each with at most one leading space, so that
    counts come near those of a byte-pair encoding. For tests and for planners without a tokenizer.
    """

    name = "words (built-in)"
    _pieces = re.compile(r"\n| ?\w{1,6}| ?[^\w\s]|[^\S\n]+")

    def count(self, text: str) -> int:
        """The number of pieces."""
        return len(self._pieces.findall(text))

    def spans(self, text: str) -> list[Span]:
        """The range of each piece; together they cover the text."""
        return [match.span() for match in self._pieces.finditer(text)]


class HfTokenizer:
    """Any `tokenizers.Tokenizer`, or a fast transformers tokenizer, which wraps one."""

    def __init__(self, tokenizer: Any, name: str = "") -> None:
        self._tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)
        self.name = name or getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
        if not hasattr(self._tokenizer, "encode_batch"):
            raise ConfigError(
                f"{type(tokenizer).__name__} has no token offsets; pass a `tokenizers.Tokenizer` or a "
                "fast transformers tokenizer"
            )
        # A copy of our own: a model's tokenizer may be set to truncate or pad, and would then miscount.
        self._tokenizer = type(self._tokenizer).from_str(self._tokenizer.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    @classmethod
    def from_file(cls, path: str | Path) -> HfTokenizer:
        """Load a `tokenizer.json`, or a model directory that holds one."""
        try:
            from tokenizers import Tokenizer as Backend  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtraError("counting with a model's tokenizer", "tokenizers") from error
        file = Path(path)
        file = file / "tokenizer.json" if file.is_dir() else file
        if not file.is_file():
            raise ConfigError(f"no tokenizer at {file}; expected a tokenizer.json or a folder with one")
        try:
            backend = Backend.from_file(str(file))
        except Exception as error:  # the library raises nothing more specific
            raise ConfigError(f"{file} cannot be read as a tokenizer: {error}") from error
        return cls(backend, name=str(path))

    def count(self, text: str) -> int:
        """The number of tokens, special tokens not counted."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def spans(self, text: str) -> list[Span]:
        """Character offsets as the tokenizer reports them."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).offsets)
