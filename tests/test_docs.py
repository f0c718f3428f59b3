"""What the documentation shows, works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from brace import Agent
from brace.bench.suite import make_suite
from brace.context import ContextBuffer, Segment, WordTokenizer
from brace.controller import Budget, Controller, ControllerConfig, Signals, decide
from brace.loop.build import build_rules
from brace.loop.config import load_config
from brace.registry import budget_policies, planners, scorers, worlds
from brace.worlds.conformance import check_world
from tiny_model import tiny

ROOT = Path(__file__).parents[1]
PAGES = [
    path
    for path in sorted(ROOT.rglob("*.md"))
    if not any(part.startswith(".") or part == "runs" for part in path.relative_to(ROOT).parts)
]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def test_the_documented_extensions_work_as_they_stand() -> None:
    for block in blocks("docs/extending.md", "python"):
        exec(compile(block, "docs/extending.md", "exec"), {})  # noqa: S102 - our own documentation
    buffer = ContextBuffer(WordTokenizer())
    buffer.extend(Segment("observation", f"a door {'x' * n}", n) for n in range(20))
    with Agent(
        lambda prompt: "wait()",
        budget=80,
        compress={"name": "longest-words", "options": {"granularity": "token", "power": 2}},
        controller=ControllerConfig(triggers=("exhausted", "battery")),
        while_thinking="hold",
    ) as agent:
        agent.step([line.segment for line in buffer.lines()])
        assert agent.step().decision.triggers == ()
        assert agent.step(readings={"battery": 0.1}).decision.triggers == ("battery",)
    modes = {"pruned": Budget("pruned", 100, 10.0), "full": Budget("full", 200, 20.0)}
    rules = Controller(ControllerConfig(), budget_policies.create("thrifty", {"modes": modes}))
    decision, state = decide(rules, rules.start(), Signals(failed=True), 0)
    assert decision.budget == modes["pruned"]
    assert decide(rules, state, Signals(failed=True), 1)[0].budget == modes["full"]


def test_the_documented_mode_and_its_template_load() -> None:
    (block,) = blocks("docs/extending.md", "yaml")
    config = load_config(yaml.safe_load(block))
    assert "{context}" in config.modes["glance"].template
    build_rules(config)


def test_the_documented_agent_takes_its_configuration() -> None:
    shared: dict[str, object] = {"my_llm": lambda prompt: "goto(door)"}
    (block,) = (one for one in blocks("docs/agent.md", "python") if "from_config" in one)
    exec(compile(block, "docs/agent.md", "exec"), shared)  # noqa: S102 - our own documentation
    agent = shared["agent"]
    assert isinstance(agent, Agent)
    agent.close()


def test_the_documented_engine_works_as_it_stands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("brace.erecap.models.load_model", lambda path: tiny())
    shared: dict[str, object] = {}
    for block in blocks("docs/erecap.md", "python"):
        exec(compile(block, "docs/erecap.md", "exec"), shared)  # noqa: S102 - our own documentation
    assert "extended" in capsys.readouterr().out
    assert scorers.create("every-nth", {"n": 3}).n == 3


def test_the_documented_environment_becomes_a_world_that_keeps_the_contract() -> None:
    pytest.importorskip("gymnasium")
    for block in blocks("docs/worlds.md", "python"):
        exec(compile(block, "docs/worlds.md", "exec"), {})  # noqa: S102 - our own documentation
    broken = [
        check for check in check_world(lambda: worlds.create("cart-v1"), steps=8) if check.passed is False
    ]
    assert not broken


def test_the_documented_configuration_loads() -> None:
    (block,) = blocks("docs/configuration.md", "yaml")
    config = load_config(yaml.safe_load(block))
    assert config.modes["pruned"].tokens == 480


def test_the_documented_planners_can_be_configured() -> None:
    found = [
        load_config({"world": "proxy-v2"} | yaml.safe_load(b)) for b in blocks("docs/planners.md", "yaml")
    ]
    assert [config.planner.name for config in found] == ["embedded", "transformers", "openai"]
    for config in found:
        planners.get(config.planner.name)


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not re.match(r"https?:|mailto:", target):
            path, _, anchor = target.partition("#")
            there = page.parent / path if path else page
            assert there.exists(), target
            assert not anchor or anchor in anchors(there), target


def test_every_result_is_found_from_the_overview() -> None:
    """Each folder of results has a page that names its files, and the index names the folder."""
    results = ROOT / "results"
    index = (results / "README.md").read_text(encoding="utf-8")
    for folder in (entry for entry in results.iterdir() if entry.is_dir()):
        page = (folder / "README.md").read_text(encoding="utf-8")
        assert f"({folder.name}/README.md)" in index
        for file in folder.iterdir():
            assert file.name == "README.md" or f"({file.name})" in page, file
    verdicts = (ROOT / "RESULTS.md").read_text(encoding="utf-8")
    assert len(verdicts.splitlines()) <= 150


def test_the_documented_suite_and_its_plots_load() -> None:
    (block,) = blocks("docs/suites.md", "yaml")
    suite = make_suite(yaml.safe_load(block), "quick", {})
    assert [plot.kind for plot in suite.plots] == ["line"]
    assert len(suite.variants) == 2
