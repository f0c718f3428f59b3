"""The pieces of the page as HTML. Whatever comes from a ledger passes through `escape` here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from html import escape

from brace.ledger.intervals import NONE, Estimate
from brace.report.rows import Cell, Column, Row, Table, clean, parts, printed, text

Classify = Callable[..., str]
"""From words to the classes by which a filter finds what stands for them."""


def unclassed(*_: str) -> str:
    """For a page without filters."""
    return ""


def said(words: str) -> str:
    """Text of unknown origin, safe between tags and in quoted attributes. Line breaks stay."""
    return escape("\n".join(map(clean, words.expandtabs(4).splitlines())))


def table(content: Table, *, caption: str = "", classify: Classify = unclassed) -> str:
    """A table in a box of its own that scrolls when the screen is narrower.

    A row is classed by the words in its cells and by its group, a column by its heading.
    """
    styles = [_class(column, classify) for column in content.columns]
    head = "".join(
        f'<th scope="col"{style}>{said(column.header)}</th>'
        for style, column in zip(styles, content.columns, strict=True)
    )
    bodies = []
    for group, rows in content.groups():
        lines = []
        if group:
            span = len(content.columns)
            heading = f'<th scope="rowgroup" colspan="{span}">{said(group)}</th>'
            lines.append(f"<tr{attribute('group', classify(group))}>{heading}</tr>")
        for row in rows:
            first, *rest = zip(row.cells, content.columns, styles, strict=True)
            cells = "".join(f"<td{style}>{_cell(cell, column)}</td>" for cell, column, style in rest)
            named = f'<th scope="row"{first[2]}>{_cell(*first[:2])}</th>'
            lines.append(f"<tr{attribute(_classes(row, classify))}>{named}{cells}</tr>")
        bodies.append(f"<tbody>{''.join(lines)}</tbody>")
    shown = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{said(caption or content.title)}">'
        f"<table><thead><tr>{head}</tr></thead>{''.join(bodies)}</table></div>"
    )
    return (shown if content.rows else "") + remarks((*content.legend, *content.notes))


def remarks(lines: Iterable[str]) -> str:
    """Small print."""
    return "".join(f'<p class="small">{said(line)}</p>' for line in lines)


def attribute(*classes: str) -> str:
    """The class attribute, if there is any class."""
    named = " ".join(name for name in classes if name)
    return f' class="{named}"' if named else ""


def figure(
    drawing: str, caption: str, lines: Iterable[str], command: str, *, wide: bool = False, classes: str = ""
) -> str:
    """A drawing with its caption, what must be known of it, and the command that makes it."""
    return (
        f"<figure{attribute('wide' if wide else '', classes)}><figcaption>{said(caption)}</figcaption>"
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


def folded(title: str, *content: str, classes: str = "", unfolded: bool = False) -> str:
    """What only some readers want."""
    opening = f"<details{' open' if unfolded else ''}{attribute(classes)}>"
    return f"{opening}<summary>{said(title)}</summary>{''.join(content)}</details>"


def _class(column: Column, classify: Classify) -> str:
    names = [name for name, wanted in (("right", column.right), ("code", column.code)) if wanted]
    return attribute(*names, classify(column.header))


def _classes(row: Row, classify: Classify) -> str:
    return classify(row.group, *(cell for cell in row.cells if isinstance(cell, str)))


def _cell(cell: Cell, column: Column) -> str:
    return _figure(cell, column.decimals) if isinstance(cell, Estimate) else said(text(cell, column))


def _figure(estimate: Estimate, decimals: int | None, *, unit: bool = False) -> str:
    value, interval = parts(estimate, decimals)
    named = f'<span class="unit"> {said(printed(estimate).unit)}</span>' if unit and value != NONE else ""
    small = f' <span class="interval">{interval}</span>' if interval else ""
    return f'<span class="value">{value}{named}</span>{small}'
