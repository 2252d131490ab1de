"""Plots with matplotlib, which is optional."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ._capacity import ChannelCapacity
    from ._lag import LagProfile
    from ._matrix import Matrix
    from ._power import PowerAnalysis
    from ._result import Estimate
    from ._staircase import Staircase
    from ._transfer import TransferEntropy, TransferNetwork

_BAR, _MARK, _SOFT = "#5b8def", "#d9480f", "#8a94a6"


def _panels(
    target: Any, size: tuple[float, float], rows: int = 1, columns: int = 1
) -> tuple[Figure, NDArray[Any]]:
    """Return a figure and its panels: a new one, the target, or the figure of the target if it is a panel."""
    if hasattr(target, "get_xlim"):
        if rows * columns > 1:
            raise ValueError(
                f"this plot has {rows * columns} panels; give a figure instead of axes"
            )
        return target.figure, np.array([[target]])
    if target is None:
        try:
            from ._figure import new_figure
        except ImportError:
            raise ImportError("plots need matplotlib: pip install matplotlib") from None
        target = new_figure(size)
    if not hasattr(target, "subplots"):
        raise TypeError(f"{target!r} is neither a figure nor axes of matplotlib")
    return target, target.subplots(rows, columns, squeeze=False)


def _hide_frame(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def _finish(panel: Any) -> None:
    panel.legend(frameon=False)
    _hide_frame(panel)


def plot_estimate(result: Estimate, target: Figure | Axes | None) -> Figure:
    curves = [
        critic["curve"]
        for fold in result.folds
        for critic in fold.critics
        if critic["weight"] > 0 and len(critic["curve"]) > 1
    ]
    panels = 1 + (result.null is not None) + bool(curves)
    figure, grid = _panels(target, (4.0 * panels, 3.2), columns=panels)
    axes = iter(grid[0])
    low, high = result.interval
    quantity = "I(x; y)" if result.given is None else "I(x; y | z)"
    title = f"{quantity} = {result.mi:.3f} nats, 95% interval {low:.3f} to {high:.3f}"
    _plot_pointwise(next(axes), result)
    set_title = grid[0, 0].set_title if hasattr(target, "get_xlim") else figure.suptitle
    set_title(title)
    if result.null is not None:
        _plot_null(next(axes), result)
    if curves:
        _plot_curves(next(axes), curves)
    return figure


def _plot_pointwise(panel: Any, result: Estimate) -> None:
    values = result.pointwise[np.isfinite(result.pointwise)]
    # A few extreme values would compress the rest, so the outermost bars collect them.
    ends = np.quantile(values, [0.002, 0.998])
    panel.hist(np.clip(values, *ends), bins=50, color=_BAR)
    panel.axvline(values.mean(), color=_MARK, label="mean")
    panel.axvline(0.0, color=_SOFT, linestyle=":")
    panel.set(title="pointwise information", xlabel="nats", ylabel="rows")
    _finish(panel)


def _plot_null(panel: Any, result: Estimate) -> None:
    panel.hist(result.null, bins=40, color=_SOFT)
    panel.axvline(result.observed, color=_MARK, label="observed")
    panel.set(
        title=f"test of independence, p = {result.p_value:.3g}",
        xlabel="mean log ratio (nats)",
        ylabel="random pairings",
    )
    _finish(panel)


def _plot_curves(panel: Any, curves: list[list[dict[str, Any]]]) -> None:
    for index, curve in enumerate(curves):
        steps = [point["step"] for point in curve]
        train = [np.nan if point["train"] is None else point["train"] for point in curve]
        held_out = [point["validation"] for point in curve]
        first = index == 0
        panel.plot(steps, train, color=_SOFT, lw=1, label="training" if first else None)
        panel.plot(steps, held_out, color=_BAR, lw=1.3, label="validation" if first else None)
    panel.set(title="learning curves", xlabel="training steps", ylabel="objective")
    _finish(panel)


def plot_matrix(result: Matrix, target: Figure | Axes | None) -> Figure:
    figure, _ = _heat_map(result.mi, result.rows, result.names, "mutual information", target)
    return figure


def plot_network(result: TransferNetwork, target: Figure | Axes | None) -> Figure:
    names = result.names
    figure, panel = _heat_map(result.te, names, names, "transfer entropy", target)
    panel.set(xlabel="to", ylabel="from")
    return figure


def _heat_map(
    values: NDArray[np.float64],
    rows: tuple[str, ...],
    columns: tuple[str, ...],
    quantity: str,
    target: Figure | Axes | None,
) -> tuple[Figure, Any]:
    width, height = len(columns), len(rows)
    figure, ((panel,),) = _panels(target, (2.2 + 0.42 * width, 1.6 + 0.42 * height))
    shown = np.ma.masked_invalid(values)
    image = panel.imshow(shown, cmap="viridis", vmin=0.0)
    panel.set_xticks(range(width), columns, rotation=45, ha="right", rotation_mode="anchor")
    panel.set_yticks(range(height), rows)
    if max(width, height) <= 12:
        top = shown.max() if shown.count() else 1.0
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                ink = "black" if value > 0.6 * top else "white"
                panel.text(j, i, f"{value:.2f}", ha="center", va="center", color=ink, fontsize=8)
    figure.colorbar(image, ax=panel, label=f"{quantity} (nats)", shrink=0.8)
    return figure, panel


def plot_transfer(result: TransferEntropy, target: Figure | Axes | None) -> Figure:
    figure, ((panel,),) = _panels(target, (6.0, 2.0))
    directions = (result.forward, result.backward)
    for place, one in enumerate(directions):
        panel.hlines(place, *one.interval, color=_BAR, alpha=0.5, lw=4.0)
        panel.plot(one.te, place, "o", ms=6, color=_BAR)
    panel.set_yticks((0, 1), [f"{one.source} → {one.target}" for one in directions])
    panel.set(xlabel="transfer entropy (nats), 95% interval", xlim=(0.0, None), ylim=(1.5, -0.5))
    _hide_frame(panel)
    return figure


def plot_capacity(result: ChannelCapacity, target: Figure | Axes | None) -> Figure:
    figure, ((shares, pairs),) = _panels(target, (10.0, 3.6), columns=2)
    low, high = result.interval
    figure.suptitle(f"capacity {result.capacity:.3f} nats, 95% interval {low:.3f} to {high:.3f}")
    count = len(result.levels)
    places = np.arange(count)
    shares.bar(places, result.optimal, color=_BAR, label="reaches the capacity")
    shares.plot(places, result.observed, "_", color=_MARK, markersize=14, label="observed")
    shares.set_xticks(places, result.levels, rotation=45, ha="right", rotation_mode="anchor")
    shares.set_ylabel("share")
    _finish(shares)
    shown = np.ma.masked_where(np.eye(count, dtype=bool), result.discriminability)
    image = pairs.imshow(shown, cmap="viridis", vmin=0.0, vmax=1.0)
    pairs.set_xticks(places, result.levels, rotation=45, ha="right", rotation_mode="anchor")
    pairs.set_yticks(places, result.levels)
    figure.colorbar(image, ax=pairs, label="bits about a fair choice", shrink=0.8)
    return figure


def plot_power(result: PowerAnalysis, target: Figure | Axes | None) -> Figure:
    figure, ((power, estimates),) = _panels(target, (9.0, 3.6), columns=2)
    rows = [size.rows for size in result.sizes]
    if max(rows) >= 10 * min(rows):
        for panel in (power, estimates):
            panel.set_xscale("log")
    for size in result.sizes:
        # Agresti and Coull: a share with two successes and two failures added.
        share = (size.rejected + 2) / (size.tables + 4)
        error = 1.96 * (share * (1 - share) / (size.tables + 4)) ** 0.5
        power.errorbar(size.rows, size.rejected / size.tables, error, fmt="o", ms=4, color=_BAR)
    if result.rows is not None:
        power.plot(rows, [size.power for size in result.sizes], color=_BAR, alpha=0.5)
        power.axvline(result.rows, color=_MARK, ls="--", lw=1.2, label=f"{result.rows} rows")
    power.set(xlabel="rows", ylabel="power", ylim=(0.0, 1.0))
    low, high = zip(*(size.interval for size in result.sizes))
    estimates.vlines(rows, low, high, color=_BAR, alpha=0.5, lw=2.0)
    estimates.plot(rows, [size.mi for size in result.sizes], "o", ms=4, color=_BAR)
    estimates.axhline(result.mi, color=_MARK, ls="--", lw=1.2, label="true value")
    estimates.set(xlabel="rows", ylabel="nats, 95% interval (medians)", ylim=(0.0, None))
    _hide_frame(power)
    if result.rows is not None:
        power.legend(frameon=False)
    _finish(estimates)
    return figure


def plot_lags(profiles: list[LagProfile], target: Figure | Axes | None) -> Figure:
    """Draw the estimates of each profile, and the statistics of its test beside them."""
    figure, rows = _panels(target, (9.0, 2.8 * len(profiles)), len(profiles), 2)
    for (panel, test), profile in zip(rows, profiles):
        found = profile.p_adjusted <= 0.05
        groups = ((~found, _SOFT, "adjusted p > .05"), (found, _BAR, "adjusted p ≤ .05"))
        for shown, colour, label in groups:
            low, high = profile.interval[shown].T
            panel.vlines(profile.lags[shown], low, high, color=colour, alpha=0.5, lw=2.0)
            dots = {"marker": "o", "ms": 4, "ls": "", "color": colour}
            panel.plot(profile.lags[shown], profile.mi[shown], **dots)
            test.plot(profile.lags[shown], profile.statistic[shown], label=label, **dots)
        test.axhline(profile.band, color=_MARK, ls="--", lw=1.2, label="95% if independent")
        panel.set(title=f"{profile.x} and {profile.y}", ylabel="nats, 95% interval")
        test.set(title=f"test over all lags, p = {profile.p_value:.3g}", ylabel="statistic (nats)")
        for axes in (panel, test):
            axes.set_xlabel("lag (y is later if positive)")
            axes.set_ylim(bottom=0.0)
            _hide_frame(axes)
        test.legend(frameon=False)
    return figure


def plot_staircase(result: Staircase, target: Figure | Axes | None) -> Figure:
    count = len(result.estimators)
    chained = bool(result.terms)
    # The terms of a chain are beside their staircase.
    columns = 2 if chained else min(count, 3)
    shown = 2 * count if chained else count
    rows = -(-shown // columns)
    figure, grid = _panels(target, (4.0 * columns, 3.0 * rows), rows, columns)
    panels = grid.ravel()
    for panel, name in zip(panels[:: 2 if chained else 1], result.estimators):
        run = result.estimates[name][0]
        steps = np.arange(run.size)
        width = max(1, run.size // 100)
        smooth = np.convolve(run, np.ones(width) / width, "valid")
        panel.plot(steps, run, color=_BAR, alpha=0.3, lw=0.6)
        panel.plot(steps[width - 1 :], smooth, color=_BAR, lw=1.5, label="moving average")
        panel.plot(steps, result.true_mi, color=_MARK, lw=1.5, label="true")
        panel.set(title=name, xlabel="iteration", ylabel="nats")
        _hide_frame(panel)
    panels[0].legend(frameon=False)
    if chained:
        for panel, name in zip(panels[1::2], result.estimators):
            _plot_terms(panel, [row for row in result.summary if row["estimator"] == name])
    for panel in panels[shown:]:
        panel.set_visible(False)
    return figure


def _plot_terms(panel: Any, rows: list[dict[str, Any]]) -> None:
    """Stack the terms of each level: what raises the sum above 0, what lowers it below."""
    for level, row in enumerate(rows):
        ends = {True: 0.0, False: 0.0}
        for term in row["terms"]:
            signed = term["mean"] if term["with_x"] else -term["mean"]
            up = signed >= 0
            colour, alpha = f"C{term['block']}", 1.0 if term["with_x"] else 0.4
            panel.bar(level, signed, 0.62, bottom=ends[up], color=colour, alpha=alpha)
            ends[up] += signed
        panel.hlines(row["mean"], level - 0.45, level + 0.45, color=_BAR, lw=1.8)
        panel.hlines(row["true_mi"], level - 0.5, level + 0.5, color=_MARK, lw=1.5, ls="--")
    panel.axhline(0.0, color=_SOFT, lw=0.8)
    panel.set_xticks(range(len(rows)), [f"{row['true_mi']:.3g}" for row in rows])
    panel.set(title="terms (pale: subtracted)", xlabel="true MI of the level", ylabel="nats")
    _hide_frame(panel)
