"""Tables say exactly what the ledger's figures say, in every form."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_kit import call, end, phases, run_of, typical
from rich.console import Console

from brace.ledger.audits import suppression_audit
from brace.ledger.intervals import Estimate
from brace.ledger.metrics import latency_table, summarise
from brace.report.provenance import ranges, runs_table
from brace.report.rows import Column, Row, Table
from brace.report.tables import phase_table, summary_table, suppressed_table, worst_calls_table


def printed(table: Table, width: int = 100) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


def row(table: Table, name: str) -> tuple[object, ...]:
    return next(row.cells for row in table.rows if row.cells[0] == name)


def test_summary_holds_the_estimates_themselves(tmp_path: Path) -> None:
    run = typical(tmp_path)
    summary, table = summarise(run), summary_table({"a": run})
    names = {
        "success": "success", "latency P95": "latency_p95", "miss rate": "miss_rate", "churn": "churn",
        "tokens after": "tokens_after", "status: cut": "status.cut", "fallback: keep": "fallback.keep",
        "suppressed: cooldown": "suppressed.cooldown", "override: deadlock": "override.deadlock",
    }  # fmt: skip
    for shown, name in names.items():
        assert row(table, shown)[2] is not None
        assert row(table, shown)[2] == summary[name]
    occurred = {
        name for name, estimate in summary.items() if estimate.value and estimate.denominator != "run"
    }
    assert len(occurred) <= sum(isinstance(cells.cells[2], Estimate) for cells in table.rows)


def test_csv_holds_them_unrounded_in_the_unit_it_names(tmp_path: Path) -> None:
    run = typical(tmp_path)
    rows = {line["figure"]: line for line in csv.DictReader(io.StringIO(summary_table({"a": run}).csv()))}
    misses = summarise(run)["miss_rate"]
    assert misses.value is not None
    assert misses.lo is not None
    assert rows["miss rate"]["unit"] == "%"
    assert float(rows["miss rate"]["a"]) == 100 * misses.value == 50.0
    assert float(rows["miss rate"]["a lo"]) == 100 * misses.lo
    assert rows["miss rate"]["a n"] == "4"


def test_a_rate_is_printed_with_interval_unit_and_denominator(tmp_path: Path) -> None:
    text = summary_table({"a": typical(tmp_path)}).markdown()
    assert "| miss rate | % | 50 [15, 85] | calls with an SLO |" in text
    assert "| calls with an SLO |  | 4 |  |" in text


def test_terminal_shows_the_same_in_a_hundred_columns(tmp_path: Path) -> None:
    run = typical(tmp_path)
    text = printed(summary_table({"a": run, "b": run}))
    assert "50 [15, 85]" in text
    assert max(map(len, text.splitlines())) <= 100


def test_rare_rows_are_left_out_only_if_zero_in_every_run(tmp_path: Path) -> None:
    cut = run_of(tmp_path / "a", call(status="cut"), end())
    shed = run_of(tmp_path / "b", call(status="shed"), end())
    names = {cells.cells[0] for cells in summary_table({"cut": cut, "shed": shed}).rows}
    assert {"status: cut", "status: shed", "status: ok"} <= names
    assert not {"status: failed", "cached", "cached P50", "override: hazard"} & names
    assert "status: shed" not in {cells.cells[0] for cells in summary_table({"cut": cut}).rows}


def test_latency_kinds_are_printed_and_never_share_a_row(tmp_path: Path) -> None:
    run = run_of(
        tmp_path, call(0, kind="measured"), call(1, 5, kind="modelled", latency_ms=7.0), call(2, 9), end()
    )  # fmt: skip
    table = summary_table({"a": run})
    assert row(table, "latency kind")[2] == "measured, modelled"
    assert row(table, "latency P50: modelled")[2] == summarise(run)["latency_p50.modelled"]
    assert row(table, "executed calls (measured)")[2] == 2
    assert row(table, "executed calls (modelled)")[2] == 1


def test_what_the_reader_skipped_is_shown(tmp_path: Path) -> None:
    run_of(tmp_path, call(), end(), call(episode=1))
    shard = next(tmp_path.glob("shard-*"))
    shard.write_text(shard.read_text() + '{"type":"step","epis')
    run = run_of(tmp_path)
    text = " ".join(printed(summary_table({"a": run})).split())
    assert "a: " + run.notes[0] in text
    assert "torn" in text
    assert "unfinished and left out: episode 1" in text


def test_figures_of_the_world_are_means_over_finished_episodes(tmp_path: Path) -> None:
    stall = row(summary_table({"a": typical(tmp_path)}), "stall per episode")
    assert isinstance(stall[2], Estimate)
    assert (stall[2].value, stall[2].n, stall[3]) == (4.0, 2, "finished episodes")


def test_phase_table_holds_the_ledgers_rows(tmp_path: Path) -> None:
    run = typical(tmp_path)
    assert [cells.cells[:4] for cells in phase_table(run).rows] == [
        (line.phase, line.p50, line.p95, line.share) for line in latency_table(run)
    ]
    assert "measured" in phase_table(run).title


def test_worst_calls_say_where_the_time_went(tmp_path: Path) -> None:
    table = worst_calls_table(typical(tmp_path), 2)
    late, cut = (cells.cells for cells in table.rows)
    assert late[:8] == (0, 1, 5, 200.0, 120.0, "yes", "ok", None)
    assert cut[3:8] == (121.0, 120.0, "yes", "cut", "keep")
    assert late[8] == "replan.prefill 50 %"
    # 20 letters for 200 ms: 50 compress, 100 prefill, 50 decode; the SLO stands at 120 of them.
    assert late[9] == "ccccc" + "ppppppp" + "│" + "ppp" + "ddddd"
    assert "c context_compress" in table.legend[0]
    assert "queue" not in table.legend[0]


def test_time_that_no_phase_claims_is_shown_as_such(tmp_path: Path) -> None:
    run = run_of(tmp_path, call(latency_ms=200.0, slo_ms=None, phases=phases(100, 0, 0)), end())
    assert worst_calls_table(run, 1).rows[0].cells[-1] == "c" * 10 + "·" * 10


def test_suppressed_table_holds_the_audit(tmp_path: Path) -> None:
    run = typical(tmp_path)
    (audited, *_) = suppression_audit(run, 3)
    shown = suppressed_table(run, 3)
    assert shown.rows[0].cells == (
        "cooldown", 1, audited.share("recovered"), audited.share("harmless"), audited.share("harmful"),
        audited.share("override"),
    )  # fmt: skip
    assert "Within 3 steps" in shown.legend[1]


@pytest.mark.parametrize("make", [phase_table, worst_calls_table, suppressed_table])
def test_a_table_of_nothing_says_so(make: object, tmp_path: Path) -> None:
    table = make(run_of(tmp_path, end()))  # type: ignore[operator]
    assert not table.rows
    assert table.notes[0].startswith("no ")
    assert table.notes[0] in printed(table)


def test_no_form_obeys_what_a_ledger_says() -> None:
    table = Table("t", (Column("a"), Column("[red]b[/red]")), (Row(("x|y<z", "\x1b[2J[bold]w[/bold]")),))
    assert r"x\|y\<z" in table.markdown()
    assert "\x1b" not in table.markdown()
    assert "\x1b" not in printed(table)
    assert "[red]b[/red]" in printed(table)
    assert "[bold]w[/bold]" in printed(table)


def test_latex_has_rules_groups_and_intervals() -> None:
    table = Table(
        "Wait & see",
        (Column("figure"), Column("100 %", right=True), Column("where", code=True)),
        (
            Row(("lone", Estimate(0.5, 0.15, 0.85, 4, "share", "calls"), "a_b")),
            Row(("shift", Estimate(-3.0, -5.0, 2.0, 4, "ms", "calls"), None), "over #1"),
        ),
        ("[ ]: interval.",),
    )
    assert table.latex().splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{Wait \& see}",
        r"\begin{tabular}{lrl}",
        r"\toprule",
        r"figure & 100 \% & where \\",
        r"\midrule",
        r"lone & 50 {\scriptsize [15, 85]} & \texttt{a\_b} \\",
        r"\midrule",
        r"\multicolumn{3}{l}{\textbf{over \#1}} \\",
        r"shift & $-$3 {\scriptsize [$-$5, 2]} & \texttt{--} \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\smallskip{\footnotesize {[} {]}: interval.}",
        r"\end{table}",
    ]


OURS = re.compile(
    r"\\(textbackslash|textasciicircum|textasciitilde|textless|textgreater|textbar|textasciigrave|ldots|"
    r"textperiodcentered)\{\}|\\[{}$&#%_]|\{[][*]\}|\$(-|\\(rightarrow|geq|leq))\$"
)


@given(st.text(max_size=40))
def test_latex_obeys_nothing_that_is_said(words: str) -> None:
    cell = Table("t", (Column("c"),), (Row((words,)),)).latex().splitlines()[7].removesuffix(r" \\")
    assert not set(OURS.sub("", cell)) & set('\\{}$&#%_^~[]*|<>`"') - ({"`"} if "“" in words else set())
    assert cell.isprintable()


def test_provenance_names_what_a_figure_came_from(tmp_path: Path) -> None:
    facts = dict(cells.cells[:2] for cells in runs_table({"a": typical(tmp_path)}).rows)
    assert facts["commit"] == "abc123"
    assert facts["seeds"] == "7–8"
    assert facts["host"] == "a cpu, 2 cores"
    assert (facts["world"], facts["planner"], facts["latency kind"]) == ("w", "p", "measured")


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((3,), "3"), ((1, 2, 3), "1–3"), ((9, 1, 2, 5, 6), "1–2, 5–6, 9")]
)
def test_seed_lists_lose_nothing(numbers: tuple[int, ...], text: str) -> None:
    assert ranges(numbers) == text


def test_tables_do_not_load_matplotlib() -> None:
    program = "import sys, brace.report, brace.report.tables; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def narrow(width: int, figures: int) -> str:
    """A table with so many columns of figures, in a terminal that is so wide."""
    estimate = Estimate(0.123456, 0.111111, 0.222222, 30, "", "calls")
    table = Table(
        "wide",
        (Column("row"), *(Column(f"figure number {n}", right=True) for n in range(figures)), Column("")),
        (Row(("first", *[estimate] * figures, "a verdict in words")),),
        ("how to read it",),
    )
    return printed(table, width)


def test_a_table_that_fits_or_nearly_shows_its_intervals() -> None:
    assert "[0.111, 0.222]" in narrow(200, 4)
    assert "left out" not in narrow(60, 3)
    assert "a verdict in words" in narrow(200, 4)


def test_a_table_far_too_wide_leaves_out_intervals_and_says_so() -> None:
    shown = narrow(60, 6)
    assert "0.123" in shown
    assert "0.111" not in shown
    assert "Intervals are left out" in shown
    assert "how to read it" in shown


def test_what_still_does_not_fit_goes_by_whole_columns_and_is_named() -> None:
    shown = narrow(40, 8)
    assert all(len(line) <= 40 for line in shown.splitlines())
    assert "figure number 7" in " ".join(shown.split())
    numbers = [word for word in shown.split() if word.startswith("0.")]
    assert numbers
    assert set(numbers) == {"0.123"}
