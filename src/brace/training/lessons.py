"""From a log to a lesson: a prompt as a planner gets it, the perfect reader's plan, and questions about it.

The text is varied so that nothing but reading it helps: numbers are shifted, names exchanged, lines dropped.
Plan and facts are read from the varied text by the world's own reader, so they are always right. The
questions (the reader's facts, and how the last line that begins so goes on) teach looking things up many
times for each long text.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from brace.training.logs import Log
from brace.training.readers import Reader

FOOT = "Plan:\n"
LAST, FACT, ANSWER = "Last: ", "Fact: ", " ="
_COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
_COLOUR = re.compile(r"\b(" + "|".join(_COLOURS) + r")\b")
_NUMBERED = re.compile(r"\b(room|gate|layer) (\d)\b")
_LONG_NUMBER = re.compile(r"(?<![\w\d])\d{2,4}(?![\w\d])")
_BRACKET = re.compile(r"(\[\w+ \d+(?: a\d+)?\] )(.*)")
_HIGHEST = {"room": 9, "gate": 8, "layer": 6}
_LAST_LINES, _FACTS = 6, 16


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is read, and what is to be written after it."""

    prompt: str
    plan: str
    questions: tuple[tuple[str, str], ...]
    """What is asked, and the answer."""


def make_lesson(log: Log, reader: Reader, draw: random.Random, most_chars: int, *, first: int = 1) -> Lesson:
    """A lesson of at most about so many characters, from a random moment when `first` segments were said."""
    asked = [moment for moment in log.asked if moment >= first]
    # More often where a plan was wanted, as it will be in use.
    upto = draw.choice(asked) if asked and draw.random() < 0.6 else draw.randint(first, len(log.segments))
    head_lines = sum(1 for segment in log.segments[:upto] if segment.kind in ("task", "goal", "safety"))
    lines = log.lines(upto)
    lines = _shortened(lines, head_lines, draw, most_chars - len(log.head))
    text = _varied("".join(lines), draw)
    prompt = log.head + text + FOOT
    facts = reader.facts(prompt)
    questions = [(FACT + key, " " + answer) for key, answer in draw.sample(facts, min(len(facts), _FACTS))]
    questions += [(LAST + key, answer) for key, answer in _last_lines(text.splitlines(), draw)]
    draw.shuffle(questions)
    return Lesson(prompt, str(reader.plan(prompt)), tuple(questions))


def _shortened(lines: list[str], head: int, draw: random.Random, room: int) -> list[str]:
    """Sometimes some lines are missing; of what is too long the older lines go, or a random part."""
    body = lines[head:]
    if draw.random() < 0.25:
        keep = draw.uniform(0.3, 0.95)
        body = [line for line in body if draw.random() < keep]
    kept = lines[:head]
    room -= sum(map(len, kept))
    size = sum(map(len, body))
    if size > max(room, 0):
        if draw.random() < 0.5:
            share = room / size
            body = [line for line in body if draw.random() < share]
        recent: list[str] = []
        for line in reversed(body):
            room -= len(line)
            if room < 0:
                break
            recent.append(line)
        body = recent[::-1]
    return kept + body


def _varied(text: str, draw: random.Random) -> str:
    """Other colours, rooms, gates, layers and measures, the same throughout."""
    if draw.random() < 0.5:
        # Exchanged among themselves: a world of two colours knows no third.
        named = sorted(set(_COLOUR.findall(text)))
        other = dict(zip(named, draw.sample(named, len(named)), strict=True))
        text = _COLOUR.sub(lambda found: other[found[1]], text)
    if draw.random() < 0.5:
        tables = {}
        for word, highest in _HIGHEST.items():
            numbers = [str(number) for number in range(1, highest + 1)]
            tables[word] = dict(zip(numbers, draw.sample(numbers, highest), strict=True))
        text = _NUMBERED.sub(lambda found: f"{found[1]} {tables[found[1]].get(found[2], found[2])}", text)
    if draw.random() < 0.7:
        text = _remeasured(text, draw)
    return text


def _remeasured(text: str, draw: random.Random) -> str:
    """Numbers of two digits or more are measures: each is moved a little, on its own or everywhere alike."""
    spread, alike = draw.choice((3, 30, 99)), draw.random() < 0.6
    known: dict[str, str] = {}

    def moved(found: re.Match[str]) -> str:
        # A single digit is a name, of an agent or a room, and no measure.
        other = str(max(10, int(found[0]) + draw.randint(-spread, spread)))
        return known.setdefault(found[0], other) if alike else other

    rows = []
    for row in text.splitlines():
        parts = _BRACKET.match(row)
        # Not the bracket: the order of steps must stay.
        rows.append(row if parts is None else parts[1] + _LONG_NUMBER.sub(moved, parts[2]))
    return "\n".join(rows) + "\n"


def _last_lines(lines: list[str], draw: random.Random) -> list[tuple[str, str]]:
    """Random beginnings of lines, and how the last line with that beginning goes on."""
    asked: dict[str, str] = {}
    # More tries than are needed, because some lines give no question.
    for _ in range(3 * _LAST_LINES):
        if not lines or len(asked) >= _LAST_LINES:
            break
        parts = _BRACKET.match(draw.choice(lines))
        if parts is None:
            continue
        words = parts[2].split(" ")
        if len(words) < 2:
            continue
        # Without the step's number: that is what tells lines of one sort apart.
        kind = re.sub(r" \d+", "", parts[1], count=1)
        key = kind + " ".join(words[: draw.randint(1, min(4, len(words) - 1))])
        if key not in asked:
            asked[key] = ""
    wanted = set(asked)
    for line in reversed(lines):
        if not wanted:
            break
        parts = _BRACKET.match(line)
        if parts is None:
            continue
        plain = re.sub(r" \d+", "", parts[1], count=1) + parts[2]
        for key in [key for key in wanted if plain.startswith(key + " ")]:
            asked[key] = plain[len(key) :]
            wanted.discard(key)
    return [(key, rest) for key, rest in asked.items() if rest]
