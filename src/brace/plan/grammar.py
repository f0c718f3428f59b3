"""Plans: the strict parser that reads them from a planner's text, and when two of them are the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from brace.errors import BraceError, suggestion
from brace.plan.skills import ARGUMENT, NAME, Arg, Skill, SkillSet, canonical, normal_number

# All spaces but the line's end, which separates agents.
_SPACE = re.compile(r"[^\S\n]+")
_WRITTEN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INDEX = re.compile(r"[0-9]+")
_FOUND = re.compile(r"\w+|.")
# Python refuses to convert very long digit strings, and no team is that large.
_INDEX_DIGITS = 9


@dataclass(frozen=True, slots=True)
class SkillCall:
    """One skill with its arguments, `goto(red ball)`; letter case and spacing are made canonical.

    ValueError for a name or an argument that could not be read back from the plan's text.
    """

    skill: str
    args: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        skill, args = self.skill.lower(), tuple(canonical(arg) for arg in self.args)
        if NAME.fullmatch(skill) is None:
            raise ValueError(f"{self.skill!r} is not a skill name")
        for arg in args:
            if ARGUMENT.fullmatch(arg) is None:
                raise ValueError(f"{arg!r} cannot be an argument: it is empty or has one of ( ) , ; :")
        object.__setattr__(self, "skill", skill)
        object.__setattr__(self, "args", args)

    def __str__(self) -> str:
        return f"{self.skill}({', '.join(self.args)})"


@dataclass(frozen=True, slots=True)
class Plan:
    """What each agent is to do, in order: pairs of agent and skill calls; `Plan()` is the empty plan.

    However it is built, `steps` is sorted by agent and has no agent without calls, so that equal plans
    compare equal. ValueError for an agent given twice or out of range.
    """

    steps: tuple[tuple[int, tuple[SkillCall, ...]], ...] = ()

    def __post_init__(self) -> None:
        agents = [agent for agent, _ in self.steps]
        if len(set(agents)) != len(agents):
            raise ValueError(f"a plan has one entry for each agent, not {agents}")
        if any(not 0 <= agent < 10**_INDEX_DIGITS for agent in agents):
            raise ValueError(f"agents are numbered from 0 to {10**_INDEX_DIGITS - 1}, not {agents}")
        steps = sorted((agent, tuple(calls)) for agent, calls in self.steps if calls)
        object.__setattr__(self, "steps", tuple(steps))

    @property
    def agents(self) -> tuple[int, ...]:
        """The agents that have something to do."""
        return tuple(agent for agent, _ in self.steps)

    @property
    def is_empty(self) -> bool:
        """Whether no agent has anything to do."""
        return not self.steps

    def of(self, agent: int) -> tuple[SkillCall, ...]:
        """The calls of one agent; none when the plan does not mention it."""
        return dict(self.steps).get(agent, ())

    def rest(self, done: Mapping[int, int]) -> Plan:
        """The plan without the first `done[agent]` calls of each agent: what is still to be executed."""
        if any(count < 0 for count in done.values()):
            raise ValueError(f"counts of executed calls cannot be negative: {dict(done)}")
        return Plan(tuple((agent, calls[done.get(agent, 0) :]) for agent, calls in self.steps))

    def __len__(self) -> int:
        return sum(len(calls) for _, calls in self.steps)

    def __str__(self) -> str:
        lines = {agent: "; ".join(map(str, calls)) for agent, calls in self.steps}
        if self.agents == (0,):
            return lines[0]
        return "\n".join(f"{agent}: {line}" for agent, line in lines.items())


def normal_form(plan: Plan, skills: SkillSet | None = None) -> str:
    """The plan's text with every number written one way, so that equal plans have equal text.

    With `skills` (which must know every skill of the plan), numbers are rounded to their argument's
    resolution and other arguments are left alone; without, whatever reads as a finite number is one.
    """

    def normal(call: SkillCall) -> SkillCall:
        if skills is None:
            return SkillCall(call.skill, tuple(map(normal_number, call.args)))
        expected = skills.get(call.skill).args
        args = (arg.normal(text) for arg, text in zip(expected, call.args, strict=True))
        return SkillCall(call.skill, tuple(args))

    return str(Plan(tuple((agent, tuple(map(normal, calls))) for agent, calls in plan.steps)))


def is_change(new: Plan, old_rest: Plan, skills: SkillSet | None = None) -> bool:
    """Whether an accepted plan differs, in normal form, from the unexecuted rest of the old one."""
    return normal_form(new, skills) != normal_form(old_rest, skills)


class PlanSyntaxError(BraceError):
    """A text that is not a plan: what is wrong, where, and what was expected there.

    `line` and `column` count from 1, `offset` from 0 in the whole text.
    """

    def __init__(self, problem: str, line: int, column: int, offset: int, expected: tuple[str, ...]) -> None:
        super().__init__(problem, line, column, offset, expected)
        self.problem, self.expected = problem, expected
        self.line, self.column, self.offset = line, column, offset

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.problem}"


def parse(text: str, skills: SkillSet | None = None) -> Plan:
    """Read a plan, strictly: anything but a whole plan is a PlanSyntaxError.

    Without `skills` only the syntax is checked, not the names, arguments and agents.
    """
    plan, error = parse_partial(text, skills)
    if error is not None:
        raise error
    return plan


def parse_partial(text: str, skills: SkillSet | None = None) -> tuple[Plan, PlanSyntaxError | None]:
    """Read as much of a truncated or broken plan as is sure.

    Returns the valid, closed skill calls before the first error, and that error (None for a whole plan).
    """
    parser = _Parser(text, skills)
    error = None
    try:
        parser.read()
    except PlanSyntaxError as stopped:
        error = stopped
    return Plan(tuple((agent, tuple(calls)) for agent, calls in parser.calls.items())), error


class _Parser:
    """One pass over a text, line by line; `calls` holds what is complete so far, also after an error."""

    def __init__(self, text: str, skills: SkillSet | None) -> None:
        self.calls: dict[int, list[SkillCall]] = {}
        self._text, self._skills = text, skills
        self._line, self._start, self._end = 1, 0, 0
        self._pos = 0
        self._bare = False  # the plan is a single line without an agent index

    def read(self) -> None:
        """Read the whole text or raise at the first error."""
        start = 0
        for number, line in enumerate(self._text.split("\n"), start=1):
            self._line, self._start, self._end = number, start, start + len(line)
            self._pos = start
            start = self._end + 1
            if not self._next():
                continue
            calls = self.calls.setdefault(self._agent(), [])
            while True:
                calls.append(self._call())
                if not self._next():
                    break
                self._take("';'", "end of line")
                # A line may end with a semicolon.
                if not self._next():
                    break
        if not self.calls:
            raise self._expected("a skill")

    def _agent(self) -> int:
        at, match = self._pos, _INDEX.match(self._text, self._pos)
        # The line before had no index, so it was the whole plan.
        if self._bare:
            raise self._expected("end of text", hint="; with several lines, each starts with an agent: '0: '")
        if match is None:
            if self.calls:
                raise self._expected("an agent index")
            self._bare = True
            return 0
        self._pos = match.end()
        self._take("':'")
        digits = match[0]
        last = 10**_INDEX_DIGITS - 1 if self._skills is None else self._skills.agents - 1
        if len(digits) > _INDEX_DIGITS or int(digits) > last:
            expected = "0" if last == 0 else f"0 to {last}"
            raise self._error(at, (expected,), f"no agent {_shown(digits)}; expected {expected}")
        agent = int(digits)
        if agent in self.calls:
            raise self._error(at, ("another agent",), f"agent {agent} has a line already; one line an agent")
        return agent

    def _call(self) -> SkillCall:
        self._next()
        match = _WRITTEN_NAME.match(self._text, self._pos)
        if match is None:
            raise self._expected("a skill")
        name = match[0].lower()
        skill = None
        if self._skills is not None:
            names = self._skills.names
            if name not in names:
                shown = _shown(name)
                raise self._error(self._pos, names, f"unknown skill {shown!r}{suggestion(shown, names)}")
            skill = self._skills.get(name)
        self._pos = match.end()
        self._take("'('")
        return SkillCall(name, self._args() if skill is None else self._args_of(skill))

    def _args(self) -> tuple[str, ...]:
        """The arguments, up to and with ')', of a skill nothing is known about."""
        if self._next() == ")":
            self._take("')'")
            return ()
        args = [self._arg()]
        while self._take("')'", "','") == ",":
            args.append(self._arg())
        return tuple(args)

    def _args_of(self, skill: Skill) -> tuple[str, ...]:
        """The arguments, up to and with ')', as many and of the kind the skill has."""
        count = len(skill.args)
        hint = f"; {skill.signature()} takes {count or 'no'} argument{'' if count == 1 else 's'}"
        args: list[str] = []
        for index, arg in enumerate(skill.args, start=1):
            self._next()
            at = self._pos
            args.append(self._arg(hint))
            # Its end first: a number that is cut short is not a wrong number.
            self._take("','" if index < count else "')'", hint=hint)
            self._check(arg, args[-1], at)
        if not skill.args:
            self._take("')'", hint=hint)
        return tuple(args)

    def _arg(self, hint: str = "") -> str:
        self._next()
        match = ARGUMENT.match(self._text, self._pos)
        if match is None:
            raise self._expected("an argument", hint=hint)
        self._pos = match.end()
        return canonical(match[0])

    def _check(self, arg: Arg, value: str, at: int) -> None:
        if arg.accepts(value):
            return
        shown = _shown(value)
        if arg.kind == "choice":
            raise self._error(
                at, arg.choices, f"unknown {arg.name} {shown!r}{suggestion(shown, arg.choices)}"
            )
        raise self._error(at, ("a number",), f"expected a number for {arg.name}, found {shown!r}")

    def _next(self) -> str:
        """Skip spaces; the character that comes then, empty at the end of the line."""
        space = _SPACE.match(self._text, self._pos, self._end)
        self._pos = space.end() if space else self._pos
        return self._text[self._pos : min(self._pos + 1, self._end)]

    def _take(self, *expected: str, hint: str = "") -> str:
        """Step over the next character, which must be one of those expected (written in quotes)."""
        char = self._next()
        if f"'{char}'" not in expected:
            raise self._expected(*expected, hint=hint)
        self._pos += 1
        return char

    def _expected(self, *expected: str, hint: str = "") -> PlanSyntaxError:
        """The error that something else was found here."""
        match = _FOUND.match(self._text, self._pos, self._end)
        ended = "end of text" if self._end == len(self._text) else "end of line"
        found = repr(_shown(match[0])) if match else ended
        return self._error(self._pos, expected, f"expected {' or '.join(expected)}, found {found}{hint}")

    def _error(self, at: int, expected: tuple[str, ...], problem: str) -> PlanSyntaxError:
        return PlanSyntaxError(problem, self._line, at - self._start + 1, at, expected)


def _shown(text: str) -> str:
    """As much of a planner's text as a message can bear."""
    return text if len(text) <= 40 else f"{text[:39]}…"
