"""E-RECAP's learned scorer: a small network a pruning layer, from hidden state to worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from brace.erecap.backbone import Backbone
from brace.erecap.scorers.base import ScoreInput, Scorer
from brace.errors import ConfigError
from brace.registry import scorers

FORMAT = "brace-erecap-predictor-1"
_LINES = "lines"


class LayerPredictor(nn.Module):
    """norm → d → d/4 → GELU → 1, and a learnt weight on how far a token is from either end.

    A causal model's hidden state cannot know how much text comes after it, and the last lines often matter
    most: without the second part no predictor could learn to keep them.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, max(1, width // 4))
        self.outer = nn.Linear(max(1, width // 4), 1)
        self.ends = nn.Parameter(torch.zeros(2))

    def forward(self, hidden: Tensor, positions: Tensor, last: Tensor) -> Tensor:
        """[rows, tokens, width], positions [rows, tokens], the last one of each row [rows, 1] → worth."""
        return self.with_position(self.of_states(hidden), positions, last)

    def of_states(self, hidden: Tensor) -> Tensor:
        """What the states alone say."""
        worth: Tensor = self.outer(nn.functional.gelu(self.inner(self.norm(hidden)))).squeeze(-1)
        return worth

    def with_position(self, scores: Tensor, positions: Tensor, last: Tensor) -> Tensor:
        """That, and how far the tokens are from either end."""
        after = (last - positions).clamp(min=0)
        return scores + self.ends[0] * positions.float().log1p() + self.ends[1] * after.float().log1p()


@scorers.register("predictor")
@dataclass(eq=False, repr=False)
class Predictor(Scorer, nn.Module):
    """The learned scorer. `model` names what it was trained for and is checked against what it is used on.

    With `lines` it was trained to judge whole lines of a text that is cut before it is read, by the mean over
    their tokens, in its one layer; it cannot prune inside a model.
    """

    name = "predictor"
    capturable = True
    cacheable = True

    path: str | Path
    """The safetensors file, as `save` wrote it."""
    model: str = field(init=False)
    """The type of the model it is for."""
    width: int = field(init=False)
    """The width of that model's hidden states."""
    layers: tuple[int, ...] = field(init=False)
    """The layers before which it scores."""
    lines: bool = field(init=False)
    """Whether it ranks whole lines."""

    def __post_init__(self) -> None:
        nn.Module.__init__(self)
        tensors, meta = _read(Path(self.path))
        try:
            self.model = meta["model"]
            self.width = int(meta["width"])
            self.layers = tuple(int(layer) for layer in meta["layers"].split(","))
            self.lines = meta.get("selects") == _LINES
        except (KeyError, ValueError) as error:
            raise ConfigError(f"{self.path} is a predictor with a broken header: {error}") from error
        self._build()
        try:
            self.load_state_dict(tensors)
        except RuntimeError as error:
            raise ConfigError(f"{self.path} is not a whole predictor: {error}") from error
        self.eval()

    @classmethod
    def fresh(cls, model: str, width: int, layers: Sequence[int], *, lines: bool = False) -> Predictor:
        """An untrained one."""
        # Past `__init__`, which reads a file.
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made.model, made.width, made.layers, made.lines = model, width, tuple(layers), lines
        made._build()
        return made

    def save(self, path: str | Path, **card: str) -> None:
        """As safetensors, with what it is for (and `card`: data, licences, metrics) in the header."""
        meta = {
            "format": FORMAT,
            "model": self.model,
            "width": str(self.width),
            "layers": ",".join(map(str, self.layers)),
        }
        if self.lines:
            meta["selects"] = _LINES
        # safetensors refuses tensors that are not contiguous.
        save_file({name: t.contiguous() for name, t in self.state_dict().items()}, str(path), meta | card)

    @property
    def line_layer(self) -> int | None:
        """Its one layer, if it judges lines."""
        return self.layers[0] if self.lines else None

    def check(self, backbone: Backbone) -> None:
        """Refuse another width, another kind of model, or a model that is not deep enough."""
        kind = backbone.config.model_type
        if self.width != backbone.hidden or max(self.layers) >= backbone.n_layers or self.model != kind:
            raise ConfigError(
                f"this predictor is for {self.model} of width {self.width}, layers up to {max(self.layers)}; "
                f"the model is {kind} of width {backbone.hidden} with {backbone.n_layers} layers"
            )
        self.to(backbone.device)

    def check_layers(self, layers: Sequence[int]) -> None:
        """Refuse a layer there is no network for."""
        if self.lines:
            raise ConfigError(
                "this predictor ranks whole lines, for the compressor 'erecap'; to prune in the model, take "
                "one that was trained without --lines"
            )
        for layer in layers:
            if layer not in self.layers:
                raise ConfigError(
                    f"this predictor has no network for layer {layer}; it has {', '.join(self.nets)}"
                )

    def score(self, given: ScoreInput) -> Tensor:
        """In fp32, whatever the model's type: half precision cannot rank near ties."""
        return self.rescore(given.layer, self.cacheable_score(given), given.positions, given.last)

    def cacheable_score(self, given: ScoreInput) -> Tensor:
        """What the states say: a causal model's do not change with what follows."""
        with _products_for(given.hidden):
            return self._net(given.layer).of_states(given.hidden.float())

    def rescore(self, layer: int, cached: Tensor, positions: Tensor, last: Tensor) -> Tensor:
        """That, and how far the tokens now are from either end."""
        return self._net(layer).with_position(cached, positions, last)

    def _net(self, layer: int) -> LayerPredictor:
        return cast("LayerPredictor", self.nets[str(layer)])

    def _build(self) -> None:
        self.nets = nn.ModuleDict({str(layer): LayerPredictor(self.width) for layer in self.layers})


@contextmanager
def _products_for(hidden: Tensor) -> Iterator[None]:
    """On a GPU states of half precision are multiplied as TF32, which is finer than they are, and far faster
    than fp32."""
    if not hidden.is_cuda or hidden.dtype == torch.float32:
        yield
        return
    # It is a setting of the whole process, so it is put back.
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(str(path), framework="pt") as file:
            meta = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"cannot read a predictor from {path}: {error}") from error
    if meta.get("format") != FORMAT:
        raise ConfigError(f"{path} is not an E-RECAP predictor (format {meta.get('format')!r})")
    if any(not torch.isfinite(tensor).all() for tensor in tensors.values()):
        raise ConfigError(f"{path} holds weights that are not finite numbers")
    return tensors, meta
