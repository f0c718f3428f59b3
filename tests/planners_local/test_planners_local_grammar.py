"""Constrained decoding writes plans of the world's skills, whatever the model would like to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from planners_local_kit import NAMES, TEAM, byte_level_tokenizer

from brace.erecap import Engine, Writing, write
from brace.erecap.models import load_model
from brace.errors import BraceError, ConfigError, MissingExtraError
from brace.plan import Arg, Plan, PlanSyntaxError, Skill, SkillCall, SkillSet, parse
from brace.planners.constrained import PlanConstraint, Vocabulary
from brace.planners.plan_grammar import MOST_SKILLS, lark
from brace.registry import worlds

TOKENIZER = byte_level_tokenizer()
END = TOKENIZER.eos_token_id
SIZE = len(TOKENIZER) + 13
VOCABULARY = Vocabulary(TOKENIZER, SIZE, [END])
Names = Mapping[str, Sequence[str]]

ARMS = SkillSet(
    [
        Skill("reach", tuple(Arg(axis, "number", resolution=10) for axis in ("x", "y", "z", "yaw"))),
        Skill("grasp"),
        Skill("lift", (Arg("height", "number", resolution=5),)),
    ],
    agents=2,
)
ODD = SkillSet(
    [
        Skill("go", (Arg("to", "name"),)),
        Skill("goto", (Arg("to", "name"), Arg("how", "choice", ('"fast"', "back\\wards", "ünï ☃")))),
        Skill("_", (Arg("what", "name"),)),
    ]
)
CROWD = SkillSet([Skill("yield", (Arg("other", "name"),)), Skill("hold", (Arg("s", "number"),))], agents=14)
SETS: dict[str, tuple[SkillSet, Names]] = {
    "team": (TEAM, NAMES),
    "arms": (ARMS, {}),
    "odd": (ODD, {"to": ("Door", "door 1", "door 1 left", "a/b#{0}", "[x]|y*")}),
    "free": (ODD, {}),
    "crowd": (CROWD, {"other": tuple(f"drone {n}" for n in range(14))}),
    "one": (SkillSet([Skill("stop")]), {}),
}


def random_text(constraint: PlanConstraint, seed: int, end_bias: float = 0.0) -> str:
    """What a model that knows nothing writes: the argmax of fresh random logits each time."""
    draw = torch.Generator().manual_seed(seed)
    mask, tokens = constraint.begin(), torch.zeros((1, 0), dtype=torch.long)
    for _ in range(4000):
        logits = torch.randn((1, SIZE), generator=draw)
        logits[0, END] += end_bias
        token = mask(tokens, logits).argmax(-1)
        if int(token) == END:
            return TOKENIZER.decode(tokens[0])
        tokens = torch.cat([tokens, token[:, None]], 1)
    raise AssertionError(f"no end in sight: {TOKENIZER.decode(tokens[0])!r}")


def accepts(constraint: PlanConstraint, text: str) -> bool:
    """Whether a model could have written this text, and could end it there."""
    mask, ids = constraint.begin(), TOKENIZER(text).input_ids
    for length in range(len(ids) + 1):
        allowed = mask(torch.tensor([ids[:length]], dtype=torch.long), torch.zeros(1, SIZE))[0]
        if allowed[ids[length] if length < len(ids) else END] == -torch.inf:
            return False
    return True


@pytest.mark.parametrize("which", SETS)
def test_whatever_the_logits_the_text_is_a_plan_in_canonical_spelling(which: str) -> None:
    skills, names = SETS[which]
    constraint = PlanConstraint(VOCABULARY, skills, names)
    plans = set()
    for seed in range(40):
        text = random_text(constraint, seed, end_bias=2.0 * (seed % 3))
        plan = parse(text, skills)
        assert str(plan) == text or (plan.agents == (0,) and f"0: {plan}" == text)
        for _, calls in plan.steps:
            assert len(calls) <= MOST_SKILLS
            for call in calls:
                for arg, value in zip(skills.get(call.skill).args, call.args, strict=True):
                    allowed = names.get(arg.name) if arg.kind == "name" else None
                    assert allowed is None or value in {name.lower() for name in allowed}
        plans.add(text)
    assert len(plans) > 5


@pytest.mark.parametrize("name", worlds.names())
def test_every_registered_world_has_a_grammar_whose_texts_it_can_read(name: str) -> None:
    try:
        world = worlds.create(name)
    except MissingExtraError as missing:
        pytest.skip(str(missing))
    constraint = PlanConstraint(VOCABULARY, world.skills, world.names)
    for seed in range(10):
        parse(random_text(constraint, seed, 2.0), world.skills)
    world.close()


def calls_of(skills: SkillSet, names: Names) -> st.SearchStrategy[SkillCall]:
    def value(arg: Arg) -> st.SearchStrategy[str]:
        if arg.kind == "number":
            whole = st.integers(-999_999, 999_999).map(str)
            return whole | st.integers(-9999, 9999).map(lambda n: f"{n / 100:.2f}")
        free = st.from_regex(r"[a-z0-9_.'-]{1,8}( [a-z0-9_]{1,8})?", fullmatch=True)
        options = arg.choices if arg.kind == "choice" else names.get(arg.name)
        return st.sampled_from(list(options)) if options is not None else free

    def call(skill: Skill) -> st.SearchStrategy[SkillCall]:
        return st.tuples(*map(value, skill.args)).map(lambda args: SkillCall(skill.name, args))

    return st.sampled_from(list(skills)).flatmap(call)


@pytest.mark.parametrize("which", SETS)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_every_plan_can_be_written(which: str, data: st.DataObject) -> None:
    skills, names = SETS[which]
    line = st.lists(calls_of(skills, names), min_size=1, max_size=MOST_SKILLS).map(tuple)
    steps = data.draw(st.dictionaries(st.integers(0, skills.agents - 1), line, min_size=1, max_size=3))
    plan = Plan(tuple(steps.items()))
    assert accepts(PlanConstraint(VOCABULARY, skills, names), str(plan))


@pytest.mark.parametrize(
    "text",
    [
        "", "wait", "wait(", "wait();", "wait() ", " wait()", "wait();wait()", "fly()", "goto(red ball)",
        "goto(red, room 1)", "goto(red ball,room 1)", "goto(red ball 3, room 1)", "layer(3)", "hold(1e3)",
        "hold(+1)", "hold(nan)", "hold(01)", "3: wait()", "0: wait()\n", "1: wait()\n0: wait()",
        "0: wait()\n0: wait()", "wait()\n1: wait()", "wait()\n", "; ".join(["wait()"] * (MOST_SKILLS + 1)),
    ],
)  # fmt: skip
def test_nothing_else_can_be_written(text: str) -> None:
    assert not accepts(PlanConstraint(VOCABULARY, TEAM, NAMES), text)


@pytest.mark.parametrize("text", ["0: wait()", "wait()", "0: wait()\n2: layer(12); goto(red ball 2, room 9)"])
def test_agents_may_be_left_out(text: str) -> None:
    assert accepts(PlanConstraint(VOCABULARY, TEAM, NAMES), text)


def test_one_agent_s_plan_has_no_number() -> None:
    constraint = PlanConstraint(VOCABULARY, SkillSet([Skill("stop")]), {})
    assert accepts(constraint, "stop(); stop()")
    assert not accepts(constraint, "0: stop()")


@pytest.mark.parametrize("seed", range(4))
def test_it_plugs_into_the_engine_s_writing(folder: Path, seed: int) -> None:
    model, tokenizer = load_model(folder)
    engine = Engine(model)
    context = engine.prefill(torch.tensor([tokenizer("Plan:\n").input_ids])).context
    constraint = PlanConstraint(VOCABULARY, TEAM, NAMES)
    how = Writing(max_new_tokens=600, temperature=1.0, seed=seed, end_tokens=(END,))
    written = write(engine, context, how, logits_hook=constraint.begin())
    assert written.reasons == ["end"]
    parse(tokenizer.decode(written.tokens[0][:-1]), TEAM)


def test_the_same_model_unconstrained_writes_no_plan(folder: Path) -> None:
    model, tokenizer = load_model(folder)
    context = Engine(model).prefill(torch.tensor([tokenizer("Plan:\n").input_ids])).context
    written = write(Engine(model), context, Writing(max_new_tokens=40, end_tokens=(END,)))
    with pytest.raises(PlanSyntaxError):
        parse(tokenizer.decode(written.tokens[0]), TEAM)


def test_a_token_that_was_forbidden_is_an_error_and_not_followed() -> None:
    mask = PlanConstraint(VOCABULARY, TEAM, NAMES).begin()
    with pytest.raises(BraceError, match="outside the plan's grammar"):
        mask(torch.tensor([TOKENIZER("☃").input_ids]), torch.zeros(1, SIZE))


@pytest.mark.parametrize("names", [{"object": ()}, {"object": ("a;b",)}, {"object": ("",)}])
def test_names_that_cannot_be_written_are_refused(names: Names) -> None:
    with pytest.raises(ConfigError, match=r"names\['object'\]"):
        lark(TEAM, names)


def test_without_an_end_of_text_there_is_no_constraint() -> None:
    with pytest.raises(ConfigError, match="constrain: false"):
        Vocabulary(TOKENIZER, SIZE, [])


@pytest.mark.parametrize("which", SETS)
@pytest.mark.parametrize("seed", range(5))
def test_what_is_forced_is_what_a_mask_would_have_left(which: str, seed: int) -> None:
    constraint = PlanConstraint(VOCABULARY, *SETS[which])
    draw = torch.Generator().manual_seed(seed)
    quick, slow, tokens = constraint.begin(), constraint.begin(), []
    while len(tokens) < 400:
        logits = quick(torch.tensor([tokens], dtype=torch.long), torch.randn((1, SIZE), generator=draw))
        chosen = int(logits.argmax(-1))
        if chosen == END:
            return
        for token in (chosen, *quick.forced_after(chosen)):
            allowed = slow(torch.tensor([tokens], dtype=torch.long), torch.zeros(1, SIZE))[0] == 0
            assert allowed[token]
            assert token == chosen or not allowed[END]
            tokens.append(token)
