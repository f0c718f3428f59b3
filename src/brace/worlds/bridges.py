"""Your own Gymnasium or PettingZoo environment as a world, in a few lines.

You say what the skills are, how one of them acts, and what the planner is told; plans, time, refusals and
many agents are taken care of. Neither library is imported here: whatever has their methods will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from brace.context import Segment
from brace.controller import Signals
from brace.plan import SkillCall, SkillSet
from brace.worlds.base import Frame
from brace.worlds.following import SkillWorld


@dataclass(frozen=True, slots=True)
class Ended:
    """A skill is over; with a reason it has failed."""

    why: str = ""


Act = Callable[[SkillCall, Any], Any]
"""From the skill under way and the agent's own observation to its next action, or `Ended`."""
Describe = Callable[[Any, Mapping[str, Any]], str]
"""From an agent's observation and info to a line for the planner; an empty one is not said."""


class ParallelEnv(Protocol):
    """What we need of PettingZoo's parallel API."""

    possible_agents: list[Any]

    def reset(self, seed: int | None = None) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Observations and infos by agent."""
        ...

    def step(self, actions: dict[Any, Any]) -> tuple[dict[Any, Any], ...]:
        """Observations, rewards, terminations, truncations, infos by agent."""
        ...

    def render(self) -> Any:
        """A picture, with `render_mode="rgb_array"`."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class PettingZooWorld(SkillWorld):
    """A parallel environment: agent i of the plan is the i-th of `possible_agents`."""

    def __init__(
        self,
        env: ParallelEnv,
        *,
        id: str,
        task: str,
        skills: SkillSet,
        act: Act,
        idle: Any,
        describe: Describe,
        dt: float = 0.1,
        max_steps: int = 200,
        names: Mapping[str, tuple[str, ...]] | None = None,
        succeeded: Callable[[Mapping[Any, float], Mapping[Any, Any]], bool] | None = None,
    ) -> None:
        """`idle` is the action of an agent with nothing to do.

        `succeeded` looks at the last rewards and infos; without it, some agent's last reward is above 0.
        """
        super().__init__()
        self.id, self.dt, self.max_steps, self.skills, self.names = id, dt, max_steps, skills, names or {}
        self._env, self._task, self._act, self._idle, self._describe = env, task, act, idle, describe
        self._succeeded = succeeded
        self._next: dict[int, Any] = {}
        self._agents = list(env.possible_agents)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Begin an episode of the environment."""
        self.stop()
        self._seen, self._infos = self._env.reset(seed=seed)
        self._t = 0
        self._over = self._won = False
        self._return = 0.0
        self._events = Signals()
        self._ended: list[Ended] = []
        self._news = [Segment("task", self._task)]
        self._tell()

    def observe(self) -> list[Segment]:
        """What the agents saw and how their skills ended."""
        news, self._news = self._news, []
        return news

    def events(self) -> Signals:
        """Skills that failed or ended well in the last step."""
        return self._events

    def step(self, *, hold: bool) -> None:
        """One step of the environment; who holds, or has no plan, does the idle action."""
        if self._over:
            return
        self._t += 1
        self._ended = []
        # PettingZoo leaves out agents whose episode has ended.
        actions = {
            agent: self._idle if hold else self._action(index, agent)
            for index, agent in enumerate(self._agents)
            if agent in self._seen
        }
        self._seen, rewards, terminated, truncated, self._infos = self._env.step(actions)
        # Looked at again at once: a skill that has just reached its end must not cost an idle step.
        self._next = {
            index: self._choose(index, agent)
            for index, agent in enumerate(self._agents)
            if agent in self._seen and not hold
        }
        self._events = Signals(
            failed=any(ended.why for ended in self._ended),
            succeeded=any(not ended.why for ended in self._ended),
        )
        self._return += sum(map(float, rewards.values()))
        self._over = all(terminated.get(agent) or truncated.get(agent) for agent in actions)
        if self._succeeded is not None:
            self._won = self._won or self._succeeded(rewards, self._infos)
        elif self._over:
            self._won = any(reward > 0 for reward in rewards.values())
        self._tell()

    def taken(self) -> None:
        """What was chosen under the old plan no longer counts."""
        self._next = {}

    def _action(self, index: int, agent: Any) -> Any:
        return self._next[index] if index in self._next else self._choose(index, agent)

    def _choose(self, index: int, agent: Any) -> Any:
        """The agent's action. A skill that is over takes no time: the next one acts in the same step."""
        while (call := self.current(index)) is not None:
            answer = self._act(call, self._seen[agent])
            if not isinstance(answer, Ended):
                return answer
            self._ended.append(answer)
            if answer.why:
                self.give_up(index)
                self._news.append(Segment("failure", f"{call}: {answer.why}", self._t, index))
                break
            self.finish(index)
            self._news.append(Segment("action", f"{call} done", self._t, index))
        return self._idle

    def _tell(self) -> None:
        for index, agent in enumerate(self._agents):
            if agent in self._seen and (
                text := self._describe(self._seen[agent], self._infos.get(agent, {}))
            ):
                who = index if len(self._agents) > 1 else None
                self._news.append(Segment("observation", text, self._t, who))

    def finished(self) -> bool:
        """The environment has ended the episode for all agents, or the goal is reached."""
        return self._over or self._won

    def success(self) -> bool:
        """As `succeeded` says."""
        return self._won

    def figures(self) -> dict[str, float]:
        """The sum of all rewards."""
        return {"return": self._return}

    def frame(self) -> Frame | None:
        """The environment's own picture, if it was made with `render_mode="rgb_array"`."""
        if getattr(self._env, "render_mode", None) != "rgb_array":
            return None
        picture: Frame | None = self._env.render()
        return picture

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class _Alone:
    """A Gymnasium environment as a team of one."""

    possible_agents = (0,)

    def __init__(self, env: Any) -> None:
        self._env = env
        self.render, self.close, self.render_mode = env.render, env.close, env.render_mode

    def reset(self, seed: int | None = None) -> tuple[dict[Any, Any], dict[Any, Any]]:
        seen, info = self._env.reset(seed=seed)
        return {0: seen}, {0: info}

    def step(self, actions: dict[Any, Any]) -> tuple[dict[Any, Any], ...]:
        return tuple({0: part} for part in self._env.step(actions[0]))


class GymWorld(PettingZooWorld):
    """A Gymnasium environment: one agent. The arguments are those of `PettingZooWorld`."""

    def __init__(self, env: Any, **settings: Any) -> None:
        super().__init__(_Alone(env), **settings)  # type: ignore[arg-type]
