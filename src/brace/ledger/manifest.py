"""The run manifest: enough to know what was run, on what, and to run it again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from brace.errors import LedgerError
from brace.ledger.records import SCHEMA

MANIFEST = "manifest.json"
_REPORTED = ("brace-replan", "numpy", "msgspec", "polars", "torch", "transformers", "tokenizers")


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`manifest.json` of a run directory."""

    schema: int = SCHEMA
    name: str
    created: float
    """Unix time."""
    config: dict[str, Any]
    seeds: tuple[int, ...] = ()
    """The seed of each planned episode; empty for a user's own loop, which is one endless episode."""
    versions: dict[str, str]
    host: dict[str, str]
    commit: str = ""
    """Of the working directory the run was started in; `+` marks uncommitted changes."""
    command: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """What a reader of its figures must know of how it was run: that episodes shared cores, say."""

    @property
    def live(self) -> bool:
        """A user's own loop: it has no planned episodes, so an unfinished one still counts."""
        return not self.seeds


def describe_run(name: str, config: dict[str, Any], seeds: tuple[int, ...]) -> Manifest:
    """A manifest of this process, this machine and this checkout."""
    versions = {"python": platform.python_version()}
    for package in _REPORTED:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    host = {
        "system": platform.platform(),
        "machine": platform.machine(),
        "cores": str(os.cpu_count()),
        "cpu": _cpu_model(),
    }
    return Manifest(
        name=name, created=time.time(), config=config, seeds=seeds, versions=versions,
        host=host, commit=_commit(), command=(Path(sys.argv[0]).name, *sys.argv[1:]),
    )  # fmt: skip


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write it whole or not at all."""
    target = directory / MANIFEST
    # By the process, for two may be writing it at the same time.
    partial = directory / f".{MANIFEST}.{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2))
        partial.replace(target)
    except OSError as error:
        raise LedgerError(
            f"cannot write the run directory {directory}: {error.strerror}; choose another with --out"
        ) from error


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a run directory, or an error that says why there is none."""
    path = directory / MANIFEST
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise LedgerError(f"{directory} is not a run directory: no readable {MANIFEST}") from error
    try:
        # The version alone at first: the rest of a newer manifest may not be readable at all.
        check_schema(msgspec.json.decode(raw, type=_Versioned).schema, path)
        return msgspec.json.decode(raw, type=Manifest)
    except msgspec.MsgspecError as error:
        raise LedgerError(
            f"{path} is damaged or not brace's: {error}; restore it, or choose another directory"
        ) from error


def add_remark(directory: Path, remark: str) -> None:
    """Put a remark into the manifest of a run, once."""
    manifest = read_manifest(directory)
    if remark not in manifest.remarks:
        remarks = (*manifest.remarks, remark)
        write_manifest(directory, msgspec.structs.replace(manifest, remarks=remarks))


def check_schema(schema: int, path: Path) -> None:
    """Refuse what a newer brace wrote rather than misread it."""
    if schema > SCHEMA:
        raise LedgerError(
            f"{path} has schema {schema}, this brace reads up to {SCHEMA}: pip install -U brace-replan"
        )


class _Versioned(msgspec.Struct):
    schema: int


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(  # noqa: S603 - fixed program and arguments
            ["git", *arguments],  # noqa: S607
            capture_output=True, text=True, timeout=5, check=False,
        )  # fmt: skip
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        head = git("rev-parse", "--short=12", "HEAD")
        # Untracked files do not count: run directories often lie in the checkout.
        return f"{head}+" if head and git("status", "--porcelain", "-uno") else head
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
