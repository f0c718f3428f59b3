"""E-RECAP: pruning inside a transformer while it reads, and decoding from the pruned caches. Needs torch."""

try:
    import torch  # noqa: F401 - here only to say which extra is missing
    import transformers  # noqa: F401
except ImportError as error:
    from brace.errors import MissingExtraError

    raise MissingExtraError("pruning inside a transformer", "erecap") from error

from brace.erecap.backbone import FAMILIES, Backbone
from brace.erecap.cache import Context, KvCache
from brace.erecap.decode import Writing, Written, write
from brace.erecap.engine import AnyContext, Engine, Prefill
from brace.erecap.schedule import Keep, Schedule, pruning_layers
from brace.erecap.session import Reading, Session

__all__ = [
    "FAMILIES",
    "AnyContext",
    "Backbone",
    "Context",
    "Engine",
    "Keep",
    "KvCache",
    "Prefill",
    "Reading",
    "Schedule",
    "Session",
    "Writing",
    "Written",
    "pruning_layers",
    "write",
]
