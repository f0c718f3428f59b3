"""Ways to recall what was learned before, one method a file."""

from brace.callpath.retrieve.base import Retrieve, Retriever
from brace.callpath.retrieve.lexical import LexicalRetriever

__all__ = ["LexicalRetriever", "Retrieve", "Retriever"]
