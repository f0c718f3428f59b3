"""Random contexts in two tokenizers, and the matrix every compressor goes through (no test in here)."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterable

import pytest
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from brace.callpath.compress import Compressor
from brace.context import ContextBuffer, HfTokenizer, Kind, Line, Segment, Tokenizer, WordTokenizer
from brace.registry import compressors

HEAD: tuple[Kind, ...] = ("task", "goal", "safety")
BODY: tuple[Kind, ...] = ("plan", "observation", "action", "failure", "message", "retrieved")
WORDS = (
    "door", "open", "shut", "kitchen", "refrigerator", "goto(x)", "-1.5", "42", "Küche",
    "手が届かない", "🤖", "a", ".",
)  # fmt: skip


def byte_level_bpe() -> Backend:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(
        ["[observation 3 a1] the kitchen door is open, Küche, 手が届かない", "goto(kitchen); pickup"], trainer
    )
    return backend


TOKENIZERS: dict[str, Tokenizer] = {"words": WordTokenizer(), "bpe": HfTokenizer(byte_level_bpe(), "bpe")}
# The one that needs a model has a file of its own: hundreds of random contexts would take minutes.
ALL = [name for name in compressors.names() if name not in ("erecap", "in-model")]
GRANULAR = [name for name in ALL if "granularity" in inspect.signature(compressors.get(name)).parameters]
CASES = [(name, grain) for name in GRANULAR for grain in ("token", "segment")] + [
    (name, "") for name in ALL if name not in GRANULAR and name != "none"
]
CHOICES = [(name, grain) for name, grain in CASES if name != "structured"]
"""Methods that only choose; a summariser writes lines of its own."""

every_case = pytest.mark.parametrize(("name", "grain"), CASES)
every_choice = pytest.mark.parametrize(("name", "grain"), CHOICES)
every_granular = pytest.mark.parametrize("name", GRANULAR)
every_grain = pytest.mark.parametrize("grain", ["token", "segment"])
every_tokenizer = pytest.mark.parametrize("tokens", list(TOKENIZERS))


def build(name: str, grain: str = "") -> Compressor:
    made: Compressor = compressors.create(name, {"granularity": grain} if grain else {})
    return made


def random_history(seed: int, size: int) -> list[Segment]:
    """Segments of all kinds: repeated ones, floors, several agents, runs of spaces, texts beyond ASCII."""
    draw = random.Random(seed)
    longest = draw.choice([0, 2, 12])
    history = []
    for step in range(size):
        words = draw.choices(WORDS, k=draw.randint(0, longest))
        text = draw.choice([" ", " ", "  ", " \t "]).join(words)
        kind = draw.choice(BODY if draw.random() < 0.8 else HEAD)
        floor = draw.choice([None, None, None, None, None, None, False, True])
        history.append(Segment(kind, text, step // 2, draw.choice([None, 0, 1]), floor))
    return history


def lines_of(history: Iterable[Segment], tokens: str = "words") -> list[Line]:
    buffer = ContextBuffer(TOKENIZERS[tokens])
    buffer.extend(history)
    return buffer.lines()


def total(lines: Iterable[Line]) -> int:
    return sum(line.tokens for line in lines)


def floors(lines: Iterable[Line]) -> list[str]:
    return [line.text for line in lines if line.floor]


def room_between(lines: list[Line], share: float) -> int:
    """From just the floors (0) to everything and a little more (1)."""
    least = total(line for line in lines if line.floor)
    return least + round(share * (total(lines) + 3 - least))


drawn_histories = st.lists(
    st.builds(
        Segment,
        st.sampled_from([*HEAD, *BODY]),
        st.text(max_size=12) | st.sampled_from(["door is open", "goto(kitchen)", "a  b\tc", "手が届かない"]),
        st.integers(0, 3),
        st.sampled_from([None, 0, 1]),
        st.sampled_from([None, None, None, True, False]),
    ),
    max_size=6,
)
# Drawn ones find odd texts and shrink well, those from a seed are long.
histories = drawn_histories | st.builds(
    random_history, st.integers(0, 2**32), st.sampled_from([1, 3, 8, 20, 40])
)
shares = st.floats(0, 1)


def big_history(size: int) -> list[Segment]:
    """A day in the house: mostly the same things seen, done and failed again."""
    draw = random.Random(1)
    history = [Segment("task", "tidy the house"), Segment("goal", "put the red ball next to the blue box")]
    for step in range(1, size - 1):
        agent = draw.randrange(3)
        match step % 4:
            case 0:
                door = draw.choice(["open", "shut"])
                text = f"room {draw.randrange(9)} door is {door}, ball at {draw.randrange(99)}"
                history.append(Segment("observation", text, step, agent))
            case 1:
                history.append(Segment("action", draw.choice(["goto(kitchen)", "pickup(ball)"]), step, agent))
            case 2:
                history.append(Segment("message", f"please hurry to {draw.choice('abc')}", step, agent))
            case _:
                history.append(Segment("failure", f"cannot reach {draw.choice('abc')}", step, agent))
    return history
