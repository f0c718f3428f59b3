"""Where queries may look."""

from __future__ import annotations

from torch import Tensor

from brace.erecap.backbone import Backbone


def mask_for(backbone: Backbone, layer: int, queries: Tensor, keys: Tensor, valid: Tensor) -> Tensor | None:
    """For queries and keys at these positions, [batch, tokens]; None: attention may go its fast way."""
    window = backbone.windows[layer]
    whole = bool(valid.all())
    # A window that reaches over all positions (gaps of dropped tokens included) is none.
    if window is not None and int(queries.max() - keys.min()) < window:
        window = None
    # Order is position, so plain causality holds within a prefill, and one last query sees all.
    # Eager attention without a mask is not causal.
    eager = backbone.config._attn_implementation == "eager"
    if whole and window is None and queries.shape[1] in ((1,) if eager else (1, keys.shape[1])):
        return None
    look = keys[:, None, :] <= queries[:, :, None]
    if window is not None:
        look &= keys[:, None, :] > queries[:, :, None] - window
    look &= valid[:, None, :]
    # A padded query looks at nothing real; let it see itself, for softmax of nothing is NaN.
    blind = ~look.any(2, keepdim=True)
    return (look | blind)[:, None]
