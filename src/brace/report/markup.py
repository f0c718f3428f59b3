"""The pieces of pages as HTML. Whatever comes from a ledger passes through `escape` here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path

import polars as pl

from brace.errors import BraceError
from brace.ledger.intervals import NONE, Estimate
from brace.ledger.metrics import caveats
from brace.ledger.reader import Run
from brace.report import plots, style, timeline
from brace.report.rows import Cell, Column, Table, clean, parts, printed, text
from brace.report.tables import remarks as remarks_on

Sections = Mapping[str, tuple[str, str]]
"""By anchor: heading and content."""
TIMELINES = (
    "Episodes with the most misses, fallbacks, overrides and cancellations, then the most triggers.",
    "A bar is a call, from the step that decided it to the step its plan arrived or was given up.",
)
"""How to read the timelines of a page."""
Classify = Callable[..., str]
"""From words to the classes by which a filter finds what stands for them."""


def unclassed(*_: str) -> str:
    """For a page without filters."""
    return ""


def said(words: str) -> str:
    """Text of unknown origin, safe between tags and in quoted attributes. Line breaks stay."""
    # Tabs and line breaks first, for `clean` takes them for what a terminal might obey.
    return escape("\n".join(map(clean, words.expandtabs(4).splitlines())))


def table(content: Table, *, caption: str = "", classify: Classify = unclassed) -> str:
    """A table in a box of its own that scrolls when the screen is narrower.

    A row is classed by the words in its cells and by its group, a column by its heading.
    """
    styles = [
        attribute("right" * column.right, "code" * column.code, classify(column.header))
        for column in content.columns
    ]
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
            classes = classify(row.group, *(cell for cell in row.cells if isinstance(cell, str)))
            lines.append(f"<tr{attribute(classes)}>{named}{cells}</tr>")
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


def _cell(cell: Cell, column: Column) -> str:
    return _figure(cell, column.decimals) if isinstance(cell, Estimate) else said(text(cell, column))


def _figure(estimate: Estimate, decimals: int | None, *, unit: bool = False) -> str:
    value, interval = parts(estimate, decimals)
    named = f'<span class="unit"> {said(printed(estimate).unit)}</span>' if unit and value != NONE else ""
    small = f' <span class="interval">{interval}</span>' if interval else ""
    return f'<span class="value">{value}{named}</span>{small}'


def document(
    title: str, lead: str, sections: Sections, policy: str, *, bar: str = "", more_css: str = ""
) -> str:
    """A whole page: a heading with links, then the sections. `policy` is its Content-Security-Policy.

    `bar` stands between them, so that it can stay in sight.
    """
    links = "".join(f'<a href="#{anchor}">{said(name)}</a>' for anchor, (name, _) in sections.items())
    body = "".join(section(anchor, name, content) for anchor, (name, content) in sections.items())
    css = resources.files("brace.report").joinpath("page.css").read_text(encoding="utf-8") + more_css
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{said(title)}</title><style>{css}</style></head>\n"
        f"<body><header><h1>{said(title)}</h1>{lead}<nav>{links}</nav></header>{bar}\n"
        f"<main>{body}</main></body></html>\n"
    )


def write(target: Path, page: str) -> Path:
    """Write a page, or say why it cannot be written."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BraceError(f"cannot write the page {target}: {error.strerror}") from error
    return target


@dataclass(frozen=True)
class Plot:
    """A plot of runs side by side, and how a reader is to take it."""

    caption: str
    line: str
    draw: Callable[..., list[str]]
    bars: bool = False
    """A bar a run: its height grows with the runs. Else it has points, which can be thinned."""

    def height(self, runs: Mapping[str, Run]) -> float:
        """Inches."""
        if self.bars:
            return 1.2 + 0.55 * len(plots.series(runs))
        return 3.1 + style.KEY_ROW * plots.key_rows(runs)


PLOTS = {
    "cdf": Plot(
        "How many calls were done within a time",
        "A call cut at its deadline ends there: the line of its run rises at the SLO.",
        plots.latency_cdf,
    ),
    "tokens": Plot(
        "Tokens and latency",
        "One mark a call. Faint: the same call at the tokens of its uncut prompt.",
        plots.tokens_scatter,
    ),
    "phases": Plot(
        "Where the time of a call goes",
        "Mean ms of each phase over executed calls, with the step's own phases before the call.",
        plots.phase_stack,
        bars=True,
    ),
}


def plot_of(
    kind: str,
    runs: Mapping[str, Run],
    command: str,
    *,
    most: int = plots.MOST_POINTS,
    number: str = "",
    of: str = "",
    classes: str = "",
    marked: Mapping[str, str] | None = None,
) -> str:
    """One of `PLOTS` with at most `most` points; `of` says of what, and `number` tells it from others.

    `classes` are those of the figure, `marked` those of its runs by mark.
    """
    plot = PLOTS[kind]
    caption = f"{plot.caption}: {of}" if of else plot.caption
    picture, axes = style.blank(plot.height(runs))
    lines = [plot.line, *plot.draw(axes, runs, **({} if plot.bars else {"most": most}))]
    if shed := sum(run.calls.filter(pl.col("status") == "shed").height for run in runs.values()):
        lines.append(f"{shed} shed calls have no latency and are not drawn")
    drawing = style.svg(picture, f"{kind}{number}", caption, marked)
    return figure(drawing, caption, lines, command, classes=classes)


def timeline_of(
    run: Run, label: str, name: str, episode: int, command: str, *, strip: str = "", classes: str = ""
) -> str:
    """The timeline of an episode and what became of it; `strip`, if any, shows the world above it."""
    picture, lines = timeline.timeline_figure(run, episode)
    caption = f"{label}, episode {episode}"
    ends = run.episodes.filter(pl.col("episode") == episode)
    for seed, success, steps in ends.select("seed", "success", "steps").iter_rows():
        judged = {True: "success", False: "no success", None: "not judged"}[success]
        caption = f"{caption} (seed {seed}): {judged} after {steps} steps"
    drawing = style.svg(picture, name, f"Timeline of {caption}")
    return figure(strip + drawing, caption, lines, command, wide=True, classes=classes)


def notes(runs: Mapping[str, Run], classify: Classify = unclassed) -> str:
    """What was skipped or left out of each run."""
    lines = "".join(
        f"<li{attribute(classify(label))}><strong>{said(label)}</strong>: {said(note)}</li>"
        for label, run in runs.items()
        for note in (*caveats(run), *remarks_on(run))
    )
    return f'<ul class="notes">{lines}</ul>' if lines else "<p>Nothing was skipped or left out.</p>"


def configs(runs: Mapping[str, Run], classify: Classify = unclassed) -> Iterator[str]:
    """The configuration of each run, folded."""
    for label, run in runs.items():
        config = json.dumps(run.manifest.config, indent=2, ensure_ascii=False)
        shown = f"<pre>{said(config)}</pre>"
        yield folded(f"Config of {label}", shown, classes=classify(label))
