"""Ways to shorten a context to its budget, one method a file."""

from brace.callpath.compress.base import Compressor, CompressRequest, ScoringCompressor
from brace.callpath.compress.none import NoCompression
from brace.callpath.compress.random import Random
from brace.callpath.compress.recency import Recency
from brace.callpath.compress.structured import Structured

__all__ = [
    "CompressRequest",
    "Compressor",
    "NoCompression",
    "Random",
    "Recency",
    "ScoringCompressor",
    "Structured",
]
