"""The figures of plots. Importing this needs matplotlib."""

from __future__ import annotations

import matplotlib.figure
import matplotlib.pyplot as plt


class Figure(matplotlib.figure.Figure):  # type: ignore[misc, unused-ignore]
    """A figure of pyplot that a notebook shows once, also as the value of a cell.

    At the end of the cell the inline backend shows all open figures, so this one is closed when it is
    shown before.
    """

    def _ipython_display_(self) -> None:
        if "inline" in plt.get_backend():
            plt.close(self)
        raise NotImplementedError  # IPython then shows it like any other figure


def new_figure(size: tuple[float, float]) -> matplotlib.figure.Figure:
    """Return a figure of pyplot."""
    return plt.figure(figsize=size, layout="constrained", FigureClass=Figure)
