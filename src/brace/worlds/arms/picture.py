"""Pictures of a MuJoCo scene without a screen.

MuJoCo's own renderer is bound to the OpenGL library that was named when MuJoCo was first imported, perhaps by
somebody else; this one asks for its library when the first picture is wanted.
"""

from __future__ import annotations

import ctypes.util
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from brace.errors import BraceError

if TYPE_CHECKING:
    from brace.worlds.base import Frame

WIDTH, HEIGHT = 480, 360
MOST_GEOMS = 10_000
HEADLESS = {"osmesa": "OSMesa", "egl": "EGL"}
"""The renderers that need no screen, best first, and their libraries."""


def choose_gl() -> None:
    """Name a headless renderer before MuJoCo is imported, which loads it at once and fails if it is absent.

    What the user has set, and a machine with a screen, are left alone.
    """
    if "MUJOCO_GL" in os.environ or "DISPLAY" in os.environ or not sys.platform.startswith("linux"):
        return
    present = (name for name, library in HEADLESS.items() if ctypes.util.find_library(library) is not None)
    os.environ["MUJOCO_GL"] = next(present, "disable")


class Painter:
    """Draws what one camera of a model sees."""

    def __init__(self, mujoco: Any, model: Any, camera: str) -> None:
        self._mujoco = mujoco
        try:
            self._context = _gl_context(mujoco)(WIDTH, HEIGHT)
            self._context.make_current()
            self._pixels = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150.value)
        except (RuntimeError, ImportError, AttributeError, OSError, mujoco.FatalError) as error:
            raise BraceError(
                f"no picture can be drawn here ({error}): install libosmesa6 (software) or libegl1 (GPU) and "
                "set MUJOCO_GL=osmesa or MUJOCO_GL=egl before the program starts; stepping works without"
            ) from error
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._pixels)
        self._model = model
        self._scene = mujoco.MjvScene(model, maxgeom=MOST_GEOMS)
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = model.camera(camera).id
        self._options = mujoco.MjvOption()
        # Group 0 is what collides, group 1 what is meant to be seen.
        self._options.geomgroup[0] = 0

    def draw(self, data: Any) -> Frame:
        """The scene as it is now, upper row first."""
        mujoco, area = self._mujoco, self._mujoco.MjrRect(0, 0, WIDTH, HEIGHT)
        picture: Frame = np.empty((HEIGHT, WIDTH, 3), dtype=np.uint8)
        self._context.make_current()
        mujoco.mjv_updateScene(
            self._model,
            data,
            self._options,
            None,
            self._camera,
            mujoco.mjtCatBit.mjCAT_ALL.value,
            self._scene,
        )
        mujoco.mjr_render(area, self._scene, self._pixels)
        mujoco.mjr_readPixels(picture, None, area, self._pixels)
        return np.flipud(picture).copy()

    def close(self) -> None:
        """Give the graphics memory back."""
        self._context.make_current()
        self._pixels.free()
        self._context.free()


def _gl_context(mujoco: Any) -> Any:
    """The class that opens the chosen OpenGL library."""
    chosen = os.environ.get("MUJOCO_GL", "").lower().strip()
    return importlib.import_module(f"mujoco.{chosen}").GLContext if chosen in HEADLESS else mujoco.GLContext
