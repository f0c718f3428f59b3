"""Planners that remember, random contexts in two tokenizers, short ways to make a call (no test in here)."""

from __future__ import annotations

import functools
import inspect
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ParamSpec

import pytest
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from brace.callpath import CallPath, Fit, Mode, OpenCall, Retrieve, Stage
from brace.callpath.compress import Compressor
from brace.callpath.retrieve import Retriever
from brace.context import (
    ContextBuffer,
    HfTokenizer,
    Kind,
    Line,
    PromptTemplate,
    Segment,
    Tokenizer,
    WordTokenizer,
    plan_template,
)
from brace.plan import SkillSet
from brace.planners import Answer, Deadline, Limits, Planner, PlannerPool, Prompt
from brace.registry import compressors

KINDS: tuple[Kind, ...] = (
    "task", "goal", "safety", "plan", "observation", "action", "failure", "message", "retrieved",
)  # fmt: skip
WORDS = ("door", "shut", "refrigerator", "goto(x)", "-1.5", "42", "Küche", "手が届かない", "🤖", "a", ";")
TEMPLATE = plan_template("goto(place): go there")
SLACK_MS = 250.0
"""How much later than its SLO a cut call may return."""
TRIES = 6

P = ParamSpec("P")


def patient(test: Callable[P, None]) -> Callable[P, None]:
    """For tests that look at the time: a busy machine may stall any thread, but not six times in a row."""

    @functools.wraps(test)
    def again(*args: P.args, **kwargs: P.kwargs) -> None:
        for tries_left in reversed(range(TRIES)):
            try:
                return test(*args, **kwargs)
            except AssertionError:
                if not tries_left:
                    raise
        return None

    return again


def byte_level_bpe() -> Backend:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    # `] \n`: an empty text's space and newline are one token at the end of a text, two within a prompt.
    corpus = [
        "[observation 3 a1] the kitchen door is open, Küche",
        "goto(kitchen); pickup",
        *["[task 0] \n"] * 9,
    ]
    backend.train_from_iterator(corpus, trainer)
    return backend


TOKENIZERS: dict[str, Tokenizer] = {"words": WordTokenizer(), "bpe": HfTokenizer(byte_level_bpe(), "bpe")}
# The one that needs a model is tested beside the other compressors.
NAMES = [name for name in compressors.names() if name not in ("erecap", "in-model")]
GRANULAR = [n for n in NAMES if "granularity" in inspect.signature(compressors.get(n)).parameters]
CUTTING = [(name, grain) for name in GRANULAR for grain in ("token", "segment")] + [
    (name, "") for name in NAMES if name not in GRANULAR and name != "none"
]
every_compressor = pytest.mark.parametrize(("name", "grain"), CUTTING)
every_tokenizer = pytest.mark.parametrize("tokens", list(TOKENIZERS))


def compressor(name: str, grain: str = "") -> Compressor:
    made: Compressor = compressors.create(name, {"granularity": grain} if grain else {})
    return made


@dataclass
class Recorder(Planner):
    """Answers `text` and remembers the prompts it saw."""

    tokenizer: Tokenizer = field(default_factory=WordTokenizer)
    text: str = "goto(kitchen)"
    name: str = "recorder"
    seen: list[Prompt] = field(default_factory=list)

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        self.seen.append(prompt)
        yield self.text


@dataclass
class Scripted(Planner):
    """A planner whose answer to each prompt is what `script` streams."""

    script: Callable[[Prompt, Limits], Iterator[str]]
    tokenizer: Tokenizer = field(default_factory=WordTokenizer)
    name: str = "scripted"

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        return self.script(prompt, limits)


@contextmanager
def pool_of(planner: Planner, workers: int = 1) -> Iterator[PlannerPool]:
    pool = PlannerPool(planner, workers)
    try:
        yield pool
    finally:
        pool.close()


def prompt_of(text: str = "prompt") -> Prompt:
    count = WordTokenizer().count(text)
    return Prompt(text, count)


def call(
    planner: Planner,
    lines: Sequence[Line] = (),
    *,
    budget: int | None = None,
    slo_ms: float | None = None,
    how: Compressor | None = None,
    template: PromptTemplate = TEMPLATE,
    retriever: Retriever | None = None,
    skills: SkillSet | None = None,
    seed: int = 0,
    overrun: bool = False,
    inline: bool = False,
) -> OpenCall:
    """One call through a pool of its own, or, `inline`, without its threads: faster, for many calls."""
    row: list[Stage] = [Fit(how or compressor("recency"), allow_floor_overrun=overrun)]
    if retriever is not None:
        row.append(Retrieve(retriever))
    mode = Mode(template, tuple(row))
    with pool_of(planner) as pool:
        path = CallPath(pool, {"pruned": mode}, skills)
        request = path.open(lines, "pruned", budget=budget, deadline=Deadline(slo_ms), seed=seed)
        if not inline:
            return path.run(request)
        return path.run(
            request, ask=lambda prompt, deadline: Answer("".join(planner.stream(prompt, deadline)), "done")
        )


def lines_of(history: Iterable[Segment], tokenizer: Tokenizer | None = None) -> list[Line]:
    buffer = ContextBuffer(tokenizer or WordTokenizer())
    buffer.extend(history)
    return buffer.lines()


def total(lines: Iterable[Line]) -> int:
    return sum(line.tokens for line in lines)


def floors(lines: Iterable[Line]) -> list[Line]:
    return [line for line in lines if line.floor]


def budget_for(lines: list[Line], template: int, share: float) -> int:
    """From template and floors alone (0) to everything and a little more (1)."""
    least = template + total(floors(lines))
    return max(template + 1, least + round(share * (template + total(lines) + 3 - least)))


def random_history(seed: int, size: int, *, plain: bool = False) -> list[Segment]:
    """Segments of all kinds, several agents, floors; unless `plain`, with runs of spaces and empty texts."""
    draw = random.Random(seed)
    gaps = [" "] if plain else [" ", " ", "  ", " \t "]
    longest = draw.choice([2, 12])
    history = []
    for step in range(size):
        text = draw.choice(gaps).join(draw.choices(WORDS, k=draw.randint(plain, longest)))
        kind = draw.choice(KINDS[3:] if draw.random() < 0.8 else KINDS[:3])
        floor = draw.choice([None, None, None, None, False, True])
        history.append(Segment(kind, text, step // 2, draw.choice([None, 0, 1]), floor))
    return history


# Drawn ones find odd texts and shrink well, those from a seed are long.
histories = st.lists(
    st.builds(
        Segment,
        st.sampled_from(KINDS),
        st.text(max_size=12)
        | st.sampled_from(["", "door is open", "goto(kitchen)", "a  b\tc", "手が届かない"]),
        st.integers(0, 3),
        st.sampled_from([None, 0, 1]),
        st.sampled_from([None, None, None, True, False]),
    ),
    max_size=6,
) | st.builds(random_history, st.integers(0, 2**32), st.sampled_from([1, 3, 8, 20, 40]))
plain_histories = st.builds(
    random_history, st.integers(0, 2**32), st.sampled_from([1, 3, 8, 20]), plain=st.just(True)
)
shares = st.floats(0, 1)


class Gate(Planner):
    """Writes `before`, stays until the gate opens, deaf to its deadline, then writes `after`."""

    name = "gate"

    def __init__(self, before: str = "", after: str = "goto(kitchen)") -> None:
        self.tokenizer: Tokenizer = WordTokenizer()
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()
        self.seen: list[str] = []
        self._before, self._after = before, after

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        self.seen.append(prompt.text)
        self.entered.release()
        if self._before:
            yield self._before
        self.open.wait(3600)
        yield self._after

    def await_entry(self) -> None:
        assert self.entered.acquire(timeout=10), "the planner was never asked"


@contextmanager
def background(work: Callable[[], None]) -> Iterator[threading.Thread]:
    """Run `work` beside the block; at the end it must come to its end, too."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        thread.join(20)
        assert not thread.is_alive(), "a call never came back"


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for what another thread is about to do."""
    end = time.perf_counter() + seconds
    while not condition():
        assert time.perf_counter() < end, "it never happened"
        time.sleep(0.002)
