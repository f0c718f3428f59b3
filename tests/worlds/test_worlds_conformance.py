"""The kit finds every planted fault, and passes a world without one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from brace.context import Segment
from brace.controller import Signals
from brace.plan import Arg, Plan, Skill, SkillCall, SkillSet
from brace.registry import worlds
from brace.worlds import SkillWorld
from brace.worlds.base import Frame
from brace.worlds.conformance import check_world


class Sound(SkillWorld):
    """A counter that a plan moves to a place; keeps every rule."""

    id, dt, max_steps = "sound-v1", 0.1, 50
    skills = SkillSet([Skill("goto", (Arg("place", "name"),)), Skill("wait")])
    names = {"place": ("dock", "press")}  # noqa: RUF012

    def reset(self, seed: int) -> None:
        self.stop()
        self.t, self.at = 0, seed
        self.news = [Segment("task", "count"), Segment("observation", f"at {self.at}")]

    def observe(self) -> list[Segment]:
        news, self.news = self.news, []
        return news

    def step(self, *, hold: bool) -> None:
        self.t += 1
        call = None if hold else self.current(0)
        if call is not None and call.skill == "goto":
            self.at += 1
            if self.at % 10 == 0:
                self.finish(0)
        self.news.append(Segment("observation", f"at {self.at}", self.t))

    def events(self) -> Signals:
        return Signals()

    def success(self) -> bool:
        return self.at >= 1000

    def figures(self) -> dict[str, float]:
        return {"at": float(self.at)}

    def frame(self) -> Frame:
        return np.zeros((4, 4, 3), np.uint8)

    def default_plan(self) -> Plan:
        return self.truth_plan()

    def truth_plan(self) -> Plan:
        return Plan(((0, (SkillCall("goto", ("dock",)),)),))

    def read(self, prompt: str) -> Plan:
        return self.truth_plan()


class NoVersion(Sound):
    id = "sound"


class NoNames(Sound):
    names = {}  # noqa: RUF012


class LeavesAPlan(Sound):
    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.apply(self.truth_plan())


class StartsElsewhere(Sound):
    episodes = 0

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.episodes += 1
        self.news.append(Segment("observation", f"episode {self.episodes}"))


class Dice(Sound):
    shared = itertools.count()

    def step(self, *, hold: bool) -> None:
        super().step(hold=hold)
        self.news.append(Segment("observation", f"noise {next(self.shared)}", self.t))


class DeafToSeeds(Sound):
    def reset(self, seed: int) -> None:
        super().reset(0)


class Restless(Sound):
    def step(self, *, hold: bool) -> None:
        super().step(hold=False)
        self.finish(0)


class BackInTime(Sound):
    def step(self, *, hold: bool) -> None:
        super().step(hold=hold)
        self.news.append(Segment("observation", "earlier", 0))


class TakesAnything(Sound):
    def apply(self, plan: Plan) -> str | None:
        self._plan, self._done = plan, {}
        return None


class TellsTuples(Sound):
    def events(self) -> Any:
        return (False, False)


class TellsItsPlan(Sound):
    def taken(self) -> None:
        if hasattr(self, "news"):
            self.news.append(Segment("plan", str(self._plan), self.t))


class TellsNothing(Sound):
    def line_for(self, plan: Plan, before: Plan) -> Any:
        return None


class Silent(Sound):
    def step(self, *, hold: bool) -> None:
        super().step(hold=hold)
        self.news.clear()


class Repeats(Sound):
    def observe(self) -> list[Segment]:
        return list(self.news)


class Explodes(Sound):
    def step(self, *, hold: bool) -> None:
        super().step(hold=hold)
        self.news += [Segment("observation", "again", self.t)] * (self.t**2 // 20)


class NeverStops(Sound):
    def stop(self) -> None:
        self._plan = self.truth_plan()


class OtherFigures(Sound):
    def figures(self) -> dict[str, float]:
        return {f"at {self.t}": 0.0}


class GreyFrame(Sound):
    def frame(self) -> Any:
        return np.zeros((4, 4), np.uint8)


class SpeechlessReader(Sound):
    def read(self, prompt: str) -> Plan:
        return self.truth_plan() if "count" in prompt else Plan()


class Raises(Sound):
    def figures(self) -> dict[str, float]:
        raise RuntimeError("no figures today")


def broken(world: type[Sound]) -> dict[str, str]:
    return {check.rule: check.detail for check in check_world(world) if check.passed is False}


def test_a_sound_world_passes_every_rule() -> None:
    results = list(check_world(Sound))
    assert len(results) == 11
    assert all(check.passed for check in results), results


@pytest.mark.parametrize(
    ("world", "rule", "words"),
    [
        (NoVersion, "contract", "version"),
        (NoNames, "contract", "place"),
        (LeavesAPlan, "reset", "left after reset"),
        (StartsElsewhere, "reset", "begins differently"),
        (Dice, "determinism", "noise"),
        (DeafToSeeds, "determinism", "same episode"),
        (Restless, "time", "hold"),
        (BackInTime, "time", "back in time"),
        (TakesAnything, "refusal", "unknown skill"),
        (TellsTuples, "telling", "Signals"),
        (TellsItsPlan, "telling", "line_for"),
        (TellsNothing, "telling", "None"),
        (Silent, "growth of text", "does not grow"),
        (Repeats, "growth of text", "twice"),
        (Explodes, "growth of text", "linear"),
        (NeverStops, "stop", "left after stop"),
        (OtherFigures, "figures", "other keys"),
        (Raises, "figures", "RuntimeError: no figures today"),
        (GreyFrame, "frame", "(4, 4)"),
        (SpeechlessReader, "references", "empty"),
    ],
)
def test_a_planted_fault_is_found(world: type[Sound], rule: str, words: str) -> None:
    found = broken(world)
    assert rule in found
    assert words in found[rule]


@pytest.mark.parametrize("name", ["proxy-v1", "proxy-v2"])
def test_the_proxy_keeps_the_contract(name: str) -> None:
    assert not [check for check in check_world(lambda: worlds.create(name)) if check.passed is False]
