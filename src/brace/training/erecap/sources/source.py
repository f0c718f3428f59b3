"""A source of examples: where its data lies, whose it is, and how its files become records and examples.

Files are read where they lie: in folders, or in .tar.xz archives, which are not unpacked.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import random
import tarfile
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from brace.errors import BraceError, ConfigError
from brace.training.erecap.examples import MOST_CHARS, BadRecordError, Example, Faults

_MALFORMED = (KeyError, IndexError, TypeError, AttributeError, ValueError, SyntaxError, RecursionError)
"""What taking a record apart raises when it does not have the form of its kind."""

Make = Callable[[random.Random, int], Example]
"""The example of a record: chance says where an episode is cut, the number how many characters fit."""
ARCHIVE = ".tar.xz"
_BROKEN = (EOFError, OSError, lzma.LZMAError, tarfile.TarError)


class Record(NamedTuple):
    """One record of a data set, not yet taken apart; to be made before the next one is asked for."""

    name: str
    """`file:record`, or the file alone where it is one record."""
    make: Make


@dataclass(frozen=True, slots=True)
class Source:
    """A public data set, or one's own."""

    name: str
    folder: str
    """Where it lies below the data's root."""
    licence: str
    permissive: bool
    """Whether weights trained on it may be passed on for any use."""
    origin: str
    """Where to get it."""
    records: Callable[[Path, Faults], Iterator[Record]]

    def count(self, path: Path, faults: Faults) -> int:
        """How many records there are, good or bad. Nothing is taken apart, so this is quick."""
        return sum(1 for _ in self._found(path, faults))

    def load(
        self,
        path: Path,
        faults: Faults,
        *,
        only: Set[int] | None = None,
        seed: int = 0,
        most_chars: int = MOST_CHARS,
    ) -> Iterator[Example]:
        """The examples of all records, or of those with the given numbers; reading stops after the last.

        Where an episode is cut depends on the record and the seed alone.
        """
        last = max(only, default=-1) if only is not None else None
        if last == -1:
            return
        for number, record in enumerate(self._found(path, faults)):
            if only is None or number in only:
                example = self._made(record, seed, most_chars, faults)
                if example is not None:
                    yield example
            if number == last:
                return

    def _found(self, path: Path, faults: Faults) -> Iterator[Record]:
        self.require(path)
        try:
            yield from self.records(path, faults)
        except (UnreadableFileError, BadRecordError) as error:
            raise ConfigError(f"{error}; it should be {self.origin}") from error

    def require(self, path: Path) -> None:
        """`ConfigError` with the way to the data if there is none."""
        if not path.exists():
            raise ConfigError(f"no data for {self.name!r}: expected {path}; it comes from {self.origin}")

    def _made(self, record: Record, seed: int, most_chars: int, faults: Faults) -> Example | None:
        chance = random.Random(f"{self.name} {record.name} {seed}")
        try:
            example = record.make(chance, most_chars)
        except BraceError as error:
            faults.add(record.name, str(error))
        except _MALFORMED as error:
            faults.add(record.name, f"not of the usual form ({type(error).__name__}: {str(error)[:80]})")
        else:
            if example.answer.strip():
                return example
            faults.add(record.name, "the answer is empty")
        return None


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
        # As a stream, because to go back in an .xz means to unpack it from its beginning.
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


def paired(
    files: Iterable[File], key: Callable[[str], tuple[str, str]]
) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Both files' contents as soon as both were met, whichever comes first; at the end those left alone.

    `key` tells a file name's record and which half of it the file is. A half that cannot be read is left out.
    """
    waiting: dict[str, dict[str, bytes]] = {}
    for file in files:
        record, half = key(file.name)
        halves = waiting.setdefault(record, {})
        try:
            halves[half] = file.read()
        except BadRecordError:
            continue
        if len(halves) == 2:
            yield record, waiting.pop(record)
    yield from waiting.items()


def both(halves: dict[str, bytes], first: str, second: str) -> tuple[bytes, bytes]:
    """The two halves, or `BadRecordError`."""
    for half in (first, second):
        if half not in halves:
            raise BadRecordError(f"its {half} is missing")
    return halves[first], halves[second]
