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
from dataclasses import MISSING, dataclass
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
    for name, field in fields.items():
        if name not in given and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"{what} needs the option {name!r} ({_text_of(field)})")
    return kind(**{name: _converted(kind, fields[name], value, what) for name, value in given.items()})


def check_choices(thing: Any, what: str) -> None:
    """Refuse what none of a field's choices is. For `__post_init__`: not everything is made by name."""
    for field in _fields(type(thing)):
        _check_choice(_type_of(type(thing), field), field.name, getattr(thing, field.name), what)


def _check_choice(wanted: Any, name: str, value: Any, what: str) -> None:
    if get_origin(wanted) is Literal and value not in get_args(wanted):
        raise ConfigError(f"{what}: {name} = {value!r}; choose {', '.join(map(str, get_args(wanted)))}")


def _fields(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    if not dataclasses.is_dataclass(kind):
        return []
    return [field for field in dataclasses.fields(kind) if field.init]


def _converted(kind: type[Any], field: dataclasses.Field[Any], value: Any, what: str) -> Any:
    import msgspec  # noqa: PLC0415 - the controller, which has a registry of its own, does without

    wanted = _type_of(kind, field)
    # Before the conversion, whose own message does not name the choices.
    _check_choice(wanted, field.name, value, what)
    if isinstance(wanted, type) and isinstance(value, wanted) and not isinstance(value, bool):
        return value
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what}, option {field.name!r} = {value!r}: {error}") from error
    except TypeError:
        # Not a type that plain data can be turned into, such as a loaded model: taken as it is.
        return value


def _type_of(kind: type[Any], field: dataclasses.Field[Any]) -> Any:
    """The annotation itself, evaluated where it was written.

    Not `get_type_hints`: that would evaluate the other fields too, whose names may be there for checking only.
    """
    if not isinstance(field.type, str):
        return field.type
    home = next(base for base in kind.__mro__ if field.name in vars(base).get("__annotations__", {}))
    try:
        return eval(field.type, dict(vars(sys.modules[home.__module__])))  # noqa: S307 - our own source
    except NameError:
        return Any


def _text_of(field: dataclasses.Field[Any]) -> str:
    return field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))


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
