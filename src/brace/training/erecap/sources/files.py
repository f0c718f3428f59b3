"""Files of a data set where they lie: in folders, or in .tar.xz archives, read without unpacking them."""

from __future__ import annotations

import csv
import io
import json
import lzma
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from brace.errors import ConfigError
from brace.training.erecap.examples import BadRecordError, Faults

ARCHIVE = ".tar.xz"
_BROKEN = (EOFError, OSError, lzma.LZMAError, tarfile.TarError)


class UnreadableFileError(ConfigError):
    """A file of which nothing at all can be read."""


class File(NamedTuple):
    """A file's name below the data's folder, and its content: to be read before the next file is taken."""

    name: str
    read: Callable[[], bytes]


def files_below(path: Path, wanted: Callable[[PurePosixPath], bool], faults: Faults) -> Iterator[File]:
    """The wanted files of a folder and its archives in a fixed order, or the one file (or archive) given."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        name = file.relative_to(path if path.is_dir() else path.parent).as_posix()
        if name.endswith(ARCHIVE):
            yield from _members(file, name, wanted, faults)
        elif wanted(PurePosixPath(name)) and file.is_file():
            yield File(name, partial(_content, file))


def _members(
    archive: Path, name: str, wanted: Callable[[PurePosixPath], bool], faults: Faults
) -> Iterator[File]:
    """The wanted members; of an archive cut short, those before the cut."""
    opened = False
    try:
        # Not tarfile's own decompression: that takes a cut for the end.
        with lzma.open(archive) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as tar:
            opened = True
            for member in tar:
                if member.isfile() and wanted(PurePosixPath(member.name)):
                    content = tar.extractfile(member)
                    if content is not None:
                        yield File(f"{name}/{member.name}", partial(_unpacked, content, member.name))
    except _BROKEN as error:
        if not opened:
            raise UnreadableFileError(f"{archive} is no {ARCHIVE} archive ({error})") from error
        faults.add(name, f"the archive breaks off ({error}); what came before is used")


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UnreadableFileError(f"{file} cannot be read ({error.strerror})") from error


def _unpacked(content: IO[bytes], name: str) -> bytes:
    try:
        return content.read()
    except _BROKEN as error:
        raise BadRecordError(f"the archive breaks off within {name}") from error


def json_list(file: File) -> list[Any]:
    """The records of a .json file that is one list."""
    try:
        records = json.loads(file.read())
    except (ValueError, RecursionError) as error:
        raise UnreadableFileError(f"{file.name} is no JSON ({error})") from error
    if not isinstance(records, list):
        raise UnreadableFileError(f"{file.name} is no list of records but a JSON {type(records).__name__}")
    return records


def csv_rows(content: bytes) -> Iterator[dict[str, str]]:
    """The rows of a table; `BadRecordError` where it breaks off."""
    try:
        yield from csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""))
    except (csv.Error, UnicodeDecodeError) as error:
        raise BadRecordError(f"the table breaks off ({error})") from error
