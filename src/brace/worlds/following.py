"""Plans executed skill by skill, each agent its own line: what most worlds share."""

from __future__ import annotations

from collections.abc import Mapping

from brace.errors import UnknownNameError, suggestion
from brace.plan import Plan, SkillCall, SkillSet
from brace.worlds.base import World


def check_plan(plan: Plan, skills: SkillSet, names: Mapping[str, tuple[str, ...]]) -> str | None:
    """Why these skills and names do not allow the plan, or None."""
    for agent, calls in plan.steps:
        if agent >= skills.agents:
            return f"there is no agent {agent}; agents are 0 to {skills.agents - 1}"
        for call in calls:
            problem = _check_call(call, skills, names)
            if problem is not None:
                return f"agent {agent}, {call}: {problem}"
    return None


def _check_call(call: SkillCall, skills: SkillSet, names: Mapping[str, tuple[str, ...]]) -> str | None:
    try:
        skill = skills.get(call.skill)
    except UnknownNameError as error:
        return str(error)
    if len(call.args) != len(skill.args):
        return f"expected {skill.signature()}"
    for arg, value in zip(skill.args, call.args, strict=True):
        if not arg.accepts(value):
            wanted = " or ".join(arg.choices) if arg.choices else f"a {arg.kind}"
            return f"{arg.name} is {wanted}, not {value!r}"
        known = names.get(arg.name, ())
        if arg.kind == "name" and known and value not in known:
            return f"unknown {arg.name} {value!r}{suggestion(value, known)}"
    return None


class SkillWorld(World):
    """Keeps the plan and how far each agent has come in it.

    A world built on this looks at `current(agent)` in its `step` and tells `finish(agent)` or
    `give_up(agent)`; what it has against a well-formed plan it says in `refuse`.
    """

    def __init__(self) -> None:
        self._plan = Plan()
        self._done: dict[int, int] = {}

    def apply(self, plan: Plan) -> str | None:
        """Take a plan whose words are known and which the world does not refuse."""
        problem = check_plan(plan, self.skills, self.names)
        if problem is None:
            problem = self.refuse(plan)
        if problem is None:
            self._plan, self._done = plan, {}
            self.taken()
        return problem

    def refuse(self, plan: Plan) -> str | None:
        """What speaks against a well-formed plan, as far as the agents know."""
        return None

    def taken(self) -> None:
        """A new plan is the current one."""

    def rest(self) -> Plan:
        """What is left to execute, the skill under way included."""
        return self._plan.rest(self._done)

    def stop(self) -> None:
        """Drop the plan."""
        self._plan, self._done = Plan(), {}
        self.taken()

    def current(self, agent: int) -> SkillCall | None:
        """The skill this agent is executing."""
        calls, done = self._plan.of(agent), self._done.get(agent, 0)
        return calls[done] if done < len(calls) else None

    def finish(self, agent: int) -> None:
        """The agent's skill ended well: go on with its next."""
        self._done[agent] = self._done.get(agent, 0) + 1

    def give_up(self, agent: int) -> None:
        """The agent's skill failed: what was to follow no longer makes sense."""
        self._done[agent] = len(self._plan.of(agent))
