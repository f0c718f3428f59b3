"""Ways to shorten a context to its budget, one method a file."""

from brace.callpath.compress.base import Compressor, ScoringCompressor
from brace.callpath.compress.erecap import Erecap
from brace.callpath.compress.in_model import InModel
from brace.callpath.compress.none import NoCompression
from brace.callpath.compress.random import Random
from brace.callpath.compress.recency import Recency
from brace.callpath.compress.structured import Structured

__all__ = [
    "Compressor",
    "Erecap",
    "InModel",
    "NoCompression",
    "Random",
    "Recency",
    "ScoringCompressor",
    "Structured",
]
