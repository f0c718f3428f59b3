"""Words and figures for LaTeX: whatever comes from a ledger is set as text, never obeyed."""

from __future__ import annotations

import re

_SIGNS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
    "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "`": r"\textasciigrave{}",
    "[": "{[}", "]": "{]}", "*": "{*}",  # at the start of a row they would be an option of the last one's end
    "–": "--", "…": r"\ldots{}", "“": "``", "”": "''", "−": "$-$", "→": r"$\rightarrow$", "≥": r"$\geq$",
    "≤": r"$\leq$", "·": r"\textperiodcentered{}", "│": r"\textbar{}", "\N{REPLACEMENT CHARACTER}": "?",
}  # fmt: skip
"""Also the signs of our own tables that pdfLaTeX cannot read as they are."""
_MINUS = re.compile(r"-(?=\d)")


def escaped(words: str) -> str:
    """Text of unknown origin, free of control characters, as LaTeX that prints it."""
    return "".join(_SIGNS.get(char, char) for char in words)


def figure(value: str, interval: str) -> str:
    """A figure, its interval small beside it, with true minus signs."""
    small = rf" {{\scriptsize {interval}}}" if interval else ""
    return _MINUS.sub("$-$", escaped(value) + small)
