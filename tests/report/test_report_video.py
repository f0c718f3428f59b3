"""A film of an episode: frames in, an mp4 out that a decoder reads, its timeline drawn in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from report_kit import typical

from brace.errors import BraceError
from brace.report.video import Film, write_video

av = pytest.importorskip("av")


def filmed(steps: int, shape: tuple[int, ...] = (60, 80, 3)) -> Film:
    film = Film()
    for step in range(steps):
        film.add(step, np.full(shape, 200, np.uint8))
    return film


def decoded(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def test_every_step_is_a_frame_and_the_cursor_moves_along_the_timeline(tmp_path: Path) -> None:
    with filmed(9) as film:
        write_video(tmp_path / "deep" / "film.mp4", film, typical(tmp_path / "run"), 0, dt=0.1)
    pictures = decoded(tmp_path / "deep" / "film.mp4")
    assert len(pictures) == 9
    assert all(side % 2 == 0 for side in pictures[0].shape[:2])
    orange = [np.argwhere(_is_cursor(picture)).mean(axis=0)[1] for picture in pictures]
    assert orange == sorted(orange)
    assert orange[-1] - orange[0] > 200


def _is_cursor(picture: np.ndarray) -> np.ndarray:
    strip = picture[420:].astype(int)
    columns = (abs(strip - (212, 84, 27)).max(axis=2) < 60).mean(axis=0) > 0.7
    return np.broadcast_to(columns, strip.shape[:2])


def test_a_world_without_a_picture_is_an_error() -> None:
    with Film() as film, pytest.raises(BraceError, match="cannot be drawn"):
        film.add(0, None)


def test_frames_that_change_their_size_are_an_error() -> None:
    with filmed(1) as film, pytest.raises(BraceError, match="keep their size"):
        film.add(1, np.zeros((10, 10, 3), np.uint8))


def test_an_episode_without_steps_cannot_be_filmed(tmp_path: Path) -> None:
    with Film() as film, pytest.raises(BraceError, match="nothing was filmed"):
        write_video(tmp_path / "film.mp4", film, typical(tmp_path / "run"), 0, dt=0.1)
