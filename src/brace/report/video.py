"""A film of one episode: the world, what the planner was asked and answered, and the timeline below."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import polars as pl
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from brace.errors import BraceError, MissingExtraError
from brace.ledger.metrics import MISSED
from brace.ledger.reader import Run
from brace.report import style
from brace.report.timeline import outcome, timeline_figure

Picture = NDArray[np.uint8]

_HEIGHT = 420
"""Pixels of the world's picture."""
_PANEL = 460
"""Pixels of the text beside it."""
_SLOWEST, _FASTEST = 10, 30
"""Frames a second: real time where a viewer can follow it."""
_CURSOR = (212, 84, 27)


class Film:
    """Frames of one episode, kept on disk until it is over: only then is its timeline known."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._shape: tuple[int, ...] | None = None
        self.steps: list[int] = []

    def add(self, step: int, frame: Picture | None) -> None:
        """Keep the frame of a step."""
        if frame is None:
            raise BraceError("this world cannot be drawn: it has no frame()")
        if self._shape is None:
            self._shape = frame.shape
        if frame.shape != self._shape:
            raise BraceError(f"a world's frames must keep their size: {frame.shape}, before {self._shape}")
        self._file.write(np.ascontiguousarray(frame, np.uint8).tobytes())
        self.steps.append(step)

    def frames(self) -> Iterator[tuple[int, Picture]]:
        """The steps and their frames, from the first."""
        self._file.seek(0)
        shape = self._shape or ()
        for step in self.steps:
            data = self._file.read(int(np.prod(shape)))
            yield step, np.frombuffer(data, np.uint8).reshape(shape)

    def __enter__(self) -> Film:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def write_video(path: Path, film: Film, run: Run, episode: int, dt: float) -> None:
    """An mp4 (H.264) of the film with its timeline drawn in."""
    if not film.steps:
        raise BraceError("nothing was filmed: the episode had no step")
    try:
        import av  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise MissingExtraError("writing a video", "video") from error
    strip, places = _strip(run, episode, film.steps[-1])
    story = _Story(run, episode, dt)
    rate = round(min(_FASTEST, max(_SLOWEST, 1 / dt)))
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate)
        # What players can show; others of the encoder's formats many cannot.
        stream.pix_fmt = "yuv420p"
        stream.width, stream.height = strip.shape[1], _even(_HEIGHT) + strip.shape[0]
        for step, frame in film.frames():
            marked = strip.copy()
            marked[:, places[step] : places[step] + 2] = _CURSOR
            picture = np.concatenate([_upper(frame, story, step, strip.shape[1]), marked])
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                container.mux(packet)
        # The encoder holds some frames back until it is told that there are no more.
        for packet in stream.encode():
            container.mux(packet)


class _Story:
    """What the ledger says of each step, as a few lines of text."""

    def __init__(self, run: Run, episode: int, dt: float) -> None:
        self._dt = dt
        steps = run.steps.filter(pl.col("episode") == episode)
        self._steps = {row["t"]: row for row in steps.iter_rows(named=True)}
        calls = run.calls.filter(pl.col("episode") == episode).with_columns(missed=MISSED)
        self._calls = calls.to_dicts()
        record = run.episodes.filter(pl.col("episode") == episode).to_dicts()
        self._world = record[0]["world"] if record else ""
        self._success = bool(record and record[0]["success"])
        self._last = max(self._steps, default=0)

    def lines(self, t: int) -> Iterator[tuple[str, str]]:
        """(colour, text) from top to bottom."""
        yield "#20242a", f"{self._world}   step {t}   {t * self._dt:.1f} s"
        step = self._steps.get(t, {})
        yield style.GREEN, "triggers: " + (", ".join(step.get("triggers") or []) or "none")
        yield style.INK, "held back: " + (step.get("gate") or "nothing")
        running = [call for call in self._calls if call["t"] <= t < call["t_end"]]
        ended = [call for call in self._calls if call["t_end"] <= t]
        if running:
            call = running[-1]
            yield style.BLUE, f"the planner thinks: call {call['index']}, {call['tokens_after']} tokens read"
        elif ended:
            call = ended[-1]
            what = outcome(call["status"], call["missed"])
            fell = f", {call['fallback']}" if call["fallback"] else ""
            yield style.BLUE, f"call {call['index']}: {what}{fell}, {call['latency_ms']:.0f} ms"
        plans = [call["plan"] for call in ended if call["plan"]]
        yield "#20242a", "plan:"
        for line in plans[-1].split("\n") if plans else ["(none)"]:
            yield "#20242a", "  " + line
        if t >= self._last:
            yield (style.GREEN, "success") if self._success else (style.RED, "no success")


def _upper(frame: Picture, story: _Story, step: int, width: int) -> Picture:
    """The world's picture, and the text beside it."""
    image = Image.fromarray(frame)
    room = width - _PANEL
    scale = min(_HEIGHT / image.height, room / image.width)
    image = image.resize((round(image.width * scale), round(image.height * scale)))
    canvas = Image.new("RGB", (width, _even(_HEIGHT)), "white")
    canvas.paste(image, ((room - image.width) // 2, (_HEIGHT - image.height) // 2))
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(15)
    y = 12.0
    for colour, text in story.lines(step):
        for piece in _wrapped(text, 52):
            if y < _HEIGHT - 18:
                draw.text((room + 12, y), piece, fill=colour, font=font)
            y += 21
    return np.asarray(canvas, np.uint8)


def _wrapped(text: str, width: int) -> Iterator[str]:
    while len(text) > width:
        cut = text.rfind(" ", 1, width)
        cut = cut if cut > width // 2 else width
        yield text[:cut]
        text = "    " + text[cut:].lstrip()
    yield text


def _strip(run: Run, episode: int, last: int) -> tuple[Picture, dict[int, int]]:
    """The timeline as a picture, and the column of each step."""
    # All steps: every frame must have its place in it.
    figure, _ = timeline_figure(run, episode, most=last + 1)
    figure.set_facecolor("white")
    drawn = io.BytesIO()
    # At the figure's own resolution, in which the columns below are counted.
    figure.savefig(drawn, format="png", dpi=figure.dpi)
    strip = np.asarray(Image.open(drawn).convert("RGB"), np.uint8)
    strip = strip[: _even(strip.shape[0]), : _even(strip.shape[1])]
    axes = figure.axes[0]
    columns = {step: int(axes.transData.transform((step, 0))[0]) for step in range(last + 1)}
    return strip, columns


def _even(length: int) -> int:
    """H.264 wants even sides."""
    return length - length % 2
