"""Knobs and policies are checked when they are set, and the message says what to do."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest

from brace.controller import TRIGGERS, Budget, ControllerConfig, ControllerState, Decision, FixedPolicy
from brace.errors import BraceError, ConfigError, UnknownNameError
from brace.registry import budget_policies

PRUNED, FULL = Budget("pruned", 512, 800.0), Budget("full", None, None)
MODES = {"pruned": PRUNED, "full": FULL}
STATE = ControllerState()


@pytest.mark.parametrize(
    ("knobs", "remedy"),
    [
        ({"cooldown": -1}, "cooldown = -1: must be 0 or more steps"),
        ({"commit": -3}, "commit = -3: must be 0 or more steps"),
        ({"window": 0}, "window = 0: must be 1 or more"),
        ({"clean_window": 0}, "clean_window = 0: must be 1 or more"),
        ({"failure_repeat": 0}, "failure_repeat = 0: must be 1 or more"),
        ({"override_failures": 0}, "override_failures = 0: must be 1 or more"),
        ({"period": 0}, "period = 0: must be 1 or more, or left out"),
        ({"deadlock_evidence": 0}, "deadlock_evidence = 0: must be 1 or more, or left out"),
        ({"deadlock_evidence": 6, "window": 5}, "deadlock_evidence = 6: cannot exceed the window of 5 steps"),
        ({"divergence_limit": -0.1}, "divergence_limit = -0.1: must be 0 or more"),
        ({"divergence_limit": math.nan}, "divergence_limit = nan: must be 0 or more"),
        ({"relax_budget": 0.9}, "relax_budget = 0.9: must be 1 (no relaxing) or more"),
        ({"relax_slo": math.nan}, "relax_slo = nan: must be 1 (no relaxing) or more"),
        ({"relax_slo": math.inf}, "relax_slo = inf"),
        ({"budget_max": 0}, "budget_max = 0: must be 1 or more, or left out"),
        ({"slo_max_ms": 0.0}, "slo_max_ms = 0.0: must be > 0"),
        ({"triggers": ("goal", "failures")}, "unknown trigger 'failures'; did you mean 'failure'?"),
        ({"overrides": ("hazards",)}, "unknown override 'hazards'; did you mean 'hazard'?"),
    ],
)
def test_a_knob_that_cannot_work_is_refused_with_the_rule_it_breaks(
    knobs: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        ControllerConfig(**knobs)
    assert remedy in str(caught.value)


def test_an_unknown_trigger_is_told_all_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        ControllerConfig(triggers=("xyzzy",))  # type: ignore[arg-type]
    assert all(trigger in str(caught.value) for trigger in TRIGGERS)


@pytest.mark.parametrize(
    "knobs",
    [
        {"cooldown": 0, "commit": 0, "window": 1, "clean_window": 1, "period": 1, "deadlock_evidence": 1},
        {"relax_budget": 1.0, "relax_slo": 1.0, "budget_max": 1, "slo_max_ms": 0.001},
        {"deadlock_evidence": 5, "window": 5, "triggers": (), "overrides": ()},
    ],
)
def test_the_smallest_values_that_work_are_accepted(knobs: dict[str, Any]) -> None:
    config = ControllerConfig(**knobs)
    assert all(getattr(config, name) == value for name, value in knobs.items())


def test_a_knob_cannot_be_changed_behind_the_check() -> None:
    with pytest.raises(AttributeError):
        ControllerConfig().cooldown = -1  # type: ignore[misc]


def test_an_ordinary_call_gets_the_ordinary_mode() -> None:
    policy = FixedPolicy(MODES, escalate=("hazard",))
    assert policy.select(Decision(0, ("goal", "failure"), replan=True), STATE) == PRUNED


@pytest.mark.parametrize("override", ["hazard", "deadlock", "failures"])
def test_an_override_gets_the_escalated_mode(override: Any) -> None:
    assert FixedPolicy(MODES).select(Decision(0, ("goal",), replan=True, override=override), STATE) == FULL


def test_a_trigger_that_escalates_gets_the_escalated_mode_even_among_others() -> None:
    policy = FixedPolicy(MODES, escalate=("exhausted",))
    assert policy.select(Decision(0, ("goal", "exhausted"), replan=True), STATE) == FULL


def test_without_an_escalated_mode_an_override_stays_in_the_ordinary_one() -> None:
    assert (
        FixedPolicy({"pruned": PRUNED}).select(
            Decision(0, ("hazard",), replan=True, override="hazard"), STATE
        )
        == PRUNED
    )


def test_mode_names_are_the_user_s() -> None:
    policy = FixedPolicy({"short": PRUNED, "long": FULL}, mode="short", escalated="long", escalate=("goal",))
    assert policy.select(Decision(0, ("failure",), replan=True), STATE) == PRUNED
    assert policy.select(Decision(0, ("goal",), replan=True), STATE) == FULL


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"mode": "prunde"}, "unknown mode 'prunde'; did you mean 'pruned'? known: full, pruned"),
        (
            {"escalated": "ful", "escalate": ("goal",)},
            "unknown mode 'ful'; did you mean 'full'? known: full, pruned",
        ),
        ({"escalated": "ful"}, "unknown mode 'ful'; did you mean 'full'? known: full, pruned"),
        ({"escalate": ("hazzard",)}, "unknown trigger 'hazzard'; did you mean 'hazard'?"),
    ],
)
def test_a_policy_with_an_unknown_name_says_which_was_meant(options: dict[str, Any], remedy: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        FixedPolicy(MODES, **options)
    assert remedy in str(caught.value)


@pytest.mark.parametrize(
    ("budget", "remedy"),
    [
        (Budget("pruned", 0, None), "modes.pruned.tokens = 0: must be 1 or more"),
        (Budget("pruned", -5, None), "modes.pruned.tokens = -5: must be 1 or more"),
        (Budget("pruned", None, 0.0), "modes.pruned.slo_ms = 0.0: must be > 0"),
        (Budget("pruned", None, -1.0), "modes.pruned.slo_ms = -1.0: must be > 0"),
        (Budget("pruned", None, math.nan), "modes.pruned.slo_ms = nan: must be > 0"),
    ],
)
def test_a_budget_that_cannot_work_is_refused(budget: Budget, remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        FixedPolicy({"pruned": budget})
    assert remedy in str(caught.value)


def test_modes_that_are_never_used_are_checked_too() -> None:
    with pytest.raises(ConfigError):
        FixedPolicy({"pruned": PRUNED, "spare": Budget("spare", 0, None)})


def test_the_fixed_policy_is_known_by_name() -> None:
    policy = budget_policies.create("fixed", {"modes": MODES, "escalate": ("goal",)})
    assert policy == FixedPolicy(MODES, escalate=("goal",))


def test_every_refusal_is_one_the_command_line_prints_without_a_traceback() -> None:
    assert issubclass(ConfigError, BraceError)
    assert issubclass(UnknownNameError, BraceError)


def test_the_controller_needs_neither_torch_nor_tokenizers() -> None:
    script = "import sys, brace.controller; print({'torch', 'tokenizers', 'transformers'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "set()"
