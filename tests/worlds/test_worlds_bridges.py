"""A stranger's environment becomes a world: skills act, failures are told, many agents share one plan."""

from __future__ import annotations

from typing import Any

import pytest

from brace.context import Segment
from brace.plan import Arg, Skill, SkillCall, SkillSet, parse
from brace.worlds.bridges import Ended, GymWorld, PettingZooWorld
from brace.worlds.conformance import check_world

gymnasium = pytest.importorskip("gymnasium")
pettingzoo = pytest.importorskip("pettingzoo")

SKILLS = SkillSet([Skill("goto", (Arg("cell", "number"),)), Skill("stay")])
LEFT, DOWN, RIGHT = 0, 1, 2


def on_a_line(call: SkillCall, at: Any) -> Any:
    """Along the top row of the frozen lake."""
    if call.skill == "stay":
        return Ended()
    target = int(float(call.args[0]))
    if target > 3:
        return Ended(f"cell {target} is not in the top row")
    return Ended() if at == target else (RIGHT if at < target else LEFT)


def lake() -> GymWorld:
    env = gymnasium.make("FrozenLake-v1", is_slippery=False, render_mode=None)
    return GymWorld(
        env, id="lake-v1", task="go along the top row to cell 3", skills=SKILLS, act=on_a_line, idle=LEFT,
        describe=lambda at, info: f"at cell {at}", succeeded=lambda rewards, infos: False,
    )  # fmt: skip


def texts(news: list[Segment], kind: str) -> list[str]:
    return [segment.text for segment in news if segment.kind == kind]


def test_a_plan_moves_a_gymnasium_environment() -> None:
    world = lake()
    assert texts(world.observe(), "observation") == ["at cell 0"]
    assert world.apply(parse("goto(2); stay()", SKILLS)) is None
    world.step(hold=False)
    assert world.rest() == parse("goto(2); stay()", SKILLS)
    world.step(hold=False)
    news = world.observe()
    assert texts(news, "action") == ["goto(2) done", "stay() done"]
    assert world.events().succeeded
    assert world.rest().is_empty


def test_a_skill_that_fails_drops_the_rest_and_says_why() -> None:
    world = lake()
    world.apply(parse("goto(9); goto(1)", SKILLS))
    world.step(hold=False)
    assert world.events().failed
    assert texts(world.observe(), "failure") == ["goto(9): cell 9 is not in the top row"]
    assert world.rest().is_empty


def test_holding_does_the_idle_action() -> None:
    world = lake()
    world.apply(parse("goto(2)", SKILLS))
    world.step(hold=True)
    assert texts(world.observe(), "observation")[-1] == "at cell 0"
    assert not world.rest().is_empty


class Corridor(pettingzoo.ParallelEnv):  # type: ignore[misc]
    """Two walkers; each gets 1 when it stands on cell 3."""

    metadata = {"name": "corridor"}  # noqa: RUF012
    possible_agents = ("ann", "bob")
    render_mode = None

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        self.at = {"ann": seed % 2 if seed else 0, "bob": 1}
        return dict(self.at), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> Any:
        for agent, action in actions.items():
            self.at[agent] += {LEFT: -1, RIGHT: 1}.get(action, 0)
        there = {agent: self.at[agent] == 3 for agent in actions}
        self.agents = [agent for agent in self.agents if not there[agent]]
        off = dict.fromkeys(actions, False)
        return (
            {agent: self.at[agent] for agent in self.agents}, {a: float(t) for a, t in there.items()},
            there, off, {agent: {} for agent in actions},
        )  # fmt: skip

    def render(self) -> None:
        return None


def corridor() -> PettingZooWorld:
    return PettingZooWorld(
        Corridor(), id="corridor-v1", task="both to cell 3", skills=SkillSet(SKILLS, agents=2),
        act=on_a_line, idle=DOWN, describe=lambda at, info: f"at cell {at}",
    )  # fmt: skip


def test_one_plan_moves_a_team_and_who_arrives_first_is_out() -> None:
    world = corridor()
    world.reset(2)
    news = world.observe()
    assert [(segment.agent, segment.text) for segment in news if segment.kind == "observation"] == [
        (0, "at cell 0"),
        (1, "at cell 1"),
    ]
    assert world.apply(parse("0: goto(3)\n1: goto(3)", world.skills)) is None
    world.step(hold=False)
    world.step(hold=False)
    assert not world.finished()
    world.step(hold=False)
    assert world.finished()
    assert world.success()
    assert world.figures() == {"return": 2.0}


@pytest.mark.parametrize("make", [corridor, lake])
def test_a_bridged_world_keeps_the_contract(make: Any) -> None:
    broken = [check for check in check_world(make, steps=12) if check.passed is False]
    # A world that the seed does not change is what FrozenLake without slipping is.
    assert [check.rule for check in broken] in ([], ["determinism"])
    assert all("same episode" in check.detail for check in broken)
