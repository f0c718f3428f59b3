"""Grad-Hidden saliency: |<∂ℓ/∂h, h>| of the text's own next-token loss. Costs a whole pass with gradients."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from brace.erecap.backbone import Backbone
from brace.erecap.scorers.base import ScoreInput, Scorer
from brace.registry import scorers


@scorers.register("grad-hidden")
@dataclass(eq=False)
class GradHidden(Scorer):
    """A token's worth is how much the loss hangs on its hidden state. A yardstick, not a fast path."""

    name = "grad-hidden"

    _saliency: list[Tensor] = field(init=False, default_factory=list)

    def prepare(self, backbone: Backbone, ids: Tensor, valid: Tensor) -> None:
        """Run the uncut input once, forward and backward, and keep each layer's saliency."""
        mask = (
            valid[:, None, None, :]
            & torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril()
        )
        # Padding sees itself: the softmax of nothing would be NaN, and would spread through the gradients.
        mask = mask | torch.eye(ids.shape[1], dtype=torch.bool, device=ids.device)
        positions = (valid.cumsum(1) - 1).clamp(min=0)
        with torch.enable_grad():
            hidden = backbone.embed(ids).detach().requires_grad_()
            rotation = backbone.rotate(hidden, positions)
            entered = []
            for layer in range(backbone.n_layers):
                entered.append(hidden)
                hidden.retain_grad()
                window = backbone.windows[layer]
                look = mask
                if window is not None:
                    far = positions[:, None, :] <= positions[:, :, None] - window
                    look = mask & ~far[:, None]
                # Without a cache the layer's own modules run: the joined weights carry no gradients.
                hidden = backbone.run_layer(layer, hidden, look, positions, rotation, None)
            logits = backbone.logits(hidden)[:, :-1].float()
            losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
            grads = torch.autograd.grad((losses * (valid[:, 1:] & valid[:, :-1])).sum(), entered)
        self._saliency = [
            (grad.float() * state.detach().float()).sum(-1).abs()
            for grad, state in zip(grads, entered, strict=True)
        ]

    def score(self, given: ScoreInput) -> Tensor:
        """The saliency of the tokens that are still there."""
        saliency = self._saliency[given.layer]
        # On the static path the text is followed by padding, which was not read here.
        return saliency.gather(1, given.columns.clamp(max=saliency.shape[1] - 1))
