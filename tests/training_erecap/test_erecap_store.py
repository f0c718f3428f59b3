"""Labels on disk: whole shards only, going on, and refusing what does not belong together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from erecap_training_kit import PRUNING, frozen, item

from brace.errors import BraceError, ConfigError
from brace.training.erecap import labels
from brace.training.erecap.labels import LABELS, label_to_disk, read_labelled

ITEMS = [item(20 + n, 3, seed=n) for n in range(10)]


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "SHARD", 4)


def label(folder: Path, kind: str = "saliency", **about: Any) -> list[int]:
    told = label_to_disk(
        frozen(), ITEMS, folder, kind=kind, layers=PRUNING, about={"seed": 1, **about}, batch_tokens=100
    )
    return list(told)


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    assert label(tmp_path) == [0, 4, 8, 10]
    found = read_labelled(tmp_path)
    assert [one.item for one in found] == ITEMS
    assert all(one.labels.shape == (2, one.item.prompt) for one in found)


def test_a_stopped_labelling_goes_on_after_its_last_whole_shard(tmp_path: Path) -> None:
    label(tmp_path / "whole")
    for count in label_to_disk(
        frozen(), ITEMS, tmp_path / "parts", kind="saliency", layers=PRUNING, about={"seed": 1},
        batch_tokens=100,
    ):  # fmt: skip
        if count == 4:
            break
    assert label(tmp_path / "parts") == [4, 8, 10]
    for one, other in zip(read_labelled(tmp_path / "whole"), read_labelled(tmp_path / "parts"), strict=True):
        assert one.item == other.item
        assert torch.equal(one.labels, other.labels)


def test_a_full_disk_loses_nothing_that_was_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save, calls = labels.save_file, []

    def full(*given: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            Path(given[1]).write_bytes(b"half")
            raise OSError(28, "No space left on device")
        save(*given)

    monkeypatch.setattr(labels, "save_file", full)
    with pytest.raises(BraceError, match="make room and run again"):
        label(tmp_path)
    assert len(read_labelled(tmp_path)) == 4
    assert not list(tmp_path.glob("*.partial"))
    assert label(tmp_path)[-1] == 10


def test_labels_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    label(tmp_path)
    with pytest.raises(ConfigError, match=r"seed = 1, not 2"):
        label(tmp_path, seed=2)
    with pytest.raises(ConfigError, match="kind"):
        label(tmp_path, kind="attention")


def test_labels_that_are_no_numbers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object, batch: Any, layers: Any) -> torch.Tensor:
        return torch.full((len(layers), *batch.ids.shape), torch.nan)

    monkeypatch.setitem(LABELS, "saliency", broken)
    with pytest.raises(BraceError, match="float32 or bfloat16"):
        label(tmp_path)


def test_a_missing_or_broken_shard_is_named(tmp_path: Path) -> None:
    label(tmp_path)
    (tmp_path / "00001.safetensors").write_bytes(b"no")
    with pytest.raises(BraceError, match="00001"):
        read_labelled(tmp_path)
    (tmp_path / "00001.safetensors").unlink()
    with pytest.raises(BraceError, match="misses shard 1"):
        read_labelled(tmp_path)
    with pytest.raises(ConfigError, match="no labels"):
        read_labelled(tmp_path / "nowhere")
