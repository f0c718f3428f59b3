"""One file is enough: every example of `examples/plugins` runs as its first lines say; bad ones say why."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from brace.cli import app
from brace.errors import BraceError
from brace.ledger.manifest import read_manifest
from brace.ledger.records import Call, Step
from brace.ledger.scan import read_records
from brace.registry import compressors, triggers

ROOT = Path(__file__).parents[2]
PLUGINS = sorted((ROOT / "examples" / "plugins").glob("*.py"))


def brace(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def commands(plugin: Path) -> list[list[str]]:
    """Those in the file's docstring."""
    text = plugin.read_text(encoding="utf-8").split('"""')[1].replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("brace ")]


def calls(run: Path) -> list[Call]:
    return [record for record in read_records(run) if isinstance(record, Call)]


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_there_is_one_for_each_thing_that_can_be_added() -> None:
    assert {plugin.stem for plugin in PLUGINS} == {
        "budget_policy", "compressor", "mode", "planner", "retriever", "scorer", "trigger", "world",
    }  # fmt: skip


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.stem)
def test_an_example_runs_as_it_says(plugin: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert commands(plugin)
    for words in commands(plugin):
        result = brace(*words, *(["--out", str(run)] if words[0] == "run" else []))
        assert result.exit_code == 0, result.output + str(result.exception)
    assert calls(run)
    manifest = read_manifest(run).config
    assert manifest["imports"] == [str(plugin)]
    again = brace("replay", str(run))
    assert again.exit_code == 0, again.output


def test_what_an_example_adds_has_an_effect(tmp_path: Path) -> None:
    made: dict[str, list[Call]] = {}
    for plugin in PLUGINS:
        if plugin.stem in ("compressor", "mode", "planner", "trigger", "world"):
            assert brace(*commands(plugin)[0], "--out", str(tmp_path / plugin.stem)).exit_code == 0
            made[plugin.stem] = calls(tmp_path / plugin.stem)
    assert {call.compressor for call in made["compressor"]} >= {"rare-words"}
    assert {call.planner for call in made["planner"]} == {"steady"}
    assert {call.budget for call in made["mode"] if call.mode == "pruned" and not call.override} == {320}
    assert any("walk(12)" in call.plan for call in made["world"])
    steps = [record for record in read_records(tmp_path / "trigger") if isinstance(record, Step)]
    assert {name for step in steps for name in step.triggers} <= {"exhausted", "stale"}


def test_a_worker_process_imports_the_file_too(tmp_path: Path) -> None:
    (plugin,) = (path for path in PLUGINS if path.stem == "planner")
    words = [*commands(plugin)[0], "-n", "2", "--jobs", "2", "--out", str(tmp_path / "run")]
    result = brace(*words)
    assert result.exit_code == 0, result.output + str(result.exception)
    assert {call.planner for call in calls(tmp_path / "run")} == {"steady"}


def test_a_configuration_imports_files_from_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from brace.controller import Trigger\nfrom brace.registry import triggers\n"
        "triggers.add('never', Trigger(lambda config, state, signals: False))\n"
    )
    (tmp_path / "run.yaml").write_text(
        "imports: [mine.py]\nworld: proxy-v2\nplanner: fake-fixed\n"
        "controller: {triggers: [exhausted, never]}\nepisodes: 1\n"
        "loop: {clock: modelled, model: {fixed_ms: 1, per_token_ms: 0}}\n"
    )
    result = brace("run", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output + str(result.exception)
    assert "never" in triggers.names()


@pytest.mark.parametrize("family", ["planners", "compressors", "retrievers", "scorers", "triggers", "modes"])
def test_lists_show_what_was_imported(family: str) -> None:
    (plugin,) = (path for path in PLUGINS if path.stem == family.removesuffix("s"))
    name = re.findall(r'(?:register|add)\(\s*"([\w-]+)"', plugin.read_text(encoding="utf-8"))[-1]
    result = brace(family, "list", "--import", str(plugin))
    assert result.exit_code == 0, result.output
    assert name in result.output


def test_a_list_shows_options_with_defaults_and_their_meaning() -> None:
    output = brace("compressors", "list").output
    assert "granularity" in output
    assert "'segment'" in output
    assert "whole lines, or single tokens" in output


BAD = {
    "a syntax error": ("def broken(:\n", "cannot be imported: SyntaxError"),
    "something that raises": ("1 / 0\n", "cannot be imported: ZeroDivisionError: division by zero"),
    "a name that is taken": (
        "from brace.callpath.compress import Recency\nfrom brace.registry import compressors\n"
        "compressors.names()\n@compressors.register('recency')\nclass Mine(Recency): pass\n",
        "compressor 'recency' is registered twice",
    ),
    "no subclass of the contract": (
        "from brace.registry import planners\n@planners.register('mine')\nclass Mine: pass\n",
        "derive it from brace.planners.base.Planner",
    ),
    "a method missing": (
        "from brace.planners import Planner\nfrom brace.registry import planners\n"
        "@planners.register('mine')\nclass Mine(Planner): pass\n",
        "Mine does not define stream",
    ),
    "arguments that are no options": (
        "from brace.callpath.compress import Recency\nfrom brace.registry import compressors\n"
        "@compressors.register('mine')\nclass Mine(Recency):\n    def __init__(self, a): self.a = a\n",
        "decorate it with @dataclass",
    ),
    "a trigger that is none": (
        "from brace.registry import triggers\ntriggers.add('mine', lambda *_: True)\n",
        "is no Trigger; make it one",
    ),
    "a template without a place for the context": (
        "from brace.context import PromptTemplate\nfrom brace.registry import templates\n"
        "templates.add('mine', PromptTemplate('Plan!'))\n",
        "{context}",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_one_clear_message(what: str, tmp_path: Path) -> None:
    code, message = BAD[what]
    plugin = tmp_path / "plugin.py"
    plugin.write_text(code)
    result = brace("run", "rehearsal", "--import", str(plugin), "--out", str(tmp_path / "run"))
    assert result.exit_code != 0
    assert isinstance(result.exception, BraceError), result.exception
    assert message in str(result.exception)
    assert str(plugin) in str(result.exception)
    assert not (tmp_path / "run").exists()


def test_a_missing_file_is_named() -> None:
    result = brace("run", "rehearsal", "--import", "no_such.py")
    assert isinstance(result.exception, BraceError)
    assert "there is no file no_such.py" in str(result.exception)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "modes.pruned.compress={name: recency, options: {granularty: token}}",
            "no option 'granularty'; did",
        ),
        ("modes.pruned.compress={name: recency, options: {granularity: 3}}", "option 'granularity' = 3"),
        ("planner={name: fake-fixed, options: {prefill_ms: soon}}", "option 'prefill_ms' = 'soon': Expected"),
        ("modes.pruned.template=shout", "unknown template 'shout'"),
        ("modes.pruned=glanze", "unknown mode 'glanze'"),
        ("controller.triggers=[failure, batery]", "unknown trigger 'batery'"),
        ("rules=brase", "unknown rules 'brase'; did you mean 'brace'"),
        ("loop.while_thinking=holt", "loop.while_thinking = 'holt'; did you mean 'hold'"),
    ],
)
def test_a_bad_setting_is_one_clear_message(setting: str, message: str, tmp_path: Path) -> None:
    result = brace("run", "rehearsal", "-n", "1", "-s", setting, "--out", str(tmp_path / "run"))
    assert result.exit_code != 0
    assert isinstance(result.exception, BraceError), result.exception
    assert message in str(result.exception)
    assert not (tmp_path / "run").exists()


def test_a_bad_option_is_told_with_its_file_and_key_before_anything_is_written(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("world: proxy-v2\nmodes:\n  pruned: {compress: {name: recency, options: {granule: 1}}}\n")
    result = brace("run", str(file), "--out", str(tmp_path / "run"))
    assert isinstance(result.exception, BraceError)
    assert f"{file}: modes.pruned.compress: compressor 'recency' has no option 'granule'" in str(
        result.exception
    )
    assert not (tmp_path / "run").exists()


def test_names_are_known_once_the_file_is_imported() -> None:
    plugin = next(path for path in PLUGINS if path.stem == "compressor")
    assert brace("compressors", "list", "--import", str(plugin)).exit_code == 0
    assert compressors.create("rare-words", {"shortest": 2}).shortest == 2
