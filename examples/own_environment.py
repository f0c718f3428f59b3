"""Your own Gymnasium environment as a world: its skills, how one acts, what is seen. Then it runs like ours.

Run it: pip install gymnasium; python examples/own_environment.py
"""

from pathlib import Path

import gymnasium

from brace.bench.runner import prepare_run, run_tasks
from brace.ledger.reader import load_run
from brace.loop.config import load_config
from brace.plan import Arg, Skill, SkillSet
from brace.planners import FunctionPlanner
from brace.registry import planners, worlds
from brace.worlds.bridges import Ended, GymWorld

MOVES = {"left": 0, "down": 1, "right": 2, "up": 3}
SKILLS = SkillSet(
    [Skill("slide", (Arg("way", "choice", tuple(MOVES)), Arg("cell", "number")), "slide to a cell")]
)
SAFE_WAY = {
    0: ("down", 4),
    4: ("down", 8),
    8: ("right", 9),
    9: ("down", 13),
    13: ("right", 14),
    14: ("right", 15),
}


def act(call, at):
    """One action of a skill, or its end. The ice may carry us elsewhere: then the skill has failed."""
    way, cell = call.args
    if at == int(cell):
        return Ended()
    start = next((here for here, (_, there) in SAFE_WAY.items() if there == int(cell)), at)
    return MOVES[way] if at == start else Ended(f"slipped to cell {at}")


@worlds.register("lake-v1")
class Lake(GymWorld):
    def __init__(self):
        super().__init__(
            gymnasium.make("FrozenLake-v1", success_rate=0.95),
            id="lake-v1",
            task="cross the ice to cell 15; holes at 5, 7, 11 and 12",
            skills=SKILLS,
            act=act,
            idle=MOVES["left"],
            describe=lambda at, info: f"at cell {at}",
            max_steps=60,
        )


def llm(prompt):
    """Stands in for your planner: reads where we are, and goes one cell on."""
    at = int(prompt.rpartition("at cell ")[2].split()[0])
    back = {1: ("left", 0), 2: ("left", 1), 3: ("left", 2), 6: ("left", 5), 10: ("left", 9)}
    way, cell = SAFE_WAY.get(at) or back[at]
    return f"slide({way}, {cell})"


@planners.register("lake-llm")
class LakePlanner(FunctionPlanner):
    def __init__(self):
        super().__init__(llm, name="lake-llm")


if __name__ == "__main__":
    config = load_config({"world": "lake-v1", "planner": "lake-llm", "episodes": 20})
    folder = Path("runs/lake")
    run_tasks(prepare_run(config, folder, resume=True))
    episodes = load_run(folder).episodes
    print(f"{episodes['success'].sum()} of {len(episodes)} crossings; look at them: brace report {folder}")
