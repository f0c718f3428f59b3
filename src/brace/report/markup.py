"""The pieces of the page as HTML. Whatever comes from a ledger passes through `escape` here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from brace.ledger.intervals import NONE, Estimate
from brace.report.rows import Cell, Column, Table, clean, parts, printed, text


def said(words: str) -> str:
    """Text of unknown origin, safe between tags and in quoted attributes. Line breaks stay."""
    return escape("\n".join(map(clean, words.expandtabs(4).splitlines())))


def table(content: Table, *, caption: str = "") -> str:
    """A table in a box of its own that scrolls when the screen is narrower."""
    head = "".join(
        f'<th scope="col"{_class(column)}>{said(column.header)}</th>' for column in content.columns
    )
    bodies = []
    for group, rows in content.groups():
        lines = []
        if group:
            span = len(content.columns)
            lines.append(f'<tr class="group"><th scope="rowgroup" colspan="{span}">{said(group)}</th></tr>')
        for row in rows:
            first, *rest = zip(row.cells, content.columns, strict=True)
            cells = "".join(f"<td{_class(column)}>{_cell(cell, column)}</td>" for cell, column in rest)
            lines.append(f'<tr><th scope="row"{_class(first[1])}>{_cell(*first)}</th>{cells}</tr>')
        bodies.append(f"<tbody>{''.join(lines)}</tbody>")
    shown = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{said(caption or content.title)}">'
        f"<table><thead><tr>{head}</tr></thead>{''.join(bodies)}</table></div>"
    )
    return (shown if content.rows else "") + remarks((*content.legend, *content.notes))


def remarks(lines: Iterable[str]) -> str:
    """Small print."""
    return "".join(f'<p class="small">{said(line)}</p>' for line in lines)


def figure(drawing: str, caption: str, lines: Iterable[str], command: str, *, wide: bool = False) -> str:
    """A drawing with its caption, what must be known of it, and the command that makes it."""
    return (
        f"<figure{' class=wide' if wide else ''}><figcaption>{said(caption)}</figcaption>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{said(caption)}">{drawing}</div>'
        f'{remarks(lines)}<p class="small">made by <code>{said(command)}</code></p></figure>'
    )


def card(title: str, found: Mapping[str, Estimate]) -> str:
    """One headline figure, a line a run."""
    lines = "".join(
        f"<dt>{said(label)}</dt><dd>{_figure(estimate, None, unit=True)}</dd>"
        for label, estimate in found.items()
    )
    over = ", ".join(dict.fromkeys(estimate.denominator for estimate in found.values()))
    head, foot = f"<h3>{said(title)}</h3>", f'<p class="small">over {said(over)}</p>'
    return f'<div class="card">{head}<dl>{lines}</dl>{foot}</div>'


def section(anchor: str, title: str, *content: str) -> str:
    """A part of the page that can be linked to."""
    return f'<section id="{anchor}"><h2>{said(title)}</h2>{"".join(content)}</section>'


def folded(title: str, *content: str) -> str:
    """What only some readers want."""
    return f"<details><summary>{said(title)}</summary>{''.join(content)}</details>"


def _class(column: Column) -> str:
    names = [name for name, wanted in (("right", column.right), ("code", column.code)) if wanted]
    return f' class="{" ".join(names)}"' if names else ""


def _cell(cell: Cell, column: Column) -> str:
    return _figure(cell, column.decimals) if isinstance(cell, Estimate) else said(text(cell, column))


def _figure(estimate: Estimate, decimals: int | None, *, unit: bool = False) -> str:
    value, interval = parts(estimate, decimals)
    named = f'<span class="unit"> {said(printed(estimate).unit)}</span>' if unit and value != NONE else ""
    small = f' <span class="interval">{interval}</span>' if interval else ""
    return f'<span class="value">{value}{named}</span>{small}'
