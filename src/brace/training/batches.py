"""The planner's own tokens, and lessons as batches of them: ids, and how much predicting each counts."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brace.errors import BraceError, MissingExtraError
from brace.training.lessons import ANSWER, FOOT, Lesson, make_lesson
from brace.training.logs import Log, read_logs
from brace.training.readers import reader_of

VOCABULARY = 4096
PAD, BEGIN, END = "<pad>", "<begin>", "<end>"
_COPIES_OF_NUMBERS = 40
"""Often enough for every number to earn its merges."""
HELD_OUT = 25
"""One log in so many is never practised on."""
CONTEXT_WEIGHT, QUESTION_WEIGHT, PLAN_WEIGHT = 0.1, 0.5, 1.0
CONTEXT_SHARE = 50.0
"""What all of a long context counts, in tokens of a plan: reading is taught by what has to be found in it."""
WITHOUT_PLAN = 0.3
"""So many lessons ask for facts alone: after a plan, some could be copied from it."""
# An estimate: the true length is looked at when a lesson has been encoded.
_CHARS_PER_TOKEN = 2.9
_FILLED = 0.7
"""A lesson is at least so much of the length it may have: padding teaches nothing."""


def train_tokenizer(texts: Iterable[str], path: Path) -> None:
    """Fit the BPE to texts and write `tokenizer.json`."""
    try:
        from tokenizers import (  # noqa: PLC0415
            Regex,
            Tokenizer,
            decoders,
            models,
            pre_tokenizers,
            processors,
            trainers,
        )
    except ImportError as error:
        raise MissingExtraError("training a tokenizer", "tokenizers") from error
    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            # Apart from words, so that a number of up to three digits becomes a single token.
            pre_tokenizers.Split(Regex(r" ?\d{1,3}"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, BEGIN, END],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    numbers = " ".join(f"{number} ,{number}" for number in range(1000))
    tokenizer.train_from_iterator(chain(repeat(numbers, _COPIES_OF_NUMBERS), texts), trainer)
    begin = tokenizer.token_to_id(BEGIN)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, begin)]
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))


@dataclass(frozen=True)
class Batch:
    """Token ids and the weight of predicting each."""

    ids: NDArray[np.int32]
    weights: NDArray[np.float32]


class Encoder:
    """Lessons as ids and weights."""

    def __init__(self, tokenizer_file: Path) -> None:
        import tokenizers  # noqa: PLC0415 - an extra

        library: Any = tokenizers
        self._tokenizer = library.Tokenizer.from_file(str(tokenizer_file))
        self.size: int = self._tokenizer.get_vocab_size()
        self._begin = int(self._tokenizer.token_to_id(BEGIN))
        self._end = int(self._tokenizer.token_to_id(END))

    def encode(self, lesson: Lesson, *, plan: bool = True) -> tuple[list[int], list[float], int]:
        """Ids, weights, and where the prompt ends. Without the plan the questions follow at once."""
        prompt = lesson.prompt if plan else lesson.prompt.removesuffix(FOOT)
        ids = [self._begin, *self._ids(prompt)]
        weights = [min(CONTEXT_WEIGHT, CONTEXT_SHARE / len(ids))] * len(ids)
        start = len(ids)
        if plan:
            told = [*self._ids(lesson.plan), self._end]
            ids, weights = ids + told, weights + [PLAN_WEIGHT] * len(told)
        for question, answer in lesson.questions:
            asked = self._ids(question + ANSWER)
            told = [*self._ids(answer), self._end]
            ids += asked + told
            # What is asked is drawn at random: there is nothing to learn in predicting it.
            weights += [0.0] * len(asked) + [QUESTION_WEIGHT] * len(told)
        return ids, weights, start

    def _ids(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return found


def load_logs(files: Sequence[Path], *, exam: bool) -> dict[str, list[Log]]:
    """Logs by world: those to practise on, or the one in `HELD_OUT` kept for the exam."""
    logs: dict[str, list[Log]] = {}
    for file in files:
        for number, log in enumerate(read_logs(file)):
            if (number % HELD_OUT == 0) == exam:
                logs.setdefault(log.world, []).append(log)
    if not logs:
        raise BraceError("no logs to learn from; make some with: brace planner data")
    return logs


class Practice:
    """Logs to draw lessons from, and how much was said by when."""

    def __init__(self, logs: Mapping[str, Sequence[Log]]) -> None:
        self._logs: dict[str, list[tuple[Log, NDArray[np.int64]]]] = {}
        """By world, from short to long."""
        for world, mine in logs.items():
            sized = [(log, np.cumsum([len(segment.render()) for segment in log.segments])) for log in mine]
            self._logs[world] = sorted(sized, key=_size)

    def lengths(self, wanted: Sequence[int]) -> list[int]:
        """Those of the wanted lengths, in tokens, that some log is long enough for; the first one always."""
        longest = max(_size(mine[-1]) for mine in self._logs.values())
        return [
            length
            for number, length in enumerate(wanted)
            if number == 0 or length * _CHARS_PER_TOKEN * _FILLED <= longest
        ]

    def lesson(self, draw: random.Random, shares: Mapping[str, float], most_chars: int) -> Lesson:
        """A lesson that is nearly as long as it may be, from a world that has one."""
        least = _FILLED * min(most_chars, max(_size(mine[-1]) for mine in self._logs.values()))
        long_enough = {world: bisect_left(mine, least, key=_size) for world, mine in self._logs.items()}
        names = [world for world, start in long_enough.items() if start < len(self._logs[world])]
        (world,) = draw.choices(names, [shares.get(name, 1.0) for name in names])
        mine = self._logs[world]
        log, said = mine[draw.randrange(long_enough[world], len(mine))]
        first = min(int(np.searchsorted(said, least - len(log.head))) + 1, len(said))
        return make_lesson(log, reader_of(log), draw, most_chars, first=first)


def _size(sized: tuple[Log, NDArray[np.int64]]) -> int:
    log, said = sized
    return len(log.head) + int(said[-1])


def make_batch(
    practice: Practice,
    encoder: Encoder,
    draw: random.Random,
    *,
    rows: int,
    length: int,
    shares: Mapping[str, float],
) -> Batch:
    """Lessons cut or padded to one length; `shares` says how often each world comes (if not: 1)."""
    ids = np.zeros((rows, length), np.int32)
    weights = np.zeros((rows, length), np.float32)
    row = 0
    while row < rows:
        most = int(length * _CHARS_PER_TOKEN * draw.uniform(0.5, 1.0))
        lesson = practice.lesson(draw, shares, most)
        found, weighed, start = encoder.encode(lesson, plan=draw.random() >= WITHOUT_PLAN)
        # Questions may be cut off, the plan may not.
        plan_end = start + weighed[start:].count(PLAN_WEIGHT)
        if plan_end > length:
            continue
        found, weighed = found[:length], weighed[:length]
        ids[row, : len(found)], weights[row, : len(found)] = found, weighed
        row += 1
    return Batch(ids, weights)
