"""E-RECAP: pruning inside a transformer while it reads, and decoding from the pruned caches. Needs torch."""

try:
    import torch  # noqa: F401 - here only to say which extra is missing
    import transformers  # noqa: F401
except ImportError as error:
    from brace.errors import MissingExtraError

    raise MissingExtraError("pruning inside a transformer", "erecap") from error

from brace.erecap.backbone import FAMILIES, Backbone
from brace.erecap.context import Context, Prefill
from brace.erecap.decode import Writing, Written, write
from brace.erecap.engine import Engine
from brace.erecap.schedule import Keep, Schedule, pruning_layers
from brace.erecap.session import PrefixScorer, Reading, Session

__all__ = [
    "FAMILIES",
    "Backbone",
    "Context",
    "Engine",
    "Keep",
    "Prefill",
    "PrefixScorer",
    "Reading",
    "Schedule",
    "Session",
    "Writing",
    "Written",
    "pruning_layers",
    "write",
]
