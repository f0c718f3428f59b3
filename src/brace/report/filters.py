"""Filters of a page that has no script: a check box for each value of an axis, and CSS that obeys it."""

from __future__ import annotations

from collections.abc import Mapping

from brace.report import markup

Places = Mapping[str, Mapping[str, str]]
"""By label: the place of a run on each axis."""


class Filters:
    """The axes on which runs differ. What carries the classes of a value vanishes when its box is cleared."""

    def __init__(self, places: Places) -> None:
        self._places = places
        values: dict[str, dict[str, None]] = {}
        for of_run in places.values():
            for axis, value in of_run.items():
                values.setdefault(axis, {})[value] = None
        self._axes = {axis: list(found) for axis, found in values.items() if len(found) > 1}

    def at(self, place: Mapping[str, str]) -> str:
        """The classes of what belongs to this place."""
        return " ".join(
            f"of-{number}-{values.index(place[axis])}"
            for number, (axis, values) in enumerate(self._axes.items())
            if place.get(axis) in values
        )

    def of(self, *words: str) -> str:
        """The classes of what is called by these words: labels of runs, or values of axes.

        Of several values of one axis the first counts: a row of a method may name another it is held against.
        """
        place: dict[str, str] = {}
        for word in words:
            known = self._places.get(word) or {axis: word for axis, of in self._axes.items() if word in of}
            place = {**known, **place}
        return self.at(place)

    def form(self) -> str:
        """The check boxes, all checked, and a button that checks them all again."""
        if not self._axes:
            return ""
        groups = []
        for number, (axis, values) in enumerate(self._axes.items()):
            boxes = "".join(
                f'<label><input type="checkbox" id="pick-{number}-{place}" checked> '
                f"{markup.said(value)}</label>"
                for place, value in enumerate(values)
            )
            groups.append(f"<fieldset><legend>{markup.said(axis)}</legend>{boxes}</fieldset>")
        # Within no dialog a form of method dialog does nothing: Enter must not send it anywhere.
        return markup.folded(
            f"Filter by {', '.join(self._axes)}",
            f'<form method="dialog" autocomplete="off">{"".join(groups)}'
            '<button type="reset">Show all</button></form>',
            classes="filters",
        )

    def css(self) -> str:
        """One rule a box."""
        return "".join(
            f"body:has(#pick-{number}-{place}:not(:checked)) .of-{number}-{place} {{ display: none; }}\n"
            for number, values in enumerate(self._axes.values())
            for place in range(len(values))
        )
