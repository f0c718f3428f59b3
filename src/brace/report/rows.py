"""One small model of a table, and its plain forms: terminal, Markdown, LaTeX, CSV. The page has one more."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from rich import box
from rich import table as rich_table
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.text import Text

from brace.ledger.intervals import NONE, SHARE, Estimate

_TEX_SIGNS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
    "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "`": r"\textasciigrave{}",
    "[": "{[}", "]": "{]}", "*": "{*}",  # at the start of a row they would be an option of the last one's end
    "–": "--", "…": r"\ldots{}", "“": "``", "”": "''", "−": "$-$", "→": r"$\rightarrow$", "≥": r"$\geq$",
    "≤": r"$\leq$", "·": r"\textperiodcentered{}", "│": r"\textbar{}", "\N{REPLACEMENT CHARACTER}": "?",
}  # fmt: skip
"""Also the signs of our own tables that pdfLaTeX cannot read as they are."""
_MINUS = re.compile(r"-(?=\d)")

_ANY_WIDTH = 10_000
_MOST_FOLDED = 2.5
"""A table that is so many times as wide as the terminal is unreadable when its cells are folded to fit."""

Cell = str | int | float | Estimate | None
"""None is printed as a dash: there is no such figure."""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and how the cells beneath it are set."""

    header: str
    right: bool = False
    decimals: int | None = None
    """Of floats exactly so many; of figures, which show three digits that matter, at most so many."""
    code: bool = False
    """Set in a fixed-width face where there is a choice."""


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of one line, and the heading it stands under (rows of a group follow each other)."""

    cells: tuple[Cell, ...]
    group: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """What is shown, before it is known where. Printing it with rich shows it in the terminal."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    legend: tuple[str, ...] = ()
    """How to read it."""
    notes: tuple[str, ...] = ()
    """What is missing from it, and why."""

    def groups(self) -> Iterator[tuple[str, list[Row]]]:
        """The rows, heading by heading."""
        gathered: dict[str, list[Row]] = {}
        for row in self.rows:
            gathered.setdefault(row.group, []).append(row)
        yield from gathered.items()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        every = list(range(len(self.columns)))
        shown = self._in_terminal(every, self.legend)
        # Measured as if there were room: else rich would answer with the terminal's own width.
        wide = options.update(width=_ANY_WIDTH)
        wanted = shown.__rich_measure__(console, wide).maximum
        if wanted <= _MOST_FOLDED * options.max_width:
            yield shown
            return
        there = [index for index in every if self.columns[index].header]
        legend = (*self.legend, f"Intervals are left out: all of it is {wanted} characters wide.")
        shown = self._in_terminal(there, legend, short=True)
        while len(there) > 1 and shown.__rich_measure__(console, wide).maximum > options.max_width:
            # Half a number would be another number, so whole columns go.
            there.pop()
            gone = ", ".join(column.header for column in self.columns[there[-1] + 1 :] if column.header)
            shown = self._in_terminal(there, (*legend, f"So are: {gone}."), short=True)
        yield shown

    def _in_terminal(
        self, there: list[int], legend: tuple[str, ...], *, short: bool = False
    ) -> rich_table.Table:
        """Of the columns those that are `there`; `short`: without intervals, and only headings are folded."""
        shown = rich_table.Table(
            title=Text(clean(self.title), style="bold"), title_justify="left", box=box.SIMPLE_HEAD,
            caption=Text("\n".join(map(clean, (*legend, *self.notes))), style="dim"),
            caption_justify="left", pad_edge=False, padding=(0, 1, 0, 0),
        )  # fmt: skip
        for column in (self.columns[index] for index in there):
            # Text, not str: a label with [brackets] is no markup.
            justify: JustifyMethod = "right" if column.right else "left"
            header = clean(column.header)
            shown.add_column(
                Text(header.replace(" ", "\n") if short else header),
                justify=justify, overflow="fold", no_wrap=column.code or short,
            )  # fmt: skip
        for group, rows in self.groups():
            shown.add_section()
            if group:
                shown.add_row(Text(clean(group), style="bold"))
            for row in rows:
                shown.add_row(*(_rich_cell(row.cells[n], self.columns[n], short) for n in there))
        return shown

    def markdown(self) -> str:
        """A GitHub table with its legend and notes as a list beneath."""
        lines = [
            f"**{_escaped(self.title)}**",
            "",
            _piped(column.header for column in self.columns),
            _piped("---:" if column.right else "---" for column in self.columns),
        ]
        for group, rows in self.groups():
            if group:
                lines.append(_piped([f"**{group}**", *[""] * (len(self.columns) - 1)]))
            lines += [_piped(map(text, row.cells, self.columns)) for row in rows]
        if self.legend or self.notes:
            lines += ["", *(f"- {_escaped(line)}" for line in (*self.legend, *self.notes))]
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        """A `table` for a paper, which needs the package booktabs; legend and notes stand beneath it."""
        sides = "".join("r" if column.right else "l" for column in self.columns)
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_tex(self.title)}}}",
            rf"\begin{{tabular}}{{{sides}}}",
            r"\toprule",
            _ruled(_tex(column.header) for column in self.columns),
        ]
        for group, rows in self.groups():
            lines.append(r"\midrule")
            if group:
                lines.append(rf"\multicolumn{{{len(sides)}}}{{l}}{{\textbf{{{_tex(group)}}}}} \\")
            lines += [_ruled(map(_tex_cell, row.cells, self.columns)) for row in rows]
        lines += [r"\bottomrule", r"\end{tabular}"]
        lines += [rf"\par\smallskip{{\footnotesize {_tex(line)}}}" for line in (*self.legend, *self.notes)]
        return "\n".join([*lines, r"\end{table}"]) + "\n"

    def csv(self) -> str:
        """The same rows unrounded; a column of figures becomes four: value, lo, hi (the 95 % interval), n."""
        grouped = any(row.group for row in self.rows)
        figures = [
            any(isinstance(row.cells[index], Estimate) for row in self.rows)
            for index in range(len(self.columns))
        ]
        header = ["group"] if grouped else []
        for column, is_figure in zip(self.columns, figures, strict=True):
            suffixes = ("", " lo", " hi", " n") if is_figure else ("",)
            header += [column.header + suffix for suffix in suffixes]
        target = io.StringIO()
        writer = csv.writer(target, lineterminator="\n")
        writer.writerow(header)
        for row in self.rows:
            cells: list[object] = [row.group] if grouped else []
            for cell, is_figure in zip(row.cells, figures, strict=True):
                if isinstance(cell, Estimate):
                    figure = printed(cell)
                    cells += [figure.value, figure.lo, figure.hi, figure.n]
                else:
                    cells += [cell, "", "", ""] if is_figure else [cell]
            writer.writerow(cells)
        return target.getvalue()


def printed(estimate: Estimate) -> Estimate:
    """The figure in the unit it is printed in: shares in per cent."""
    if estimate.unit != SHARE:
        return estimate
    value, lo, hi = (
        None if x is None else 100 * x for x in (estimate.value, estimate.lo, estimate.hi)
    )  # fmt: skip
    return replace(estimate, value=value, lo=lo, hi=hi, unit="%")


def parts(estimate: Estimate, decimals: int | None = None) -> tuple[str, str]:
    """The value and its interval as printed, without the unit, rounded as the ledger rounds."""
    bare = replace(printed(estimate), unit="")
    if decimals is not None:
        value, lo, hi = (None if x is None else round(x, decimals) for x in (bare.value, bare.lo, bare.hi))
        bare = replace(bare, value=value, lo=lo, hi=hi)
    # As an estimate prints itself, so that a figure is rounded alike wherever it stands.
    alone = str(replace(bare, lo=None, hi=None))
    return alone, str(bare).removeprefix(alone).strip()


def text(cell: Cell, column: Column) -> str:
    """A cell as plain text; a table names the unit of its figures elsewhere."""
    if cell is None:
        return NONE
    if isinstance(cell, Estimate):
        return " ".join(parts(cell, column.decimals)).strip()
    if isinstance(cell, float):
        return number(cell) if column.decimals is None else f"{cell:.{column.decimals}f}"
    return clean(str(cell))


def number(value: float) -> str:
    """A plain number, rounded as the ledger rounds."""
    return str(Estimate(value, None, None, 1, "", ""))


def clean(words: str) -> str:
    """Without what a terminal might obey: what comes from a ledger may hold escape codes."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in words)


def _rich_cell(cell: Cell, column: Column, short: bool) -> Text:
    if isinstance(cell, Estimate):
        value, interval = parts(cell, column.decimals)
        return Text.assemble(value, (f" {interval}" if interval and not short else "", "dim"))
    return Text(text(cell, column))


def _tex_cell(cell: Cell, column: Column) -> str:
    if isinstance(cell, Estimate):
        return _tex_figure(*parts(cell, column.decimals))
    if isinstance(cell, int | float):
        return _tex_figure(text(cell, column))
    shown = _tex(text(cell, column))
    return rf"\texttt{{{shown}}}" if column.code else shown


def _tex(words: str) -> str:
    """Text of unknown origin as LaTeX that prints it, and never obeys it."""
    return "".join(_TEX_SIGNS.get(char, char) for char in clean(words))


def _tex_figure(value: str, interval: str = "") -> str:
    """A figure, its interval small beside it, with true minus signs."""
    small = rf" {{\scriptsize {interval}}}" if interval else ""
    return _MINUS.sub("$-$", _tex(value) + small)


def _ruled(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _piped(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _escaped(words: str) -> str:
    # The backslash first: those that are put in after it must stay single.
    for char in "\\|<":
        words = words.replace(char, f"\\{char}")
    return clean(words)
