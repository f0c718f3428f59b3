"""Appends records to one shard. Each record is one `write`, so a killed process loses at most one line."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from types import TracebackType

import msgspec

from brace.errors import LedgerError
from brace.ledger.records import SCHEMA, Record, Shard


class LedgerWriter:
    """One writer, one shard. Safe to share between threads; never shared between processes."""

    def __init__(self, directory: Path) -> None:
        self.number, self.path, self._file = _new_shard(directory)
        self._encoder = msgspec.json.Encoder()
        self._buffer = bytearray()
        self._lock = threading.Lock()
        self.write(Shard(schema=SCHEMA, writer=f"{socket.gethostname()}:{os.getpid()}", at=time.time()))

    def write(self, record: Record) -> None:
        """Hand one record to the operating system before returning."""
        with self._lock:
            self._encoder.encode_into(record, self._buffer)
            self._buffer += b"\n"
            try:
                written = os.write(self._file, self._buffer)
            except OSError as error:
                raise LedgerError(f"cannot append to {self.path}: {error.strerror}") from error
            if written != len(self._buffer):
                raise LedgerError(f"cannot append to {self.path}: the disk is full")

    def sync(self) -> None:
        """Make what was written survive a power cut, too."""
        os.fsync(self._file)

    def close(self) -> None:
        """Sync and close; harmless when closed already."""
        if self._file >= 0:
            self.sync()
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> LedgerWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def add_shard(directory: Path, content: bytes) -> Path:
    """Add a shard that was written elsewhere, whole or not at all."""
    number, path, file = _new_shard(directory)
    os.close(file)  # claims the name; an empty shard holds nothing
    partial = directory / f".shard-{number:05d}.{os.getpid()}"
    try:
        with partial.open("wb") as copy:
            copy.write(content)
            copy.flush()
            # Before it gets its name: after a power cut no shard may lack what it should hold.
            os.fsync(copy.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise LedgerError(f"cannot write {path}: {error.strerror}") from error
    return path


def _new_shard(directory: Path) -> tuple[int, Path, int]:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # A first guess: where numbers are missing it may be taken.
        number = len(list(directory.glob("shard-*.jsonl")))
        while True:
            path = directory / f"shard-{number:05d}.jsonl"
            try:
                # O_EXCL: of two processes that try the same number one is refused, and takes the next.
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
                return number, path, file
            except FileExistsError:
                number += 1
    except OSError as error:
        raise LedgerError(
            f"cannot write the run directory {directory}: {error.strerror}; choose another with --out"
        ) from error
