"""The reference planners: a perfect one, a perfect reader, and one that remembers a single plan."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from brace.callpath import Deadline
from brace.errors import ConfigError
from brace.plan import Arg, Plan, Skill, SkillSet, parse
from brace.planners import Planner, Prompt
from brace.registry import planners

PROMPT = Prompt("go to 7\n", 3)


class Signpost:
    """A world whose place to go to is its seed."""

    skills = SkillSet([Skill("goto", (Arg("place", "number"),))])

    def __init__(self) -> None:
        self.names: dict[str, tuple[str, ...]] = {}
        self.seed = 5

    def reset(self, seed: int) -> None:
        self.seed = seed

    def truth_plan(self) -> Plan:
        return parse(f"goto({self.seed})")

    def read(self, prompt: str) -> Plan:
        return parse(f"goto({prompt.rpartition(' ')[2].strip()})")


def written(planner: Planner, world: Signpost) -> str:
    planner.bind(world)
    world.reset(6)
    return "".join(str(piece) for piece in planner.stream(PROMPT, Deadline(None)))


@pytest.mark.parametrize(
    ("name", "options", "plan"),
    [
        ("truth", {}, "goto(6)"),
        ("reader", {}, "goto(7)"),
        ("memorised", {}, "goto(1000000)"),
        ("memorised", {"seed": 9}, "goto(9)"),
    ],
)
def test_each_writes_what_it_knows(name: str, options: dict[str, int], plan: str) -> None:
    assert written(planners.create(name, options), Signpost()) == plan


@pytest.mark.parametrize("name", ["truth", "reader", "memorised"])
def test_a_vocabulary_alone_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"'{name}' needs a world with truth_plan\(\) and read\(\)"):
        planners.create(name).bind(SimpleNamespace(skills=Signpost.skills, names={}))
