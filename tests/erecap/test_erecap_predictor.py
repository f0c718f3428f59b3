"""The learned scorer's file: a round trip, and every wrong file or wrong model refused before any work."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from erecap_kit import RATIO, model_of, row, text
from safetensors.torch import load_file, save_file

from brace.erecap import Engine, Keep
from brace.erecap.scorers import Predictor
from brace.errors import BraceError, ConfigError
from brace.registry import scorers

META = {"format": "brace-erecap-predictor-1", "model": "llama", "width": "64", "layers": "3,5"}


@pytest.fixture
def made() -> Predictor:
    torch.manual_seed(1)
    return Predictor.fresh("llama", 64, (3, 5))


@pytest.fixture
def saved(made: Predictor, tmp_path: Path) -> Path:
    path = tmp_path / "predictor.safetensors"
    made.save(path, data="fake", licence="none")
    return path


def test_what_is_saved_comes_back_and_scores_the_same(made: Predictor, saved: Path) -> None:
    back = scorers.create("predictor", {"path": saved})
    assert (back.model, back.width, back.layers) == ("llama", 64, (3, 5))
    assert all(torch.equal(tensor, made.state_dict()[name]) for name, tensor in back.state_dict().items())
    one, other = (
        Engine(model_of("llama"), scorer).prefill(row(text(70)), keep=RATIO) for scorer in (made, back)
    )
    assert torch.equal(one.context.logits, other.context.logits)
    assert all(map(torch.equal, one.survivors, other.survivors))


def test_the_network_is_a_norm_then_a_quarter_of_the_width_then_one(made: Predictor) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in made.state_dict().items()}
    assert shapes["nets.3.inner.weight"] == (16, 64)
    assert shapes["nets.3.outer.weight"] == (1, 16)
    assert {name.split(".")[1] for name in shapes} == {"3", "5"}


@pytest.mark.parametrize(
    ("kind", "width", "layers"),
    [("llama", 32, (3, 5)), ("qwen2", 64, (3, 5)), ("llama", 64, (3, 5, 8))],
    ids=["width", "model", "depth"],
)
def test_a_predictor_of_another_model_is_refused(kind: str, width: int, layers: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=f"{kind} of width {width}"):
        Engine(model_of("llama"), Predictor.fresh(kind, width, layers))


def test_a_pruning_layer_it_was_not_made_for_is_refused_before_any_work(made: Predictor) -> None:
    model = model_of("llama")
    engine, ran = Engine(model, made), []
    hook = model.model.layers[0].register_forward_pre_hook(lambda *_: ran.append(1))
    try:
        with pytest.raises(ConfigError, match="layer 4"):
            engine.prefill(row(text(70)), keep=Keep(ratio=0.7, layers=(3, 4)))
    finally:
        hook.remove()
    assert ran == []


def rewrite(path: Path, meta: dict[str, str] | None, **tensors: torch.Tensor) -> Path:
    save_file(load_file(path) | tensors, str(path), meta)
    return path


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        Predictor(tmp_path / "none.safetensors")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        Predictor(tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x08\0\0\0\0\0\0\0{}      "])
def test_a_file_that_is_no_predictor_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "text.safetensors"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="predictor"):
        Predictor(path)


@pytest.mark.parametrize("meta", [None, {}, META | {"format": "another"}])
def test_tensors_of_something_else_are_refused(saved: Path, meta: dict[str, str] | None) -> None:
    with pytest.raises(ConfigError, match="not an E-RECAP predictor"):
        Predictor(rewrite(saved, meta))


def test_a_truncated_file_is_refused(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:-100])
    with pytest.raises(ConfigError, match="cannot read"):
        Predictor(saved)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_numbers_are_refused(saved: Path, bad: float) -> None:
    with pytest.raises(ConfigError, match="not finite"):
        Predictor(rewrite(saved, META, **{"nets.3.outer.bias": torch.tensor([bad])}))


@pytest.mark.parametrize(
    "meta",
    [
        META | {"layers": "3,5,7"},
        META | {"layers": "3"},
        META | {"width": "32"},
        META | {"width": "wide"},
        META | {"layers": ""},
        {key: META[key] for key in ("format", "width", "layers")},
        {key: META[key] for key in ("format", "model", "layers")},
    ],
    ids=["layer-missing", "layer-extra", "width", "width-text", "no-layers", "no-model", "no-width"],
)
def test_a_header_that_does_not_fit_the_weights_is_refused(saved: Path, meta: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="predictor"):
        Predictor(rewrite(saved, meta))


def test_weights_spoilt_after_loading_give_an_error_not_a_choice(made: Predictor) -> None:
    with torch.no_grad():
        made.nets["5"].outer.bias.fill_(float("nan"))
    with pytest.raises(BraceError, match="finite"):
        Engine(model_of("llama"), made).prefill(row(text(70)), keep=RATIO)
