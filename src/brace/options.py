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
from collections.abc import Mapping
from dataclasses import MISSING, InitVar, dataclass
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin

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
        Option(field.name, _text_of(field), _default_of(field), docs.get(field.name, ""))
        for field in _fields(kind)
    )


def make(kind: type[T], given: Mapping[str, Any], what: str) -> T:
    """Build `kind` with the options `given`. One that is unknown, missing or of another type is refused.

    `what` begins the message: `compressor 'recency'`.
    """
    fields = {field.name: field for field in _fields(kind)}
    for name in given:
        if name not in fields:
            raise ConfigError(f"{what} has no option {name!r}{suggestion(str(name), fields)}")
    missing = [
        f"{name!r} ({_text_of(field)})"
        for name, field in fields.items()
        if name not in given and field.default is MISSING and field.default_factory is MISSING
    ]
    if missing:
        raise ConfigError(f"{what} needs the option{'s' * (len(missing) > 1)} {' and '.join(missing)}")
    return kind(**{name: _converted(kind, fields[name], value, what) for name, value in given.items()})


def check_choices(made: object, what: str) -> None:
    """Refuse a value that its field's `Literal` does not name.

    `make` has done so already; this is for `__post_init__`, where a class may be built by hand.
    """
    for field in _fields(type(made)):
        _check_choice(field.name, getattr(made, field.name), _type_of(type(made), field), what)


def _fields(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    if not dataclasses.is_dataclass(kind):
        return []
    # Not `dataclasses.fields`: that leaves out an `InitVar`, which is an option too.
    every = kind.__dataclass_fields__
    return [every[name] for name in inspect.signature(kind).parameters if name in every]


def _converted(kind: type[Any], field: dataclasses.Field[Any], value: Any, what: str) -> Any:
    import msgspec  # noqa: PLC0415 - the controller, which has a registry of its own, does without

    wanted = _type_of(kind, field)
    _check_choice(field.name, value, wanted, what)
    if isinstance(wanted, type) and isinstance(value, wanted) and not isinstance(value, bool):
        return value
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what}, option {field.name!r} = {value!r}: {error}") from error
    except TypeError:
        # Not a type that plain data can be turned into, such as a loaded model: taken as it is.
        return value


def _check_choice(name: str, value: object, wanted: Any, what: str) -> None:
    if get_origin(wanted) is Literal and value not in get_args(wanted):
        known = map(str, get_args(wanted))
        raise ConfigError(f"{what}, option {name!r} = {value!r}{suggestion(str(value), known)}")


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
            return Any
    return wanted.type if isinstance(wanted, InitVar) else wanted


def _text_of(field: dataclasses.Field[Any]) -> str:
    text = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
    return text.removeprefix("InitVar[").removesuffix("]") if text.startswith("InitVar[") else text


def _default_of(field: dataclasses.Field[Any]) -> str:
    if field.default is not MISSING:
        return repr(field.default)
    return "" if field.default_factory is MISSING else repr(field.default_factory())


@cache
def _docstrings(kind: type[Any]) -> dict[str, str]:
    """The string beneath each field. Python does not keep it, so it is read from the source."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError, SyntaxError, ValueError):
            continue
        if not isinstance(tree, ast.ClassDef):
            continue
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = inspect.cleandoc(text)
    return found
