"""Counting: what a tokenizer counts, where its tokens lie, and how one is loaded."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from brace.context import HfTokenizer, Segment, Tokenizer, WordTokenizer
from brace.errors import ConfigError, MissingExtraError

CORPUS = [
    "[observation 3 a1] the kitchen door is open, the robot holds nothing",
    "[action 4] goto(kitchen); pickup(red ball); putnext(blue box)",
    "[failure 5] Küche erreicht, Tür klemmt: 手が届かない, попробуй ещё раз 🤖",
] * 20


def byte_level_bpe() -> Backend:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=alphabet, special_tokens=["<s>"], show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    return backend


BACKEND = byte_level_bpe()
TOKENIZERS: list[Tokenizer] = [WordTokenizer(), HfTokenizer(BACKEND, "bpe")]
both = pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=lambda tokenizer: tokenizer.name)
texts = st.text(max_size=80) | st.text("ab \n\t\r.é手🤖", max_size=80) | st.sampled_from(CORPUS)


@both
@settings(deadline=None, max_examples=200)
@given(text=texts)
def test_spans_cover_the_text_in_order_one_for_each_token(tokenizer: Tokenizer, text: str) -> None:
    spans = tokenizer.spans(text)
    assert len(spans) == tokenizer.count(text)
    reached = 0
    for start, end in spans:
        # Tokens of one character's bytes report that character, so a start may repeat but never skips.
        assert start <= reached <= end
        assert start < end
        reached = end
    assert reached == len(text)


@settings(deadline=None, max_examples=200)
@given(st.lists(texts.map(lambda text: Segment("observation", text).render()), max_size=8))
def test_the_built_in_tokenizer_is_additive_over_lines(lines: list[str]) -> None:
    tokenizer = WordTokenizer()
    assert sum(map(tokenizer.count, lines)) == tokenizer.count("".join(lines))


@settings(deadline=None, max_examples=200)
@given(texts)
def test_spans_of_the_built_in_tokenizer_partition_the_text(text: str) -> None:
    assert "".join(text[start:end] for start, end in WordTokenizer().spans(text)) == text


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("word", 1),
        ("a b", 2),
        ("abcdef", 1),
        ("abcdefg", 2),
        ("a.b", 3),
        ("a\n\nb", 4),
        ("a   b", 3),
    ],
)
def test_the_built_in_tokenizer_counts_short_pieces(text: str, count: int) -> None:
    assert WordTokenizer().count(text) == count


def test_characters_of_several_bytes_are_several_tokens_at_one_place() -> None:
    rare = "\N{SNOWMAN}"  # not in the corpus: stays three bytes
    assert HfTokenizer(BACKEND).spans(f"a{rare}") == [(0, 1), (1, 2), (1, 2), (1, 2)]


def test_special_tokens_are_not_counted() -> None:
    backend = Backend.from_str(BACKEND.to_str())
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", backend.token_to_id("<s>"))]
    )
    text = CORPUS[0]
    assert len(backend.encode(text).ids) == HfTokenizer(BACKEND).count(text) + 1, "the template adds one"
    assert HfTokenizer(backend).count(text) == HfTokenizer(BACKEND).count(text)


def test_a_tokenizer_that_truncates_still_counts_the_whole_text() -> None:
    backend = Backend.from_str(BACKEND.to_str())
    backend.enable_truncation(8)
    whole, counted = HfTokenizer(BACKEND).count(CORPUS[2]), HfTokenizer(backend).count(CORPUS[2])
    assert counted == whole > 8


def test_a_tokenizer_that_pads_still_counts_the_text_only() -> None:
    backend = Backend.from_str(BACKEND.to_str())
    backend.enable_padding(length=64)
    alone, counted = HfTokenizer(BACKEND).count("goto(box)"), HfTokenizer(backend).count("goto(box)")
    assert counted == alone < 64


def test_a_tokenizer_is_loaded_from_its_file_or_its_folder(tmp_path: Path) -> None:
    BACKEND.save(str(tmp_path / "tokenizer.json"))
    for spec in (tmp_path, tmp_path / "tokenizer.json"):
        loaded = HfTokenizer.from_file(str(spec))
        assert loaded.name == str(spec)
        assert loaded.spans(CORPUS[2]) == HfTokenizer(BACKEND).spans(CORPUS[2])


def test_a_fast_transformers_tokenizer_is_unwrapped_and_lends_its_name() -> None:
    class Fast:
        name_or_path = "org/model"
        backend_tokenizer = BACKEND

    tokenizer = HfTokenizer(Fast())
    assert tokenizer.name == "org/model"
    assert tokenizer.count(CORPUS[0]) == HfTokenizer(BACKEND).count(CORPUS[0])


def test_a_tokenizer_without_offsets_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"fast transformers tokenizer"):
        HfTokenizer(object())


@pytest.mark.parametrize("place", ["nowhere", "."])
def test_a_path_without_a_tokenizer_says_what_was_expected(tmp_path: Path, place: str) -> None:
    with pytest.raises(ConfigError, match=r"no tokenizer at .*tokenizer\.json"):
        HfTokenizer.from_file(str(tmp_path / place))


@pytest.mark.parametrize("content", ["", "not json", json.dumps({"version": "1.0"})])
def test_a_file_that_is_no_tokenizer_is_a_config_error_that_names_it(tmp_path: Path, content: str) -> None:
    broken = tmp_path / "tokenizer.json"
    broken.write_text(content)
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        HfTokenizer.from_file(str(broken))


def test_without_the_extra_the_message_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    BACKEND.save(str(tmp_path / "tokenizer.json"))
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'brace-replan\[tokenizers\]'"):
        HfTokenizer.from_file(str(tmp_path))
