"""What a test registers is gone after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brace import registry

REGISTRIES = [value for value in vars(registry).values() if isinstance(value, registry.Registry)]


@pytest.fixture(autouse=True)
def registries_as_they_were() -> Iterator[None]:
    """Names of a test's own, and files it imported, are unknown to the next one."""
    for family in REGISTRIES:
        # Our own must be there before: what is imported only once would be lost for all that follow.
        family.names()
    before = [dict(family._things) for family in REGISTRIES]
    imported = dict(registry._imported)
    yield
    for family, things in zip(REGISTRIES, before, strict=True):
        family._things.clear()
        family._things.update(things)
    registry._imported.clear()
    registry._imported.update(imported)
