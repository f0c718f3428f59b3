"""robosuite behind a small face: two Panda arms under absolute pose control, no console output, no files."""

from __future__ import annotations

import copy
import importlib.metadata
import logging
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from brace.errors import BraceError, ConfigError
from brace.worlds.arms.geometry import Pose, Vector, vector_of
from brace.worlds.arms.picture import Painter, choose_gl
from brace.worlds.base import WorldInfo, need_simulator

if TYPE_CHECKING:
    from brace.worlds.base import Frame

OLDEST_MUJOCO, FIRST_UNFIT_MUJOCO = (3, 3), (3, 9)
CONTROL_FREQUENCY = 20
ROBOT = "Panda"


def check_mujoco(version: str) -> None:
    """Refuse a MuJoCo that this robosuite does not work with."""
    parts = re.match(r"(\d+)\.(\d+)", version)
    if parts is not None and OLDEST_MUJOCO <= (int(parts[1]), int(parts[2])) < FIRST_UNFIT_MUJOCO:
        return
    raise ConfigError(
        f"mujoco {version} does not fit robosuite 1.5.2: it needs mujoco>=3.3,<3.9; "
        "pip install 'mujoco>=3.3,<3.9'"
    )


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
        log.addFilter(_errors_only)
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


def _errors_only(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


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
            renderer="mujoco", control_freq=CONTROL_FREQUENCY, horizon=1, ignore_done=True,
            # A soft reset takes 5 ms instead of seconds; all that is random is drawn by us.
            hard_reset=False, seed=model_seed,
        )  # fmt: skip
        # What they compute in each of 25 substeps is read from the simulation directly where it is needed.
        self.env._observables = {}
        self._camera = camera
        self._painter: Painter | None = None
        self._owners = self._geom_owners()
        self.has_fingers = bool(self.env.robots[0].gripper["right"].dof)

    def reset(self, rng: np.random.Generator) -> None:
        """Both arms at home, with a little noise in their joints."""
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

    def _geom_owners(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        model = self.env.sim.model
        owners = []
        for geom in range(model.ngeom):
            name = model.body_id2name(model.geom_bodyid[geom]) or ""
            known = {"robot0": 1, "gripper0": 1, "robot1": 2, "gripper1": 2, "table": 3}
            owners.append(known.get(name.split("_")[0], 0))
        return np.array(owners)

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
