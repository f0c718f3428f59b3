"""One process at a time works on a run directory.

The lock is the operating system's (`flock`): it goes with the process that holds it, however that one ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from brace.errors import LedgerError

LOCK = ".lock"
_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""What a file system that cannot lock answers. Two processes then merely repeat one another's work: the
reader keeps of an episode that was run by both what the first one wrote."""

_held: set[tuple[Path, int]] = set()
"""The directories held by this process, each with the thread that holds it."""


@contextmanager
def lock_runs(directories: Iterable[Path]) -> Iterator[None]:
    """Hold these run directories; an error names the process that holds one already.

    A thread may ask again for what it holds.
    """
    with ExitStack() as stack:
        for directory in dict.fromkeys(directories):
            stack.enter_context(_lock_run(directory))
        yield


@contextmanager
def _lock_run(directory: Path) -> Iterator[None]:
    key = directory.resolve(), threading.get_ident()
    if key in _held:
        yield
        return
    file = _take(directory)
    _held.add(key)
    try:
        yield
    finally:
        _held.discard(key)
        # Removed while still held: who waits for this very file sees that it is gone and makes a new one.
        (directory / LOCK).unlink(missing_ok=True)
        os.close(file)


def _take(directory: Path) -> int:
    path = directory / LOCK
    try:
        directory.mkdir(parents=True, exist_ok=True)
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                _flock(file, directory)
                # Its last holder may have removed it after it was opened here and before it was locked.
                if _is_still(path, file):
                    # Who was killed has left its name there.
                    os.truncate(file, 0)
                    os.write(file, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
                    return file
            except BaseException:
                os.close(file)
                raise
            os.close(file)
    except OSError as error:
        raise LedgerError(
            f"cannot write the run directory {directory}: {error.strerror}; choose another with --out"
        ) from error


def _flock(file: int, directory: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(file, 200).decode(errors="replace").strip() or "another process"
        raise LedgerError(
            f"{directory} is in use by {holder}; wait until that has ended, or choose another --out"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise


def _is_still(path: Path, file: int) -> bool:
    """Whether the file that was opened is still the one of that name."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False
