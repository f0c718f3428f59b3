"""Making a local planner from a configuration: options, the embedded weights, what is wrong said clearly."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from planners_local_kit import WORLD, ask, byte_level_tokenizer, history, prompt_of, save_tiny
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

from brace.erecap.scorers import Predictor
from brace.errors import BraceError, ConfigError, UnknownNameError
from brace.planners import local
from brace.planners.local import TransformersPlanner
from brace.registry import planners


def create(name: str, **options: Any) -> Any:
    return planners.create(name, options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"granularity": "word"}, "'granularity' = 'word'; known: token, segment"),
        ({"max_new_tokens": 0}, "1 or more"),
        ({"dtype": "bf16"}, "did you mean 'bfloat16'"),
        ({"device": "quantum"}, "device = 'quantum'"),
        ({"scorer": {"options": {}}}, "give a name"),
        ({"scorer": {"name": "attention", "window": 4}}, "give a name"),
        ({"scorer": {"name": "attention", "options": {"width": 4}}}, "no option 'width'"),
        ({"temperature": 1}, "no option 'temperature'"),
    ],
)
def test_wrong_options_are_refused_with_the_remedy(
    folder: Path, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        create("transformers", model=str(folder), **options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_said(folder: Path) -> None:
    with pytest.raises(ConfigError, match="sees no GPU"):
        create("transformers", model=str(folder), device="cuda")


def test_an_unknown_scorer_is_said(folder: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'recency'"):
        create("transformers", model=str(folder), scorer="recenzy")


def test_the_scorer_decides_what_survives(folder: Path) -> None:
    texts = set()
    for scorer in ("recency", {"name": "random", "options": {"seed": 3}}, "hidden-norm", None):
        planner = create("transformers", model=str(folder), scorer=scorer, constrain=False, max_new_tokens=12)
        texts.add(ask(planner, prompt_of(history(40), planner, budget=420))[0])
    assert len(texts) > 1


@pytest.mark.parametrize("options", [{"granularity": "word"}, {"dtype": "bf16"}, {"path": "fast"}])
def test_a_wrong_choice_is_refused_also_where_no_registry_made_the_planner(options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(
        ConfigError, match=f"planner TransformersPlanner, option '{name}' = '{value}'.*known:"
    ):
        TransformersPlanner("nowhere", **options)


def test_every_option_says_what_it_does_and_the_embedded_planner_has_neither_model_nor_template() -> None:
    own, embedded = planners.options("transformers"), planners.options("embedded")
    assert all(option.doc for option in own)
    assert [option for option in own if option.name not in ("model", "chat")] == list(embedded)


def test_a_missing_or_broken_model_is_said(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ConfigError, match="no model at"):
        create("transformers", model=str(tmp_path / "nowhere"))
    shutil.copytree(folder, tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="cannot be loaded"):
        create("transformers", model=str(tmp_path / "broken"))


def test_tokens_that_are_not_bytes_cannot_be_constrained_but_written(tmp_path: Path) -> None:
    words = Tokenizer(WordLevel({"<unk>": 0, "<end>": 1, "goto": 2, "ball": 3}, unk_token="<unk>"))  # noqa: S106
    words.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", eos_token="<end>")  # noqa: S106
    folder = save_tiny(tmp_path, tokenizer)
    with pytest.raises(ConfigError, match="constrain: false"):
        create("transformers", model=str(folder))
    create("transformers", model=str(folder), constrain=False)


def test_a_tokenizer_without_an_end_cannot_be_constrained(tmp_path: Path) -> None:
    tokenizer = byte_level_tokenizer()
    tokenizer.eos_token = None
    with pytest.raises(ConfigError, match="end-of-text"):
        create("transformers", model=str(save_tiny(tmp_path, tokenizer)))


def test_importing_it_does_not_import_torch() -> None:
    script = "import sys, brace.planners.local; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"torch", "transformers", "llguidance"} & set(loaded.stdout.split())


def test_without_weights_the_embedded_planner_says_how_to_make_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "EMBEDDED", tmp_path)
    with pytest.raises(BraceError, match="brace planner train"):
        create("embedded")


def test_the_embedded_planner_takes_the_package_s_weights_and_predictor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the three files, with the end of text named in config.json, and then a predictor beside them."""
    save_tiny(tmp_path / "made")
    (tmp_path / "shipped").mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(tmp_path / "made" / name, tmp_path / "shipped" / name)
    config = tmp_path / "shipped" / "config.json"
    config.write_text(config.read_text().replace('"eos_token_id": null', '"eos_token_id": 0'))
    monkeypatch.setattr(local, "EMBEDDED", tmp_path / "shipped")
    planner = create("embedded")
    planner.bind(WORLD)
    assert planner.name == "embedded"
    assert ask(planner, prompt_of(history(30), planner, budget=420))[0]
    torch.manual_seed(5)
    Predictor.fresh("llama", 16, (3, 5)).save(tmp_path / "shipped" / "predictor.safetensors")
    with pytest.raises(ConfigError, match="predictor is for llama of width 16"):
        create("embedded")
    create("embedded", scorer="attention")
    Predictor.fresh("llama", 32, (3, 5)).save(tmp_path / "shipped" / "predictor.safetensors")
    _, usage = ask(create("embedded"), prompt_of(history(30), planner, budget=420))
    assert usage is not None
    assert usage.kept_last == 420
