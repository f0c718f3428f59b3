"""A call under way, for both loops: made here and now, or in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from brace.callpath import OpenCall
from brace.errors import ConfigError
from brace.plan import Plan

_LEAVE_S = 1.0
"""A cancelled call path returns at once; what may keep it is a compressor at work, for so long at most."""


class Flight:
    """From the decision to call until the plan is there."""

    def __init__(self, call: OpenCall, make: Callable[[OpenCall], object]) -> None:
        self.call = call
        self.arrives = 0
        """The step at whose beginning the plan is there, if that is known."""
        self.still_ms = 0.0
        """How long agents have stood still for want of it."""
        self._make = make
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def run(self) -> Flight:
        """Make the call here, and come back when it is made."""
        self._make(self.call)
        return self

    def start(self) -> Flight:
        """Make it in a thread of its own, and come back at once."""
        self._thread = threading.Thread(target=self._run_apart, daemon=True, name="brace call")
        self._thread.start()
        return self

    def poll(self, t: int) -> OpenCall | None:
        """The call once it has ended, asked at step `t`; None while it is under way."""
        if t < self.arrives or (self._thread is not None and self._thread.is_alive()):
            return None
        if self._error is not None:
            raise self._error
        return self.call

    def cancel(self, cause: str) -> OpenCall:
        """Call it off: whatever it brought, no plan comes of it."""
        self.call.deadline.cancel(cause)
        if self._thread is not None:
            self._thread.join(_LEAVE_S)
            if self._thread.is_alive():
                raise ConfigError(
                    f"a call could not be cancelled ({cause}): its compressor does not come back"
                )
        # For the error that may have ended it.
        self.poll(self.arrives)
        self.call.status, self.call.plan, self.call.error = "cancelled", Plan(), f"cancelled: {cause}"
        return self.call

    def _run_apart(self) -> None:
        try:
            self._make(self.call)
        except Exception as error:  # noqa: BLE001 - raised again where the call is polled
            self._error = error
