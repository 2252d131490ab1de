"""A progress bar on stderr for work that takes longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

#: Called with the fraction of the work that is done.
ProgressCallback = Callable[[float], object]


class _ProgressBar:
    """One line that is rewritten: a bar, the fraction done, and the time left."""

    _DELAY = 2.0  # seconds before anything is shown
    _WIDTH = 24

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._shown = ""
        self._notebook_output: Any = None

    def __call__(self, fraction: float) -> None:
        elapsed = time.monotonic() - self._start
        if elapsed < self._DELAY:
            return
        done = int(self._WIDTH * fraction)
        left = f", {elapsed / fraction - elapsed:.0f} s left" if 0.02 < fraction < 1.0 else ""
        bar = "█" * done + "░" * (self._WIDTH - done)
        line = f"{bar} {fraction:4.0%}  {elapsed:.0f} s elapsed{left}"
        if line != self._shown:
            self._write(line)
            self._shown = line

    def finish(self, complete: bool) -> None:
        """Clear the line. An output of a notebook cannot be removed, so there the bar stays."""
        if not self._shown:
            return
        if not _in_notebook():
            self._write("")
        elif complete:
            self(1.0)

    def _write(self, line: str) -> None:
        if _in_notebook():
            content = {"text/plain": line}
            if self._notebook_output is None:
                import IPython.display

                display: Any = IPython.display.display
                self._notebook_output = display(content, raw=True, display_id=True)
            else:
                self._notebook_output.update(content, raw=True)
            return
        end = "" if line else "\r"
        sys.stderr.write("\r" + line.ljust(len(self._shown)) + end)
        sys.stderr.flush()


class progress_callback:
    """Context manager that returns the callback for a ``progress`` argument.

    True shows a progress bar, False shows none, and a function is called; its last value is 1. None
    shows the bar on a terminal and in a notebook.
    """

    def __init__(self, progress: bool | ProgressCallback | None) -> None:
        if progress is None:
            progress = sys.stderr is not None and (sys.stderr.isatty() or _in_notebook())
        self._bar = self._function = None
        if isinstance(progress, (bool, np.bool_)):
            self._bar = _ProgressBar() if progress else None
        elif callable(progress):
            self._function = progress
        else:
            advice = "give True, False or a function of the completed fraction"
            raise TypeError(f"progress={progress!r}: {advice}")
        self._reported = 0.0

    def __enter__(self) -> ProgressCallback | None:
        return self._bar if self._function is None else self._report

    def _report(self, fraction: float) -> None:
        assert self._function is not None
        self._reported = fraction
        self._function(fraction)

    def __exit__(self, error: object, *_: object) -> None:
        complete = error is None
        if self._bar:
            self._bar.finish(complete)
        elif self._function and complete and self._reported < 1.0:
            self._function(1.0)


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython and hasattr(ipython, "get_ipython") else None
    return type(shell).__name__ == "ZMQInteractiveShell"
