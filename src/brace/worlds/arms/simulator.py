"""robosuite behind a small face: two Panda arms under absolute pose control, no console output, no files.

Pictures are drawn without a screen. MuJoCo's own renderer is bound to the OpenGL library that was named when
MuJoCo was first imported, perhaps by somebody else; ours asks for its library when a picture is wanted first.
"""

from __future__ import annotations

import copy
import ctypes.util
import importlib
import importlib.metadata
import logging
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from brace.errors import BraceError, ConfigError
from brace.worlds.arms.geometry import Pose, Vector, vector_of
from brace.worlds.base import WorldInfo, need_simulator

if TYPE_CHECKING:
    from brace.worlds.base import Frame

# The range of the extra `arms` in pyproject.toml: MuJoCo 4.0, for one, breaks robosuite 1.5.2.
OLDEST_MUJOCO, FIRST_UNFIT_MUJOCO = (3, 3), (3, 9)
CONTROL_FREQUENCY = 20
ROBOT = "Panda"
WIDTH, HEIGHT = 480, 360
MOST_GEOMS = 10_000
HEADLESS = {"osmesa": "OSMesa", "egl": "EGL"}
"""The renderers that need no screen, best first, and their libraries."""


def check_mujoco(version: str) -> None:
    """Refuse a MuJoCo that this robosuite does not work with."""
    parts = re.match(r"(\d+)\.(\d+)", version)
    if parts is not None and OLDEST_MUJOCO <= (int(parts[1]), int(parts[2])) < FIRST_UNFIT_MUJOCO:
        return
    raise ConfigError(
        f"mujoco {version} does not fit robosuite 1.5.2: it needs mujoco>=3.3,<3.9; "
        "pip install 'mujoco>=3.3,<3.9'"
    )


def choose_gl() -> None:
    """Name a headless renderer before MuJoCo is imported, which loads it at once and fails if it is absent.

    What the user has set, and a machine with a screen, are left alone.
    """
    if "MUJOCO_GL" in os.environ or "DISPLAY" in os.environ or not sys.platform.startswith("linux"):
        return
    present = (name for name, library in HEADLESS.items() if ctypes.util.find_library(library) is not None)
    os.environ["MUJOCO_GL"] = next(present, "disable")


def load_robosuite(info: WorldInfo, name: str) -> Any:
    """Import robosuite quietly, or say what is wrong with it."""
    try:
        check_mujoco(importlib.metadata.version("mujoco"))
    except importlib.metadata.PackageNotFoundError:
        need_simulator("mujoco", info, name)
    choose_gl()
    chosen = os.environ.get("MUJOCO_GL")
    log = logging.getLogger("robosuite_logs")
    try:
        need_simulator("mujoco", info, name)
        # robosuite sets the level of its log while it is imported; a filter outlives that.
        log.addFilter(lambda record: record.levelno >= logging.ERROR)
        robosuite = need_simulator("robosuite", info, name)
    except (AttributeError, RuntimeError, ImportError) as error:
        raise BraceError(
            f"world {name!r}: MuJoCo cannot load the renderer MUJOCO_GL={chosen!r} ({error}); unset it, or "
            "install libosmesa6 (MUJOCO_GL=osmesa) or libegl1 (MUJOCO_GL=egl)"
        ) from error
    # robosuite writes "egl" into the environment, and a worker process that inherits it may have no EGL.
    os.environ.pop("MUJOCO_GL", None)
    if chosen is not None:
        os.environ["MUJOCO_GL"] = chosen
    return robosuite


class Simulator:
    """One robosuite environment with two opposed arms, reused over all episodes.

    `model_seed` decides what robosuite draws when it builds its objects (the length of a hammer …).
    """

    def __init__(self, task: str, camera: str, info: WorldInfo, name: str, model_seed: int = 0) -> None:
        robosuite = load_robosuite(info, name)
        self._mujoco: Any = need_simulator("mujoco", info, name)
        self.env: Any = robosuite.make(
            task, robots=[ROBOT, ROBOT], env_configuration="opposed",
            controller_configs=[_pose_control(robosuite), _pose_control(robosuite)],
            has_renderer=False, has_offscreen_renderer=False, use_camera_obs=False, use_object_obs=False,
            # The loop ends episodes: robosuite's own horizon must not.
            renderer="mujoco", control_freq=CONTROL_FREQUENCY, horizon=1, ignore_done=True,
            # A soft reset takes 5 ms instead of seconds; all that is random is drawn by us.
            hard_reset=False, seed=model_seed,
        )  # fmt: skip
        # What they compute in each of 25 substeps is read from the simulation directly where it is needed.
        self.env._observables = {}
        self._camera = camera
        self._painter: Painter | None = None
        # Names are compared once, because contacts are looked at in every step.
        known = {"robot0": 1, "gripper0": 1, "robot1": 2, "gripper1": 2, "table": 3}
        model = self.env.sim.model
        names = [model.body_id2name(body) or "" for body in model.geom_bodyid]
        self._owners = np.array([known.get(name.split("_")[0], 0) for name in names])
        # In peg-in-hole robosuite fixes peg and board to the wrists: there are no grippers.
        self.has_fingers = bool(self.env.robots[0].gripper["right"].dof)

    def reset(self, rng: np.random.Generator) -> None:
        """Both arms at home, with a little noise in their joints."""
        # robosuite draws the noise in the joints from this generator.
        self.env.rng = rng
        self.env.reset()

    def pose(self, arm: int) -> Pose:
        """Where an arm's grip is, by its own joints."""
        controller = self.env.robots[arm].part_controllers["right"]
        return Pose(np.array(controller.ref_pos), np.array(controller.ref_ori_mat))

    def width(self, arm: int) -> float:
        """How far the fingers are apart, in metres."""
        fingers = self.env.sim.data.qpos[self.env.robots[arm]._ref_gripper_joint_pos_indexes["right"]]
        return float(fingers[0] - fingers[1])

    def step(self, commands: Sequence[tuple[Pose, float]]) -> None:
        """One control step towards these poses; a grip of 1 closes the fingers, -1 opens them."""
        action: list[float] = []
        for pose, grip in commands:
            action += [*pose.position, *vector_of(pose.rotation)]
            if self.has_fingers:
                action.append(grip)
        self.env.step(np.array(action))

    def body(self, number: int) -> Pose:
        """A body's pose."""
        data = self.env.sim.data
        return Pose(np.array(data.body_xpos[number]), np.array(data.body_xmat[number]).reshape(3, 3))

    def place(self, joint: str, position: Vector, quaternion: Vector) -> None:
        """Put a free object somewhere, at rest."""
        data = self.env.sim.data
        data.set_joint_qpos(joint, np.concatenate([position, quaternion]))
        data.set_joint_qvel(joint, np.zeros(6))
        # Until then MuJoCo's poses and contacts are those of the old place.
        self.env.sim.forward()

    def has_collision(self) -> bool:
        """An arm touches the other arm or the table."""
        data = self.env.sim.data._data
        if data.ncon == 0:
            return False
        owners = self._owners[data.contact.geom]
        first, second = owners.min(axis=1), owners.max(axis=1)
        # 1 and 2 are the arms, 3 is the table, 0 is everything else.
        return bool(np.any((first > 0) & (first != second)))

    def frame(self) -> Frame:
        """The scene as its camera sees it; the renderer is made when the first picture is wanted."""
        if self._painter is None:
            self._painter = Painter(self._mujoco, self.env.sim.model._model, self._camera)
        return self._painter.draw(self.env.sim.data._data)

    def close(self) -> None:
        """Give the renderer and the simulation back."""
        if self._painter is not None:
            self._painter.close()
            self._painter = None
        self.env.close()


def _pose_control(robosuite: Any) -> Any:
    """Operational-space control of the grip's absolute pose in the world frame."""
    config = copy.deepcopy(robosuite.load_composite_controller_config(controller=None, robot=ROBOT))
    config["body_parts"]["right"] |= {"input_type": "absolute", "input_ref_frame": "world"}
    return config


class Painter:
    """Draws what one camera of a model sees."""

    def __init__(self, mujoco: Any, model: Any, camera: str) -> None:
        self._mujoco = mujoco
        chosen = os.environ.get("MUJOCO_GL", "").lower().strip()
        try:
            library = importlib.import_module(f"mujoco.{chosen}") if chosen in HEADLESS else mujoco
            self._context = library.GLContext(WIDTH, HEIGHT)
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
        # Another world's painter in this process may have made its own context current.
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
        # OpenGL gives the lowest row first.
        return np.flipud(picture).copy()

    def close(self) -> None:
        """Give the graphics memory back."""
        self._context.make_current()
        self._pixels.free()
        self._context.free()
