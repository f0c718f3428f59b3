"""Frames beside a ledger: small when saved, evenly chosen when read, and nothing but pictures."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from brace.errors import LedgerError, MissingExtraError
from brace.report.frames import data_uri, episodes_with_frames, frames_of, light_frames, save_frame

WHITE = np.full((4, 4, 3), 255, np.uint8)


def test_a_frame_is_saved_small_and_read_back(tmp_path: Path) -> None:
    save_frame(tmp_path, 2, 17, np.zeros((480, 640, 3), np.uint8))
    ((step, data),) = frames_of(tmp_path, 2)
    picture = Image.open(io.BytesIO(data))
    assert (step, picture.size, picture.format) == (17, (320, 240), "JPEG")
    assert data_uri(data).startswith("data:image/jpeg;base64,")
    assert episodes_with_frames(tmp_path) == {2}


def test_grey_and_small_pictures_are_kept_as_they_are(tmp_path: Path) -> None:
    save_frame(tmp_path, 0, 0, np.zeros((10, 20), np.uint8))
    ((_, data),) = frames_of(tmp_path, 0)
    assert Image.open(io.BytesIO(data)).size == (20, 10)


@given(st.sets(st.integers(0, 300), min_size=1, max_size=40), st.integers(1, 10))
def test_chosen_frames_are_evenly_spread_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, steps: set[int], most: int
) -> None:
    folder = tmp_path_factory.mktemp("run")
    (folder / "frames" / "0").mkdir(parents=True)
    for step in steps:
        (folder / "frames" / "0" / f"{step}.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    chosen = [step for step, _ in frames_of(folder, 0, most)]
    assert len(chosen) == min(most, len(steps))
    assert chosen == sorted(set(chosen))
    assert chosen[0] == min(steps)
    assert len(chosen) == 1 or chosen[-1] == max(steps)
    ranks = [sorted(steps).index(step) for step in chosen]
    gaps = np.diff(ranks)
    assert not len(gaps) or gaps.max() - gaps.min() <= 1


def test_what_is_no_picture_is_no_frame(tmp_path: Path) -> None:
    save_frame(tmp_path, 0, 5, WHITE)
    folder = tmp_path / "frames" / "0"
    (folder / "6.jpg").write_text("<script>alert(1)</script>")
    (folder / "last.jpg").write_bytes((folder / "5.jpg").read_bytes())
    (folder / "7.svg").write_text("<svg/>")
    (tmp_path / "frames" / "notes").mkdir()
    assert [step for step, _ in frames_of(tmp_path, 0)] == [5]
    assert episodes_with_frames(tmp_path) == {0}
    assert frames_of(tmp_path, 9) == []
    assert episodes_with_frames(tmp_path / "nowhere") == set()


def test_heavy_frames_are_fewer(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (240, 320, 3), np.uint8)
    for step in range(10):
        save_frame(tmp_path, 0, step, noise)
    one = len(data_uri(frames_of(tmp_path, 0, 1)[0][1]))
    assert len(light_frames(tmp_path, 0, 10 * one)) == 8
    assert len(light_frames(tmp_path, 0, 3 * one)) == 3
    assert light_frames(tmp_path, 0, one - 1) == []


def test_errors_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "frames").write_text("in the way")
    with pytest.raises(LedgerError, match="cannot write the frame"):
        save_frame(tmp_path, 0, 0, WHITE)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"brace-replan\[video\]"):
        save_frame(tmp_path, 0, 0, WHITE)
