"""Options as the fields of a dataclass: their names, types, defaults and docstrings, checked in one place.

@compressors.register("mine")
@dataclass(eq=False)
class Mine(ScoringCompressor):
    depth: int = 3
    '''How many lines of each agent stay.'''
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
import textwrap
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, InitVar, dataclass
from typing import Any, Literal, TypeVar

from brace.errors import ConfigError, suggestion

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Option:
    """One option of something that is chosen by name."""

    name: str
    type: str
    default: str
    """As it would be written; empty if it must be given."""
    doc: str


def options_of(kind: type[Any]) -> tuple[Option, ...]:
    """All options of a class, in order."""
    docs = _docstrings(kind)
    return tuple(
        Option(field.name, _text_of(kind, field), _default_of(field), docs.get(field.name, ""))
        for field in _fields(kind)
    )


def make(kind: type[T], given: Mapping[str, Any], what: str) -> T:
    """Build `kind` with the options `given`. One that is unknown, missing or of another type is refused.

    `what` begins the message: `compressor 'recency'`.
    """
    return kind(**fitting(kind, given, what))


def fitting(kind: type[Any], given: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The options as `kind` takes them, checked as for `make`; nothing is built."""
    fields = {field.name: field for field in _fields(kind)}
    for name in given:
        if name not in fields:
            raise ConfigError(f"{what} has no option {name!r}{suggestion(str(name), fields)}")
    missing = [
        f"{name!r} ({_text_of(kind, field)})"
        for name, field in fields.items()
        if name not in given and field.default is MISSING and field.default_factory is MISSING
    ]
    if missing:
        raise ConfigError(f"{what} needs the option{'s' * (len(missing) > 1)} {' and '.join(missing)}")
    return {
        name: checked(value, _type_of(kind, fields[name]), f"{what}, option {name!r}")
        for name, value in given.items()
    }


def checked(value: Any, wanted: Any, what: str) -> Any:
    """`value` as the type `wanted`, or an error that begins with `what`."""
    import msgspec  # noqa: PLC0415 - the controller, which has a registry of its own, does without

    choices = typing.get_args(wanted) if typing.get_origin(wanted) is Literal else ()
    if choices and value not in choices:
        raise ConfigError(f"{what} = {value!r}{suggestion(str(value), map(str, choices), as_given=True)}")
    if any(_is_a(value, one) for one in _alternatives(wanted)):
        return value
    try:
        return msgspec.convert(value, wanted, from_attributes=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what} = {value!r}: {error}") from error
    except TypeError:
        # msgspec does not know the type.
        return _instance(value, wanted, what)


def _instance(value: Any, wanted: Any, what: str) -> Any:
    """For types that plain data cannot be turned into, such as a loaded model."""
    kinds = [typing.get_origin(one) or one for one in _alternatives(wanted)]
    if all(_is_class(kind) for kind in kinds) and not any(_is_a(value, kind) for kind in kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ConfigError(f"{what} = {value!r}: expected {names}, got {type(value).__name__}")
    return value


def check_choices(made: object, what: str) -> None:
    """Refuse a value that its field's `Literal` does not name.

    `make` has done so already; this is for `__post_init__`, where a class may be built by hand.
    """
    for field in _fields(type(made)):
        wanted = _type_of(type(made), field)
        if typing.get_origin(wanted) is Literal:
            checked(getattr(made, field.name), wanted, f"{what}, option {field.name!r}")


def _fields(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    if not dataclasses.is_dataclass(kind):
        return []
    # Not `dataclasses.fields`: that leaves out an `InitVar`, which is an option too.
    every = kind.__dataclass_fields__
    return [every[name] for name in inspect.signature(kind).parameters if name in every]


def _alternatives(wanted: Any) -> tuple[Any, ...]:
    return typing.get_args(wanted) if isinstance(wanted, types.UnionType) else (wanted,)


def _is_class(kind: Any) -> bool:
    """A class whose instances can be told. Those of a protocol cannot."""
    return isinstance(kind, type) and kind is not Any and not getattr(kind, "_is_protocol", False)


def _is_a(value: Any, kind: Any) -> bool:
    # A truth value is no number, although Python counts with it.
    return _is_class(kind) and isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _type_of(kind: type[Any], field: dataclasses.Field[Any]) -> Any:
    """The annotation itself, evaluated where it was written.

    Not `get_type_hints`: that would evaluate the other fields too, and some names exist only for checkers.
    """
    wanted: Any = field.type
    if isinstance(wanted, str):
        home = next(base for base in kind.__mro__ if field.name in vars(base).get("__annotations__", {}))
        try:
            wanted = eval(wanted, dict(vars(sys.modules[home.__module__])))  # noqa: S307 - our own source
        except NameError:
            # A name that is imported for type checkers only: its values cannot be checked here.
            return Any
    return wanted.type if isinstance(wanted, InitVar) else wanted


def _text_of(kind: type[Any], field: dataclasses.Field[Any]) -> str:
    wanted = _type_of(kind, field)
    if typing.get_origin(wanted) is Literal:
        return " | ".join(map(repr, typing.get_args(wanted)))
    text = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
    return text.removeprefix("InitVar[").removesuffix("]") if text.startswith("InitVar[") else text


def _default_of(field: dataclasses.Field[Any]) -> str:
    if field.default is not MISSING:
        return repr(field.default)
    return "" if field.default_factory is MISSING else repr(field.default_factory())


def _docstrings(kind: type[Any]) -> dict[str, str]:
    """The string beneath each field. Python does not keep it, so it is read from the source."""
    found: dict[str, str] = {}
    # The class itself last: it may describe an inherited option anew.
    for base in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError, SyntaxError, ValueError):
            # A class that was typed at a prompt or made by a program has no source, and its options no words.
            continue
        if not isinstance(tree, ast.ClassDef):
            continue
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = inspect.cleandoc(text)
    return found
