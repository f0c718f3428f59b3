"""A tiny random model in a folder, growing prompts, and limits that run out at a chosen look."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from brace.context import ContextBuffer, Segment, plan_template
from brace.plan import Arg, Skill, SkillSet
from brace.planners import LineSpan, Prompt, Usage
from brace.planners.local import TransformersPlanner

END = "<|end|>"
CHAT = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
POSITIONS = 2048
_TEXT = [
    "[observation 12 a1] the red ball is near door 3 and the robot walks to the kitchen\n",
    "goto(red ball); pickup(red ball); wait()\n0: goto(blue box)\n1: wait()\nPlan:\n",
    "You plan for a robot. Write the next plan, nothing else. Ünïcödé ☃ 0123456789",
]

TEAM = SkillSet(
    [
        Skill("goto", (Arg("object", "name"), Arg("room", "name"))),
        Skill("layer", (Arg("n", "choice", ("1", "2", "12")),)),
        Skill("hold", (Arg("seconds", "number"),)),
        Skill("wait"),
    ],
    agents=3,
)
NAMES = {"object": ("red ball", "red ball 2", "blue box"), "room": tuple(f"room {n}" for n in range(1, 10))}
WORLD = SimpleNamespace(skills=TEAM, names=NAMES)


def byte_level_tokenizer(chat: bool = False) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with an end-of-text token."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=alphabet, special_tokens=[END], show_progress=False
    )
    backend.train_from_iterator(_TEXT, trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END)
    if chat:
        made.chat_template = CHAT
    return made


def save_tiny(folder: Path, tokenizer: Any = None, seed: int = 0) -> Path:
    """A Llama of eight layers whose output is a little larger than its vocabulary, as is common."""
    tokenizer = tokenizer or byte_level_tokenizer()
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer) + 13, hidden_size=32, intermediate_size=64, num_hidden_layers=8,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=POSITIONS,
        initializer_range=0.4, pad_token_id=0, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def history(steps: int, seed: int = 0) -> list[Segment]:
    """A task and what happened since."""
    seen = [f"door {(n * 7 + seed) % 11} is open, the ball is near" for n in range(steps)]
    task = Segment("task", f"bring the red ball to room {seed % 9}")
    return [task, *(Segment("observation", text, n) for n, text in enumerate(seen))]


def prompt_of(segments: Iterable[Segment], planner: TransformersPlanner, budget: int | None = None) -> Prompt:
    """The prompt as the call path makes it."""
    buffer = ContextBuffer(planner.tokenizer)
    buffer.extend(segments)
    template = plan_template(TEAM.describe())
    text, spans, at = template.render(buffer.lines()), [], len(template.head)
    for line in buffer.lines():
        spans.append(LineSpan(at, at + len(line.text), line.floor))
        at += len(line.text)
    count = planner.tokenizer.count(text)
    return Prompt(text, count, budget, tuple(spans))


class FakeLimits:
    """Expires at the `looks`-th look at it; never, without a number."""

    def __init__(self, looks: float = float("inf")) -> None:
        self.left = looks
        self.looked = 0

    def expired(self) -> bool:
        self.looked += 1
        self.left -= 1
        return self.left < 0

    def remaining_s(self) -> float:
        return float("inf")


def ask(
    planner: TransformersPlanner, prompt: Prompt, limits: FakeLimits | None = None
) -> tuple[str, Usage | None]:
    """The whole answer and the usage told with it."""
    text, usage = "", None
    for piece in planner.stream(prompt, limits or FakeLimits()):
        if isinstance(piece, Usage):
            usage = piece
        else:
            text += piece
    return text, usage
