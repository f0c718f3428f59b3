"""Pictures of an episode beside its ledger: `frames/<episode>/<step>.jpg` (or .png) in a run directory."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from brace.errors import LedgerError, MissingExtraError

FOLDER = "frames"
MOST = 8
"""Frames of an episode on a page."""
HIGHEST = 240
"""Pixels: enough to see what is going on, and a few kilobytes."""
_QUALITY = 70
_TYPES = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}


def save_frame(directory: Path, episode: int, step: int, image: NDArray[np.uint8]) -> None:
    """Keep a picture (height × width × 3, or grey) of a step of an episode in its run directory."""
    try:
        from PIL import Image  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise MissingExtraError("saving frames", "video") from error
    picture = Image.fromarray(np.ascontiguousarray(image, np.uint8)).convert("RGB")
    if picture.height > HIGHEST:
        picture = picture.resize((max(1, round(picture.width * HIGHEST / picture.height)), HIGHEST))
    target = directory / FOLDER / str(episode) / f"{step}.jpg"
    data = io.BytesIO()
    picture.save(data, format="JPEG", quality=_QUALITY, optimize=True)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.getvalue())
    except OSError as error:
        raise LedgerError(f"cannot write the frame {target}: {error.strerror}") from error


def episodes_with_frames(directory: Path) -> set[int]:
    """The episodes of a run directory that have a folder of frames."""
    return {int(entry.name) for entry in (directory / FOLDER).glob("*") if entry.name.isdecimal()}


def frames_of(directory: Path, episode: int, most: int = MOST) -> list[tuple[int, bytes]]:
    """At most `most` frames of an episode with their steps, evenly chosen, the first and the last among them.

    What is not named by a step, or is neither JPEG nor PNG inside, is no frame.
    """
    found = {
        int(path.stem): path
        for path in (directory / FOLDER / str(episode)).glob("*")
        if path.suffix in (".jpg", ".png") and path.stem.isdecimal()
    }
    steps = sorted(found)
    if len(steps) > most:
        chosen = np.linspace(0, len(steps) - 1, most).round().astype(int)
        steps = [steps[place] for place in dict.fromkeys(chosen.tolist())]
    read = ((step, found[step].read_bytes()) for step in steps)
    return [(step, data) for step, data in read if _type(data)]


def light_frames(directory: Path, episode: int, weight: int) -> list[tuple[int, bytes]]:
    """As many frames as take no more than `weight` bytes on a page; none where a single one takes more."""
    for most in range(MOST, 0, -1):
        chosen = frames_of(directory, episode, most)
        if sum(len(data_uri(data)) for _, data in chosen) <= weight:
            return chosen
    return []


def data_uri(data: bytes) -> str:
    """A frame as an address that holds the picture itself."""
    return f"data:{_type(data)};base64,{base64.b64encode(data).decode('ascii')}"


def _type(data: bytes) -> str:
    return next((kind for start, kind in _TYPES.items() if data.startswith(start)), "")
