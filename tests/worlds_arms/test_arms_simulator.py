"""The simulator's rough edges: versions, renderers, noise on the console."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from brace.errors import ConfigError
from brace.registry import worlds
from brace.worlds.arms.simulator import check_mujoco, choose_gl

WITHOUT_GL = """
import ctypes, ctypes.util
find, load = ctypes.util.find_library, ctypes.CDLL.__init__
ctypes.util.find_library = lambda name: None if "GL" in name or "Mesa" in name else find(name)
def refuse(self, name, *rest, **options):
    if name and ("GL" in str(name) or "Mesa" in str(name)):
        raise OSError(f"{name}: not there")
    load(self, name, *rest, **options)
ctypes.CDLL.__init__ = refuse
from brace.errors import BraceError
from brace.worlds.arms import LiftWorld
world = LiftWorld(disturbance="none")
world.step(hold=False)
try:
    world.frame()
except BraceError as error:
    assert "libosmesa6" in str(error) and "libegl1" in str(error) and "MUJOCO_GL" in str(error), error
    print("refused")
world.close()
"""


@pytest.mark.parametrize("version", ["3.3.0", "3.8.0", "3.8.1rc1"])
def test_a_fitting_mujoco_passes(version: str) -> None:
    check_mujoco(version)


@pytest.mark.parametrize("version", ["2.3.7", "3.2.9", "3.9.0", "4.0.0", "unknown"])
def test_another_mujoco_is_refused_with_the_range_and_the_remedy(version: str) -> None:
    with pytest.raises(ConfigError, match=r"mujoco>=3\.3,<3\.9.*pip install"):
        check_mujoco(version)


def test_a_chosen_renderer_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "egl")
    choose_gl()
    assert os.environ["MUJOCO_GL"] == "egl"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have renderers of their own")
@pytest.mark.parametrize(
    ("present", "chosen"), [({"OSMesa", "EGL"}, "osmesa"), ({"EGL"}, "egl"), (set(), "disable")]
)
def test_a_headless_machine_gets_the_renderer_it_has(
    monkeypatch: pytest.MonkeyPatch, present: set[str], chosen: str
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    # Set before it is deleted, so that what the function writes is undone as well.
    monkeypatch.setenv("MUJOCO_GL", "")
    monkeypatch.delenv("MUJOCO_GL")
    monkeypatch.setattr("ctypes.util.find_library", lambda name: name if name in present else None)
    choose_gl()
    assert os.environ["MUJOCO_GL"] == chosen


@pytest.mark.parametrize("name", ["lift-v1", "handover-v1", "peg-v1"])
def test_unknown_levels_are_refused_before_anything_is_loaded(name: str) -> None:
    with pytest.raises(ConfigError, match="easy, normal, hard"):
        worlds.create(name, {"difficulty": "middling"})
    with pytest.raises(ConfigError, match="none, normal, strong"):
        worlds.create(name, {"disturbance": "some"})


def test_importing_the_worlds_loads_no_simulator() -> None:
    script = "import sys, brace.worlds.arms; print({'robosuite', 'mujoco'} & set(sys.modules))"
    assert _run(script, Path.cwd()).stdout.strip() == "set()"


def test_without_any_renderer_it_steps_and_only_refuses_pictures(tmp_path: Path) -> None:
    pytest.importorskip("robosuite")
    done = _run(WITHOUT_GL, tmp_path)
    assert (done.stdout.strip(), done.stderr.strip()) == ("refused", "")
    assert not list(tmp_path.iterdir())


def _run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    hidden = {"MUJOCO_GL", "DISPLAY"}
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True, text=True, check=True, cwd=folder, env=environment,
    )  # fmt: skip
