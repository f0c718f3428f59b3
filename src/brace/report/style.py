"""How figures look, and how one becomes a piece of a page: mid-tones that hold on light and on dark."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from brace.report.rows import clean

INK = "#7c7f84"
"""Text and axes: between black and white, and on a page replaced by the colour of its text."""
_BLACK = "#26282c"
BLUE, ORANGE, GREEN, PURPLE, RED, SKY, OLIVE = (
    "#2e86c9", "#d98e04", "#2f9e77", "#b8659b", "#d4541b", "#73b8e6", "#8f8a2d",
)  # fmt: skip
"""After Okabe and Ito, so that no common colour blindness merges two of them."""
RUN_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, OLIVE, RED, SKY)
WIDTH = 5.6
"""Inches: at this width a phone shows the lettering at about the size it was set."""
KEY_ROW = 0.2
"""Inches that a line of a key takes above the axes."""
STYLE: dict[Any, Any] = {
    "font.size": 10.0,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK,
    "xtick.color": INK, "ytick.color": INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.8,
    "axes.axisbelow": True, "legend.frameon": False,
    # Letters stay letters: lighter than outlines, and set in the face of the page.
    "svg.fonttype": "none",
    "text.parse_math": False,  # a run may be called $HOME
}  # fmt: skip
_JOINTS = re.compile(r"__|/")
_LONGEST = 44
_ROOM = {3: 17, 2: 30}  # letters of a name, where so many stand beside each other
_FRACTION = re.compile(r"(\.\d\d)\d+")
_FACE = re.compile(r"(?:font: |font-size: )([\d.]+px)(?:; font-family:)? [^;]*;")
_REFERENCE = re.compile(r"#([\w-]+)")


def colour(position: int) -> str:
    """The colour of the run at this position."""
    return RUN_COLOURS[position % len(RUN_COLOURS)]


def dashes(position: int) -> str:
    """The line of the run at this position: solid until the colours are used up."""
    return ("-", "--", ":", "-.")[position // len(RUN_COLOURS) % 4]


@mpl.rc_context(STYLE)
def blank(height: float, width: float = WIDTH) -> tuple[Figure, Axes]:
    """An empty figure without a background, and its axes."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="none")
    return figure, figure.add_subplot(facecolor="none")


@mpl.rc_context(STYLE)
def stacked(heights: Sequence[float], width: float = WIDTH) -> tuple[Figure, list[Axes]]:
    """An empty figure of axes beneath each other."""
    figure = Figure(figsize=(width, sum(heights)), layout="constrained", facecolor="none")
    axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    for one in axes:
        one.set_facecolor("none")
    return figure, list(axes)


def print_on_white(figure: Figure) -> None:
    """For a picture that stands alone: a white ground, and letters that are read on it."""
    figure.set_facecolor("white")
    for words in figure.findobj(Text):
        if words.get_color() == INK:
            words.set_color(_BLACK)
    for line in figure.findobj(Line2D):
        if line.get_color() == INK:
            line.set_color(_BLACK)
        if line.get_markeredgecolor() == INK:
            line.set_markeredgecolor(_BLACK)


def grid(axes: Axes, axis: str) -> None:
    """Faint lines to read values by."""
    axes.grid(axis="x" if axis == "x" else "y", color=INK, alpha=0.25, linewidth=0.6)


def key_rows(names: Sequence[str]) -> int:
    """How many lines a key of these names takes above its axes."""
    return -(-len(names) // _beside(names))


def _beside(names: Sequence[str]) -> int:
    """How many names go beside each other."""
    longest = max(map(len, names), default=0)
    return min(len(names) or 1, next((n for n, room in _ROOM.items() if longest <= room), 1))


def series_mark(position: int) -> str:
    """What marks all that is drawn of the run at this position, so that a page can hide it (see `svg`)."""
    return f"series-{position}"


def key(
    axes: Axes, handles: Sequence[Line2D | Patch], names: Sequence[str], positions: Sequence[int] = ()
) -> None:
    """What the marks mean, above the axes: beside each other if short, else beneath each other.

    The first entries stand for the runs at `positions`.
    """
    legend = axes.legend(
        handles, names, loc="lower left", bbox_to_anchor=(0, 1.0), borderpad=0, handlelength=1.2,
        ncols=_beside(names), columnspacing=1.2, handletextpad=0.5,
    )  # fmt: skip
    for position, handle, words in zip(positions, legend.legend_handles, legend.get_texts(), strict=False):
        words.set_gid(series_mark(position))
        if handle is not None:
            handle.set_gid(series_mark(position))


def nothing(axes: Axes, why: str) -> None:
    """Say why there is nothing to see."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, why, ha="center", va="center", transform=axes.transAxes)


def short_names(labels: Iterable[str]) -> dict[str, str]:
    """Names that fit into a figure: of long ones first the parts that all share go, then the middle.

    Where a middle went, names begin with the place of their run, so that no two are alike.
    """
    full = list(labels)
    pieces = {label: _JOINTS.split(label) for label in full}
    shared = set.intersection(*map(set, pieces.values())) if len(full) > 1 else set()
    names = {label: clean(label) for label in full}
    for label in full:
        if len(label) > _LONGEST:
            names[label] = clean(" ".join(piece for piece in pieces[label] if piece not in shared) or label)
    if max(map(len, names.values()), default=0) > _LONGEST or len(set(names.values())) < len(full):
        half = _LONGEST // 2 - 1
        names = {
            label: f"{place}: " + (name if len(name) <= _LONGEST else f"{name[:half]}…{name[-half:]}")
            for place, (label, name) in enumerate(names.items(), start=1)
        }
    # matplotlib leaves names that begin with an underscore out of legends.
    return {label: f" {name}" if name.startswith("_") else name for label, name in names.items()}


def svg(figure: Figure, name: str, description: str, classes: Mapping[str, str] | None = None) -> str:
    """The figure as an `<svg>` to be put into a page. `name` keeps its ids apart from other figures'.

    `classes` are those of what was drawn with a mark (`series_mark`) as its gid.
    """
    target = io.StringIO()
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        # The reader's browser has the glyphs that the measuring font may lack.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        # Without the date the same run gives the same page.
        figure.savefig(target, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(target.getvalue())  # noqa: S314 - matplotlib wrote it just now
    for metadata in [child for child in root if child.tag.endswith("metadata")]:
        root.remove(metadata)
    referenced = set(_REFERENCE.findall(ElementTree.tostring(root, encoding="unicode")))
    for element in root.iter():
        _embed(element, referenced, classes or {})
    for group in root.iter("g"):
        # A style that all members repeat is said once: half the weight of a scatter plot.
        styles = {member.get("style") for member in group}
        if len(group) > 1 and len(styles) == 1 and None not in styles and "style" not in group.attrib:
            group.set("style", str(styles.pop()))
            for member in group:
                del member.attrib["style"]
    for fixed in ("width", "height"):
        root.attrib.pop(fixed, None)  # the page decides; the viewBox keeps the shape
    root.attrib |= {"role": "img", "aria-label": clean(description), "class": name.partition("-")[0]}
    return ElementTree.tostring(root, encoding="unicode")


def _embed(element: ElementTree.Element, referenced: set[str], classes: Mapping[str, str]) -> None:
    """Without namespaces, unused ids and needless digits, in the colours and the face of the page."""
    element.tag = element.tag.rpartition("}")[2]
    attributes = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
    if names := classes.get(attributes.get("id", "")):
        attributes["class"] = names
    if attributes.get("id") not in referenced:
        attributes.pop("id", None)
    for name in ("d", "x", "y", "transform"):
        if name in attributes:
            attributes[name] = _FRACTION.sub(r"\1", attributes[name])
    if "style" in attributes:
        style = attributes["style"].replace(INK, "currentColor")
        attributes["style"] = _FACE.sub(r"font-size: \1;", style)
    element.attrib.clear()
    element.attrib.update(attributes)
