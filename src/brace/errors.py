"""Every error a user can meet. Each message says what is wrong and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BraceError(Exception):
    """The base of all errors raised on purpose; the command line prints these without a traceback."""


class ConfigError(BraceError):
    """A configuration that cannot work: a bad value, an unknown key, a budget below the template."""


class UnknownNameError(ConfigError):
    """A name no registry knows."""

    def __init__(self, family: str, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown {family} {name!r}{suggestion(name, known)}")


class MissingExtraError(BraceError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra {extra!r}: pip install 'brace-replan[{extra}]'")


class LedgerError(BraceError):
    """A run directory that cannot be written or read."""


class LimitExceededError(BraceError):
    """A limit was hit: which one (`kind`), the value seen, the limit, and who set it (`source`)."""

    def __init__(self, kind: str, *, value: float, limit: float, source: str, detail: str = "") -> None:
        self.kind, self.value, self.limit, self.source = kind, value, limit, source
        text = f"{kind} limit exceeded: {value:g} > {limit:g} (set by {source})"
        super().__init__(f"{text}: {detail}" if detail else text)


def suggestion(name: str, known: Iterable[str], *, as_given: bool = False) -> str:
    """`; did you mean …? known: …`, to be appended to a message about an unknown name.

    The known names are sorted, unless their order says something.
    """
    names = list(known) if as_given else sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{hint} known: {', '.join(names) if names else '(none)'}"
