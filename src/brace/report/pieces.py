"""What the page of runs and the page of a suite have in common: the frame around them, and some parts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import polars as pl

from brace.errors import BraceError
from brace.ledger.metrics import caveats
from brace.ledger.reader import Run
from brace.report import markup, plots, style, timeline
from brace.report.markup import Classify, unclassed
from brace.report.tables import remarks

Sections = Mapping[str, tuple[str, str]]
"""By anchor: heading and content."""
TIMELINES = (
    "Episodes with the most misses, fallbacks, overrides and cancellations, then the most triggers.",
    "A bar is a call, from the step that decided it to the step its plan arrived or was given up.",
)
"""How to read the timelines of a page."""


def document(
    title: str, lead: str, sections: Sections, policy: str, *, bar: str = "", more_css: str = ""
) -> str:
    """A whole page: a heading with links, then the sections. `policy` is its Content-Security-Policy.

    `bar` stands between them, so that it can stay in sight.
    """
    links = "".join(f'<a href="#{anchor}">{markup.said(name)}</a>' for anchor, (name, _) in sections.items())
    body = "".join(markup.section(anchor, name, content) for anchor, (name, content) in sections.items())
    css = resources.files("brace.report").joinpath("page.css").read_text(encoding="utf-8") + more_css
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{markup.said(title)}</title><style>{css}</style></head>\n"
        f"<body><header><h1>{markup.said(title)}</h1>{lead}<nav>{links}</nav></header>{bar}\n"
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
    return markup.figure(drawing, caption, lines, command, classes=classes)


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
    return markup.figure(strip + drawing, caption, lines, command, wide=True, classes=classes)


def notes(runs: Mapping[str, Run], classify: Classify = unclassed) -> str:
    """What was skipped or left out of each run."""
    lines = "".join(
        f"<li{markup.attribute(classify(label))}>"
        f"<strong>{markup.said(label)}</strong>: {markup.said(note)}</li>"
        for label, run in runs.items()
        for note in (*caveats(run), *remarks(run))
    )
    return f'<ul class="notes">{lines}</ul>' if lines else "<p>Nothing was skipped or left out.</p>"


def configs(runs: Mapping[str, Run], classify: Classify = unclassed) -> Iterator[str]:
    """The configuration of each run, folded."""
    for label, run in runs.items():
        config = json.dumps(run.manifest.config, indent=2, ensure_ascii=False)
        shown = f"<pre>{markup.said(config)}</pre>"
        yield markup.folded(f"Config of {label}", shown, classes=classify(label))
