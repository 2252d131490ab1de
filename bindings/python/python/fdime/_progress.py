"""A line on stderr for what takes longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

Watch = Callable[[float], object]


class _Line:
    """Rewrites one line: a bar, the share that is done, and the time that is left."""

    _PATIENCE = 2.0  # seconds before anything is shown
    _WIDTH = 24

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._shown = ""
        self._cell: Any = None

    def __call__(self, fraction: float) -> None:
        elapsed = time.monotonic() - self._start
        if elapsed < self._PATIENCE:
            return
        done = int(self._WIDTH * fraction)
        left = f", {elapsed / fraction - elapsed:.0f} s left" if fraction > 0.02 else ""
        bar = "█" * done + "░" * (self._WIDTH - done)
        line = f"{bar} {fraction:4.0%}  {elapsed:.0f} s elapsed{left}"
        if line != self._shown:
            self._write(line)
            self._shown = line

    def clear(self) -> None:
        if self._shown:
            self._write("")

    def _write(self, line: str) -> None:
        if _in_a_notebook():  # one output, rewritten
            told = {"text/plain": line}
            if self._cell is None:
                import IPython.display

                show: Any = IPython.display.display
                self._cell = show(told, raw=True, display_id=True)
            else:
                self._cell.update(told, raw=True)
            return
        end = "" if line else "\r"
        sys.stderr.write("\r" + line.ljust(len(self._shown)) + end)
        sys.stderr.flush()


class watching:
    """What to call with the share that is done: nothing, a line on stderr, or the user's own.

    ``None`` shows the line where somebody can see it: on a terminal, or in a notebook.
    """

    def __init__(self, progress: bool | Watch | None) -> None:
        if progress is None:
            progress = sys.stderr is not None and (sys.stderr.isatty() or _in_a_notebook())
        self._line = _Line() if progress is True else None
        self._watch = self._line if isinstance(progress, bool) else progress

    def __enter__(self) -> Watch | None:
        return self._watch

    def __exit__(self, *_: object) -> None:
        if self._line:
            self._line.clear()


def _in_a_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython and hasattr(ipython, "get_ipython") else None
    return type(shell).__name__ == "ZMQInteractiveShell"
