"""Names → things: what is known, what was meant, what an outside package adds."""

from __future__ import annotations

from importlib import metadata

import pytest

import brace.registry
from brace.callpath.compress import Recency
from brace.errors import BraceError, ConfigError, MissingExtraError, UnknownNameError
from brace.registry import Parts, Registry, budget_policies, compressors, retrievers


class Sieve(Recency):
    """What an outside package would bring."""

    name = "sieve"


@pytest.fixture
def registry() -> Parts[object]:
    """A fresh family, so that nothing is added to ours."""
    return Parts("thing", "things", "brace.callpath.compress", "brace.callpath.compress.base:Compressor")


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> metadata.EntryPoint:
    entry = metadata.EntryPoint("sieve", f"{__name__}:Sieve", "brace.compressors")

    def entry_points(*, group: str) -> tuple[metadata.EntryPoint, ...]:
        return (entry,) if group == entry.group else ()

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    monkeypatch.setattr(compressors, "_things", dict(compressors._things))
    return entry


def test_an_unknown_name_is_told_the_nearest_and_all_known_ones() -> None:
    with pytest.raises(UnknownNameError) as caught:
        compressors.create("recensy")
    message = str(caught.value)
    assert "unknown compressor 'recensy'; did you mean 'recency'?" in message
    assert all(name in message for name in compressors.names())


def test_a_name_that_is_near_to_nothing_is_told_the_known_ones_only() -> None:
    with pytest.raises(UnknownNameError) as caught:
        retrievers.get("zzz")
    assert "did you mean" not in str(caught.value)
    assert "known: lexical" in str(caught.value)


def test_an_unknown_option_is_told_the_nearest_and_all_that_are_taken() -> None:
    with pytest.raises(ConfigError) as caught:
        retrievers.create("lexical", {"reserved": 5})
    message = str(caught.value)
    assert "retriever 'lexical' has no option 'reserved'; did you mean 'reserve'?" in message
    assert "known: most, notes, reserve" in message


def test_a_thing_without_options_says_that_it_takes_none() -> None:
    with pytest.raises(ConfigError, match=r"compressor 'none' has no option 'seed'; known: \(none\)"):
        compressors.create("none", {"seed": 1})


def test_an_option_that_is_left_out_but_needed_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"budget policy 'fixed'.*modes"):
        budget_policies.create("fixed")


def test_options_reach_the_thing() -> None:
    assert compressors.create("recency", {"granularity": "token"}).granularity == "token"
    assert compressors.create("recency").granularity == "segment"


def test_a_second_registration_of_a_name_is_refused(registry: Parts[object]) -> None:
    registry.register("mine")(Sieve)
    with pytest.raises(
        ConfigError,
        match=r"'mine' is registered twice, in .*names.py and in .*recency.py",
    ):
        registry.register("mine")(Recency)
    assert registry.get("mine") is Sieve


def test_registering_the_same_thing_again_is_harmless(registry: Parts[object]) -> None:
    assert registry.register("mine")(Sieve) is registry.register("mine")(Sieve) is Sieve


def test_a_built_in_name_cannot_be_taken() -> None:
    compressors.names()
    with pytest.raises(ConfigError, match="'recency' is registered twice"):
        compressors.register("recency")(Sieve)


@pytest.mark.usefixtures("outside")
def test_an_entry_point_of_an_outside_package_is_found_and_built() -> None:
    assert "sieve" in compressors.names()
    assert {"recency", "random", "none", "structured"} <= set(compressors.names())
    made = compressors.create("sieve", {"granularity": "token"})
    assert (type(made).__name__, made.granularity) == ("Sieve", "token")


@pytest.mark.usefixtures("outside")
def test_an_outside_name_is_suggested_too() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'sieve'"):
        compressors.get("seive")


@pytest.mark.usefixtures("outside")
def test_an_entry_point_is_of_its_own_family_only() -> None:
    assert "sieve" not in retrievers.names()


def test_names_are_sorted() -> None:
    assert compressors.names() == sorted(compressors.names())


def test_a_family_whose_module_cannot_be_imported_says_so_every_time() -> None:
    broken: Registry[object] = Registry("thing", "things", "brace.no_such_module", "brace.errors:BraceError")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            broken.get("anything")


def test_each_family_has_a_group_of_its_own() -> None:
    families = [value for value in vars(brace.registry).values() if isinstance(value, Registry)]
    assert len({family.group for family in families}) == len(families) >= 5
    assert all(family.group.startswith("brace.") for family in families)


def test_every_error_is_printed_without_a_traceback() -> None:
    assert all(issubclass(error, BraceError) for error in (ConfigError, UnknownNameError, MissingExtraError))
