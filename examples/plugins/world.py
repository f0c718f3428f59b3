"""A world: where plans act. This one is a corridor with a door that may be shut.

brace run corridor-v1 -n 2 --import examples/plugins/world.py
brace worlds check corridor-v1 --import examples/plugins/world.py
"""

import random
import re
from dataclasses import dataclass

from brace.context import Segment
from brace.controller import Signals
from brace.errors import ConfigError
from brace.plan import Arg, Skill, SkillSet, parse
from brace.registry import worlds
from brace.worlds import SkillWorld, WorldInfo


@worlds.register("corridor-v1")
@dataclass(eq=False)
class Corridor(SkillWorld):
    """Walk to the end; the door in the middle must be opened if it is shut."""

    info = WorldInfo("a corridor with a door")
    id = "corridor-v1"
    dt = 0.1
    max_steps = 200
    skills = SkillSet([Skill("walk", (Arg("place", "number"),)), Skill("open", (), "open the door")])
    length: int = 12
    """Places in the corridor."""

    def __post_init__(self):
        super().__init__()
        if self.length < 4:
            raise ConfigError(f"world {self.id!r}: length = {self.length}; choose 4 or more")
        self.reset(0)

    def reset(self, seed):
        """The robot stands at 0; whether the door is shut is drawn."""
        self.stop()
        self.at, self.t, self.door = 0, 0, self.length // 2
        self.shut = random.Random(seed).random() < 0.5
        self.signals = Signals()
        self.news = [Segment("task", f"walk to place {self.length}; the door is at {self.door}")]
        self.look()

    def observe(self):
        """What is new since the last call."""
        news, self.news = self.news, []
        return news

    def events(self):
        """Whether the skill under way failed."""
        return self.signals

    def step(self, *, hold):
        """One place a step, unless the door is in the way."""
        self.t += 1
        self.signals = Signals()
        call = None if hold else self.current(0)
        if call is not None and call.skill == "open":
            self.shut = False
            self.finish(0)
        elif call is not None and self.shut and self.at == self.door - 1:
            self.news.append(Segment("failure", "the door is shut", self.t))
            self.give_up(0)
            self.signals = Signals(failed=True)
        elif call is not None:
            self.at += 1
            if self.at >= float(call.args[0]):
                self.finish(0)
        self.look()

    def success(self):
        """At the end."""
        return self.at >= self.length

    def look(self):
        """Write down what can be seen."""
        self.news.append(
            Segment("observation", f"at {self.at}, door {'shut' if self.shut else 'open'}", self.t)
        )

    # With these two the reference planners `truth` and `reader` work here, too.

    def truth_plan(self):
        """The plan of one who sees the world as it is."""
        return self.read(f"at {self.at}, door {'shut' if self.shut else 'open'}")

    def read(self, prompt):
        """The plan of one who reads this text and knows nothing else."""
        at, door = (re.findall(r"at (\d+), door (\w+)", prompt) or [("0", "shut")])[-1]
        skills = []
        if door == "shut" and int(at) < self.door:
            skills += [f"walk({self.door - 1})"] if int(at) < self.door - 1 else []
            skills.append("open()")
        return parse("; ".join([*skills, f"walk({self.length})"]), self.skills)
