"""Prompt templates: text with places for the context and the skills, and nothing else of meaning in it."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from brace.context import Line, PromptTemplate, Segment, find_template, plan_template
from brace.errors import ConfigError
from brace.registry import templates

TEXTS = st.text(alphabet=st.sampled_from("ab {}\n%$\\") | st.characters(), max_size=30) | st.sampled_from(
    ["{skills}", "{context", "{ context }", "{{}}", "{0}", "%s", "{context}"]
)
PLAIN = TEXTS.filter(lambda text: "{context}" not in text and "{skills}" not in text)


def lines_of(texts: list[str]) -> list[Line]:
    return [Line(Segment("observation", text), text, 0) for text in texts]


@given(before=PLAIN, after=PLAIN, lines=st.lists(TEXTS), skills=TEXTS)
def test_lines_and_skills_stand_verbatim_in_their_places(
    before: str, after: str, lines: list[str], skills: str
) -> None:
    text = f"{before}{{skills}}|{{context}}{after}"
    assume(text.count("{context}") == text.count("{skills}") == 1)
    template = PromptTemplate(text).with_skills(skills)
    described = f"{skills.strip()}\n" if skills.strip() else ""
    assert template.head == f"{before}{described}|"
    assert template.foot == after
    assert template.render(lines_of(lines)) == template.head + "".join(lines) + template.foot
    assert template.with_skills("") == PromptTemplate(text)


@settings(deadline=None)
@given(skills=TEXTS, lines=st.lists(TEXTS))
def test_the_default_is_what_it_always_was(skills: str, lines: list[str]) -> None:
    described = skills.strip() + "\n" if skills.strip() else ""
    head = f"You plan for a robot. Write the next plan, nothing else.\n{described}"
    template = plan_template(skills)
    assert (template.head, template.foot) == (head, "Plan:\n")
    assert template.render(lines_of(lines)) == head + "".join(lines) + "Plan:\n"
    assert template == find_template("plan").with_skills(skills)


def test_skills_may_stand_after_the_context_or_nowhere() -> None:
    after = PromptTemplate("{context}{skills}Go:\n").with_skills("wait()")
    assert after.render(lines_of(["here\n"])) == "here\nwait()\nGo:\n"
    nowhere = PromptTemplate("{context}Go:\n").with_skills("wait()")
    assert nowhere.render(lines_of(["here\n"])) == "here\nGo:\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Plan now.", r"'Plan now.' has no \{context\}; write \{context\} once, where the lines"),
        ("{context} and {context}", r"has \{context\} 2 times; write \{context\} once"),
    ],
)
def test_a_template_without_one_place_for_the_context_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        PromptTemplate(text)


def test_a_template_is_found_by_its_name_or_is_written_out() -> None:
    assert find_template("plan") is templates.get("plan")
    assert find_template("Look:\n{context}Go:\n") == PromptTemplate("Look:\n{context}Go:\n")


@pytest.mark.parametrize("text", ["plam", "Tell me what to do. " * 50])
def test_an_unknown_one_is_refused_with_the_known_ones_and_the_hint(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown template .*known: .*plan.*written out, write \{context\}"
    ) as caught:
        find_template(text)
    assert len(str(caught.value)) < 300
