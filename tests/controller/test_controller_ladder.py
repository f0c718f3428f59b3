"""The ladder: an override in a row relaxes budget and SLO, a clean window takes one rung back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.controller import Budget, Controller, ControllerConfig, FixedPolicy, Signals, decide

GOAL, CRITICAL, QUIET = Signals(goal_changed=True), Signals(hazard="critical"), Signals()


def policy(tokens: int | None = 100, slo_ms: float | None = 1000.0) -> FixedPolicy:
    return FixedPolicy({"pruned": Budget("pruned", tokens, slo_ms)})


def budgets(config: ControllerConfig, signals: list[Signals], of: FixedPolicy) -> list[Budget | None]:
    controller = Controller(config, of)
    state, spent = controller.start(), []
    for t, now in enumerate(signals):
        decision, state = decide(controller, state, now, t)
        spent.append(decision.budget)
    return spent


def tokens(config: ControllerConfig, signals: list[Signals]) -> list[int | None]:
    return [budget and budget.tokens for budget in budgets(config, signals, policy())]


def test_the_kth_override_in_a_row_relaxes_budget_and_slo_by_the_kth_power() -> None:
    config = ControllerConfig(cooldown=99, relax_budget=2.0, relax_slo=1.5)
    assert budgets(config, [GOAL, CRITICAL, CRITICAL, CRITICAL], policy()) == [
        Budget("pruned", 100, 1000.0),
        Budget("pruned", 200, 1500.0),
        Budget("pruned", 400, 2250.0),
        Budget("pruned", 800, 3375.0),
    ]


def test_ceilings_hold() -> None:
    config = ControllerConfig(cooldown=99, relax_budget=2.0, relax_slo=1.5, budget_max=300, slo_max_ms=1600.0)
    last = budgets(config, [GOAL] + [CRITICAL] * 5, policy())[2:]
    assert last[0] == Budget("pruned", 300, 1600.0)
    assert set(last) == {last[0]}


def test_a_ceiling_below_the_mode_s_own_budget_never_shrinks_it() -> None:
    config = ControllerConfig(cooldown=99, budget_max=50, slo_max_ms=10.0)
    assert budgets(config, [GOAL, CRITICAL], policy())[1] == Budget("pruned", 100, 1000.0)


@pytest.mark.parametrize(("of", "expected"), [
    (policy(tokens=None), Budget("pruned", None, 1250.0)),
    (policy(slo_ms=None), Budget("pruned", 150, None)),
    (policy(None, None), Budget("pruned", None, None)),
])  # fmt: skip
def test_what_is_unlimited_stays_unlimited(of: FixedPolicy, expected: Budget) -> None:
    config = ControllerConfig(cooldown=99, budget_max=500, slo_max_ms=5000.0)
    assert budgets(config, [GOAL, CRITICAL], of)[1] == expected


def test_each_clean_window_takes_exactly_one_rung_back() -> None:
    config = ControllerConfig(cooldown=2, relax_budget=2.0, clean_window=4)
    start = [GOAL, CRITICAL, CRITICAL]
    rest = [QUIET, GOAL] * 6
    assert tokens(config, start) == [100, 200, 400]
    # Overrides at 1 and 2. Rung 2 through step 6 (four clean steps), rung 1 through step 10, then rung 0.
    assert tokens(config, start + rest)[3:] == [
        None, 400, None, 400, None, 200, None, 200, None, 100, None, 100,
    ]  # fmt: skip


def test_an_override_within_the_clean_window_starts_it_anew() -> None:
    config = ControllerConfig(cooldown=99, relax_budget=2.0, clean_window=3)
    spent = tokens(config, [GOAL, CRITICAL, QUIET, QUIET, CRITICAL, QUIET, QUIET, CRITICAL])
    assert [value for value in spent if value] == [100, 200, 400, 800]


def test_an_override_after_a_clean_window_starts_from_the_rung_below() -> None:
    config = ControllerConfig(cooldown=99, relax_budget=2.0, clean_window=3)
    spent = tokens(config, [GOAL, CRITICAL, CRITICAL, QUIET, QUIET, QUIET, CRITICAL])
    assert [value for value in spent if value] == [100, 200, 400, 400]


def test_the_ladder_has_no_rung_below_the_ground() -> None:
    config = ControllerConfig(cooldown=5, relax_budget=2.0, clean_window=1)
    spent = tokens(config, [GOAL, *[QUIET] * 50, GOAL, CRITICAL])
    assert spent[51:] == [100, 200]


def test_calls_through_an_open_gate_do_not_climb() -> None:
    assert tokens(ControllerConfig(), [CRITICAL] * 5) == [100] * 5


def test_a_factor_of_one_relaxes_nothing() -> None:
    config = ControllerConfig(cooldown=99, relax_budget=1.0, relax_slo=1.0)
    assert set(budgets(config, [GOAL] + [CRITICAL] * 9, policy())) == {Budget("pruned", 100, 1000.0)}


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([CRITICAL, GOAL, QUIET]), max_size=40), st.integers(1, 5), st.integers(100, 900)
)
def test_a_budget_is_never_below_the_mode_s_nor_above_the_ceiling(
    signals: list[Signals], clean_window: int, ceiling: int
) -> None:
    config = ControllerConfig(cooldown=3, clean_window=clean_window, budget_max=ceiling, slo_max_ms=1700.0)
    for budget in budgets(config, [GOAL, *signals], policy()):
        if budget is not None:
            assert 100 <= (budget.tokens or 0) <= ceiling
            assert 1000.0 <= (budget.slo_ms or 0) <= 1700.0


@pytest.mark.parametrize("ceilings", [{}, {"budget_max": 4096, "slo_max_ms": 5000.0}])
def test_a_hazard_that_lasts_for_thousands_of_steps_does_not_break_the_arithmetic(
    ceilings: dict[str, float],
) -> None:
    config = ControllerConfig(cooldown=99, **ceilings)  # type: ignore[arg-type]
    last = budgets(config, [GOAL] + [CRITICAL] * 4000, policy())[-1]
    assert last is not None
    assert (last.tokens or 0) >= 4096
