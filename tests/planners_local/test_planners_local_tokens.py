"""Prompts in the model's tokens: what is protected, whose line a token is, what stands around the text."""

from __future__ import annotations

from typing import Any

import pytest
from planners_local_kit import END, byte_level_tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from brace.errors import ConfigError
from brace.planners import LineSpan, Prompt
from brace.planners.prompt_tokens import PromptEncoder

LINES = ["[task 0] Ünïcödé ☃\n", "[observation 1] door 3\n", "[failure 2]  it is wet \n"]


def prompt(floors: tuple[bool, ...] = (True, False, True), foot: str = "Plan:\n") -> Prompt:
    head = "You plan.\n"
    spans, at = [], len(head)
    for line, floor in zip(LINES, floors, strict=True):
        spans.append(LineSpan(at, at + len(line), floor))
        at += len(line)
    return Prompt(head + "".join(LINES) + foot, 0, 64, tuple(spans))


def across_lines() -> PreTrainedTokenizerFast:
    """A tokenizer with tokens that reach across a line's end."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(["\n[" * 50, "☃\n[" * 20, "\nPlan" * 20], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend)


@pytest.mark.parametrize("tokenizer", [byte_level_tokenizer(), across_lines()], ids=["plain", "across"])
def test_every_token_of_template_and_floors_is_protected_and_lines_are_numbered(tokenizer: Any) -> None:
    asked = prompt()
    tokens = PromptEncoder(tokenizer, chat=False).encode(asked)
    encoded = tokenizer(asked.text, return_offsets_mapping=True)
    assert tokens.ids == encoded.input_ids
    loose = asked.lines[1]
    for (start, end), floor, segment in zip(
        encoded.offset_mapping, tokens.floor, tokens.segments, strict=True
    ):
        inside = loose.start <= start and max(end, start + 1) <= loose.end
        assert floor == (not inside)
        assert (segment == 1) == inside
        owners = [n for n, span in enumerate(asked.lines) if start < span.end and end > span.start]
        assert segment in owners or (segment == -1 and (not owners or owners == [2] or start < 10))


def test_without_lines_nothing_is_known_to_be_protected() -> None:
    tokens = PromptEncoder(byte_level_tokenizer(), chat=False).encode(Prompt("a b c", 3))
    assert set(tokens.floor) == {False}
    assert set(tokens.segments) == {-1}


def test_the_chat_template_stands_around_the_text_and_is_counted() -> None:
    tokenizer = byte_level_tokenizer(chat=True)
    encoder, asked = PromptEncoder(tokenizer, chat=True), prompt()
    tokens = encoder.encode(asked)
    message = [{"role": "user", "content": asked.text}]
    assert tokenizer.decode(tokens.ids) == tokenizer.apply_chat_template(
        message, tokenize=False, add_generation_prompt=True
    )
    inner = PromptEncoder(tokenizer, chat=False).encode(asked)
    assert encoder.overhead == len(tokens.ids) - len(inner.ids) > 0
    start = tokens.ids.index(inner.ids[0])
    assert all(tokens.floor[:start])
    assert sum(tokens.floor) == sum(inner.floor) + encoder.overhead
    assert [n for n in tokens.segments if n >= 0] == [n for n in inner.segments if n >= 0]


def test_without_a_template_chat_changes_nothing() -> None:
    tokenizer = byte_level_tokenizer()
    encoder = PromptEncoder(tokenizer, chat=True)
    assert encoder.overhead == 0
    assert encoder.encode(prompt()).ids == tokenizer(prompt().text).input_ids


@pytest.mark.parametrize("template", ["{{ messages[0].content }}{{ messages[0].content }}", "hello"])
def test_a_template_that_does_not_give_the_message_back_once_is_refused(template: str) -> None:
    tokenizer = byte_level_tokenizer()
    tokenizer.chat_template = template
    with pytest.raises(ConfigError, match="chat: false"):
        PromptEncoder(tokenizer, chat=True)


@pytest.mark.parametrize(
    ("single", "beginning"), [("<s> $A", ["<s>"]), (f"<s> $A {END}", ["<s>"]), (f"$A {END}", [])]
)
def test_special_tokens_begin_the_text_but_do_not_end_it(single: str, beginning: list[str]) -> None:
    tokenizer = byte_level_tokenizer()
    tokenizer.add_special_tokens({"bos_token": "<s>"})
    marks = [(mark, tokenizer.convert_tokens_to_ids(mark)) for mark in ("<s>", END)]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=single, special_tokens=marks)
    encoder = PromptEncoder(tokenizer, chat=False)
    tokens = encoder.encode(prompt())
    assert tokenizer.convert_ids_to_tokens(tokens.ids)[: len(beginning)] == beginning
    assert encoder.overhead == len(beginning)
    assert tokens.ids[len(beginning) :] == tokenizer(prompt().text, add_special_tokens=False).input_ids
