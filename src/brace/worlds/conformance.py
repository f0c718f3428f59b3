"""The conformance kit: does a world, ours or yours, keep its contract?"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from brace.context import ContextBuffer, Segment, WordTokenizer, plan_template
from brace.controller import Signals
from brace.errors import BraceError
from brace.plan import Plan, SkillCall
from brace.planners.reference import Referenced
from brace.worlds.base import World
from brace.worlds.following import check_plan

Make = Callable[[], World]
_VERSIONED = re.compile(r"[a-z0-9_-]+-v[0-9]+")
_MOST_TOKENS_A_STEP = 2000


@dataclass(frozen=True, slots=True)
class Check:
    """One rule and whether the world keeps it; None where it does not apply."""

    rule: str
    passed: bool | None
    detail: str = ""


class _BrokenError(Exception):
    """A rule is not kept: what was found."""


def check_world(make: Make, *, steps: int = 40, seeds: tuple[int, int] = (1, 2)) -> Iterator[Check]:
    """Run a world through all rules. `make` builds a fresh one; one world goes from rule to rule, for after a
    reset nothing may be left of what was before, but one that has broken a rule is made anew.
    """
    with ExitStack() as open_worlds:
        world: World | None = None
        for rule, test in _RULES.items():
            if world is None:
                try:
                    world = make()
                except BraceError as error:
                    yield Check(rule, False, str(error))
                    return
                open_worlds.callback(world.close)
            result = _try(rule, test, _Trial(make, world, steps, seeds))
            if result.passed is False:
                world = None
            yield result


def _try(rule: str, test: Callable[[_Trial], str | None], trial: _Trial) -> Check:
    try:
        note = test(trial)
    except _BrokenError as broken:
        return Check(rule, False, str(broken))
    except BraceError as error:
        return Check(rule, False, str(error))
    except Exception as error:  # noqa: BLE001 - a stranger's world may raise anything, and that is a finding
        return Check(rule, False, f"raised {type(error).__name__}: {error}")
    return Check(rule, None if note is not None else True, note or "")


@dataclass(frozen=True, slots=True)
class _Trial:
    make: Make
    world: World
    steps: int
    seeds: tuple[int, int]

    def play(self, world: World, seed: int) -> list[Any]:
        """Everything a world shows from outside over an episode's first steps, under the plans it knows."""
        world.reset(seed)
        trace: list[Any] = []
        for t in range(self.steps):
            if world.finished():
                break
            if world.rest().is_empty and t % 5 == 0:
                trace.append(world.apply(_some_plan(world)))
            trace += [world.observe(), world.events(), world.figures(), world.rest(), world.success()]
            # Holding has to repeat itself, too.
            world.step(hold=t % 7 == 6)
        return trace


def _some_plan(world: World) -> Plan:
    return world.truth_plan() if isinstance(world, Referenced) else world.default_plan()


def _require(holds: bool, found: str) -> None:
    if not holds:
        raise _BrokenError(found)


def _contract(trial: _Trial) -> None:
    world = trial.world
    _require(_VERSIONED.fullmatch(world.id) is not None, f"id {world.id!r} has no version, such as mine-v1")
    _require(world.dt > 0 and math.isfinite(world.dt), f"dt = {world.dt} is no time")
    _require(world.max_steps >= 1, f"max_steps = {world.max_steps}")
    wanted = {arg.name for skill in world.skills for arg in skill.args if arg.kind == "name"}
    missing, unused = wanted - set(world.names), set(world.names) - wanted
    _require(not missing, f"names does not say what {', '.join(sorted(missing))} can be")
    _require(not unused, f"names has {', '.join(sorted(unused))}, which no skill takes")


def _reset(trial: _Trial) -> None:
    world, (seed, other) = trial.world, trial.seeds
    first = _start(world, seed)
    _require(any(segment.kind == "task" for segment in first), "the first observation has no task segment")
    _require(world.rest().is_empty, "a plan is left after reset")
    _require(not world.finished(), "the episode is finished before it began")
    trial.play(world, other)
    _require(_start(world, seed) == first, "after another episode the same seed begins differently")


def _start(world: World, seed: int) -> list[Segment]:
    world.reset(seed)
    return world.observe()


def _determinism(trial: _Trial) -> None:
    seed, other = trial.seeds
    first = trial.play(trial.world, seed)
    fresh = trial.make()
    try:
        _same(first, trial.play(fresh, seed), "a fresh world with the same seed and plans")
        different = trial.play(fresh, other)
        _same(first, trial.play(fresh, seed), "the same world after another episode")
    finally:
        fresh.close()
    _require(different != first, f"seeds {seed} and {other} give the same episode")


def _same(first: list[Any], second: list[Any], who: str) -> None:
    for index, (one, two) in enumerate(zip(first, second, strict=False)):
        # Not by ==: a figure may be NaN.
        _require(repr(one) == repr(two), f"{who} differs at item {index}: {one!r:.120} or {two!r:.120}")
    _require(len(first) == len(second), f"{who} ends elsewhere: {len(first)} or {len(second)} items")


def _time(trial: _Trial) -> None:
    world = trial.world
    world.reset(trial.seeds[0])
    refusal = world.apply(_some_plan(world))
    before = world.rest()
    stamps = [segment.step for segment in world.observe()]
    for _ in range(min(5, trial.steps)):
        if world.finished():
            break
        world.step(hold=True)
        stamps += [segment.step for segment in world.observe()]
    if refusal is None and not before.is_empty:
        _require(world.rest() == before, "the plan was executed while the world was told to hold")
    _require(all(a <= b for a, b in pairwise(stamps)), f"segments go back in time: {stamps}")


def _refusal(trial: _Trial) -> None:
    world = trial.world
    world.reset(trial.seeds[0])
    world.apply(_some_plan(world))
    before = world.rest()
    for what, plan in _bad_plans(world):
        reason = world.apply(plan)
        _require(bool(reason), f"a plan with {what} is accepted: {plan}")
        _require(world.rest() == before, f"refusing a plan with {what} changed the current one")
        world.step(hold=True)
    _require(not world.finished() or world.success(), "a refused plan ended the episode")


def _bad_plans(world: World) -> Iterator[tuple[str, Plan]]:
    yield "an unknown skill", Plan(((0, (SkillCall("no_such_skill"),)),))
    easy = next((skill for skill in world.skills), None)
    if easy is not None:
        call = SkillCall(easy.name, ("no such name",) * (len(easy.args) + 1))
        yield "too many arguments", Plan(((0, (call,)),))
    good = _some_plan(world)
    if not good.is_empty:
        agent, calls = good.steps[0]
        yield "an agent that does not exist", Plan(((world.skills.agents + agent, calls),))
    for skill in world.skills:
        if any(arg.kind == "name" for arg in skill.args):
            filled = tuple("no such name" if arg.kind == "name" else arg.choices[0] if arg.choices else "1"
                           for arg in skill.args)  # fmt: skip
            yield "an unknown name", Plan(((0, (SkillCall(skill.name, filled),)),))
            break


def _telling(trial: _Trial) -> None:
    world = trial.world
    world.reset(trial.seeds[0])
    world.observe()
    before, plan = world.rest(), _some_plan(world)
    refusal = world.apply(plan)
    line = world.line_for(plan, before) if refusal is None else ""
    _require(isinstance(line, str), f"line_for gives {line!r}, not a line of text")
    for _ in range(min(5, trial.steps)):
        events = world.events()
        _require(isinstance(events, Signals), f"events gives {type(events).__name__}, not Signals")
        told = [segment.text for segment in world.observe() if segment.kind == "plan"]
        _require(not told, f"the world tells its plan itself ({told[:1]}); the loop does, by line_for")
        world.step(hold=False)


def _growth(trial: _Trial) -> None:
    world = trial.world
    world.reset(trial.seeds[0])
    buffer = ContextBuffer(WordTokenizer())
    sizes = []
    for t in range(trial.steps):
        if world.finished():
            break
        if world.rest().is_empty and t % 5 == 0:
            world.apply(_some_plan(world))
        buffer.extend(world.observe())
        sizes.append(buffer.tokens)
        _require(not world.observe(), f"observe says the same twice at step {t}; it should say what is new")
        world.step(hold=False)
    _require(sizes[-1] > sizes[0], f"the context does not grow in {len(sizes)} steps: {sizes[-1]} tokens")
    most = max((b - a for a, b in pairwise(sizes)), default=0)
    _require(most <= _MOST_TOKENS_A_STEP, f"{most} tokens in one step; a step's news should be short")
    half = len(sizes) // 2
    early, late = sizes[half] - sizes[0], sizes[-1] - sizes[half]
    _require(
        late <= 4 * max(early, 50), f"growth is not linear: {early} tokens, then {late} in as many steps"
    )


def _stop(trial: _Trial) -> None:
    world = trial.world
    world.reset(trial.seeds[0])
    world.apply(_some_plan(world))
    world.step(hold=False)
    world.stop()
    _require(world.rest().is_empty, "a plan is left after stop()")
    world.step(hold=False)
    refusal = world.apply(_some_plan(world))
    _require(refusal is None, f"no plan is taken after stop(): {refusal}")


def _figures(trial: _Trial) -> None:
    world = trial.world
    world.reset(trial.seeds[0])
    keys = set(world.figures())
    for _ in range(min(10, trial.steps)):
        world.step(hold=False)
    figures = world.figures()
    _require(set(figures) == keys, f"figures have other keys at the end: {sorted(set(figures) ^ keys)}")
    wrong = [name for name, value in figures.items() if not isinstance(value, float)]
    _require(not wrong, f"figures that are no floats: {', '.join(wrong)}")


def _frame(trial: _Trial) -> str | None:
    world = trial.world
    world.reset(trial.seeds[0])
    first = world.frame()
    if first is None:
        return "has no picture"
    world.step(hold=False)
    second = world.frame()
    shape, dtype = first.shape, str(first.dtype)
    _require(len(shape) == 3 and shape[2] == 3 and dtype == "uint8", f"a frame is {shape} of {dtype}")
    _require(second is not None and second.shape == shape, "the second frame has another size")
    return None


def _references(trial: _Trial) -> str | None:
    world = trial.world
    if not isinstance(world, Referenced):
        return "has no truth_plan() and read()"
    buffer = ContextBuffer(WordTokenizer())
    world.reset(trial.seeds[0])
    buffer.extend(world.observe())
    refusal = world.apply(world.truth_plan())
    _require(refusal is None, f"the truth's plan is refused: {refusal}")
    prompt = plan_template(world.skills.describe()).render(buffer.lines())
    for what, text in (
        ("", prompt),
        (" of an empty prompt", ""),
        (" of half a prompt", prompt[: len(prompt) // 2]),
    ):
        plan = world.read(text)
        problem = check_plan(plan, world.skills, world.names) or ("it is empty" if plan.is_empty else None)
        _require(problem is None, f"the reader's plan{what} is no plan: {problem}")
    world.reset(trial.seeds[1])
    _require(world.read(prompt) == world.read(prompt), "the reader answers the same text differently")
    return None


_RULES: dict[str, Callable[[_Trial], str | None]] = {
    "contract": _contract,
    "reset": _reset,
    "determinism": _determinism,
    "time": _time,
    "refusal": _refusal,
    "telling": _telling,
    "growth of text": _growth,
    "stop": _stop,
    "figures": _figures,
    "frame": _frame,
    "references": _references,
}
