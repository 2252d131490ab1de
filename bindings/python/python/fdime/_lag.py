"""Mutual information between series at lags."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._arguments import as_json, explain_names, selector_list, sorted_lags
from ._blocks import Divergence
from ._estimate import Effort, MissingOrConstant, announced_plan, reading_options
from ._execution import Device, Precision, execution
from ._inputs import as_table, check_indices, single_column
from ._journal import open_journal, run_unfinished, series_heading
from ._parallel import concurrent_jobs, raise_if_cancelled
from ._progress import ProgressCallback, progress_callback
from ._result import saved_record
from ._text import (
    counted,
    doubts,
    estimate_cells,
    failures,
    p_value_text,
    strongest_first,
    table_lines,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class LagProfile:
    """Mutual information between ``x`` and ``y`` at lags, in nats."""

    #: The name of the first series.
    x: str
    #: The name of the second series.
    y: str
    #: The names of the columns that are held fixed.
    given: list[str]
    #: The lags, in ascending order. ``x`` at t is compared with ``y`` at t + lag.
    lags: NDArray[np.int64] = field(repr=False)
    #: The estimate at each lag; NaN where there is a problem.
    mi: NDArray[np.float64] = field(repr=False)
    #: The 95% interval at each lag, as an array of two columns.
    interval: NDArray[np.float64] = field(repr=False)
    #: The p-value at each lag, adjusted for the number of lags.
    p_adjusted: NDArray[np.float64] = field(repr=False)
    #: The p-value of independence at all lags, which is the smallest of ``p_adjusted``.
    p_value: float
    #: The smallest p-value that is possible for this number of lags and rows.
    smallest_p: float
    #: The statistic of the test at each lag, about the mutual information if that is small.
    statistic: NDArray[np.float64] = field(repr=False)
    #: The value below which the statistics of 95% of independent series stay at all lags.
    band: float
    #: The lag with the largest estimate; None if no lag has one.
    largest_at: int | None
    #: The p-value adjusted for the number of pairs (Benjamini-Hochberg).
    p_over_pairs: float
    #: One dictionary for each lag, with ``lag, mi_nats, ci_low, ci_high, p_value, p_adjusted,
    #: statistic_nats, n_rows, reliability, reasons, problem``.
    estimates: list[dict[str, Any]] = field(repr=False)

    @classmethod
    def _from_record(cls, record: dict[str, Any]) -> LagProfile:
        estimates: list[dict[str, Any]] = record["lags"]

        def values(key: str) -> NDArray[np.float64]:
            return np.array([e[key] for e in estimates], dtype=np.float64)

        return cls(
            x=record["x"],
            y=record["y"],
            given=record["given"],
            lags=np.array([e["lag"] for e in estimates], dtype=np.int64),
            mi=values("mi_nats"),
            interval=np.column_stack([values("ci_low"), values("ci_high")]),
            p_adjusted=values("p_adjusted"),
            p_value=record["p_value"],
            smallest_p=record["smallest_p"],
            statistic=values("statistic_nats"),
            band=record["band_nats"],
            largest_at=record["largest_at"],
            p_over_pairs=record["p_over_pairs"],
            estimates=estimates,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, like an entry of ``results`` of ``fdime lag --json``."""
        return {
            "x": self.x,
            "y": self.y,
            "given": self.given,
            "largest_at": self.largest_at,
            "p_value": self.p_value,
            "p_over_pairs": self.p_over_pairs,
            "band_nats": self.band,
            "smallest_p": self.smallest_p,
            "lags": self.estimates,
        }

    def to_pandas(self) -> Any:
        """Return the lags as a pandas DataFrame."""
        import pandas

        names = {"x": self.x, "y": self.y, "given": ", ".join(self.given)}
        return pandas.DataFrame([{**names, **row} for row in self.estimates])

    def __str__(self) -> str:
        lines = []
        if self.largest_at is not None:
            given = f" | {', '.join(self.given)}" if self.given else ""
            (place,) = np.flatnonzero(self.lags == self.largest_at)
            low, high = self.interval[place]
            lines = [
                f"I({self.x}; {self.y} {_later(self.largest_at)}{given}) = {self.mi[place]:.3f} nats",
                f"95% interval {low:.3f} to {high:.3f}; the largest of {counted(len(self.lags), 'lag')}",
            ]
        found = "dependent" if self.p_value <= 0.05 else "no dependence found"
        lines.append(f"{found}: {p_value_text(self.p_value)} (adjusted over all lags)")
        if np.isfinite(self.statistic).any():
            lines.append(
                f"largest test statistic: {np.nanmax(self.statistic):.4f} nats; 95% of independent "
                f"series stay below {self.band:.4f}"
            )
        lines += failures(self.estimates, "mi_nats")
        rows = [
            {"lag": str(one["lag"]), **estimate_cells(one, "mi_nats")}
            for one in self.estimates
            if one["mi_nats"] is not None
        ]
        return "\n".join([*lines, *table_lines(rows, None), *doubts(self.estimates, "lag")])

    __repr__ = __str__

    def plot(self, figure: Figure | None = None) -> Figure:
        """Draw the estimates over the lags with matplotlib."""
        from ._plot import plot_lags

        return plot_lags([self], figure)


@dataclass(frozen=True, eq=False)
class LagProfiles:
    """The profiles of many pairs of series."""

    #: A profile for each column of x with each column of y.
    profiles: list[LagProfile]
    #: The plan of every profile, with the lags and the plan of each estimate.
    plan: dict[str, Any] = field(repr=False)
    #: The duration in seconds.
    seconds: float = field(repr=False)

    def __len__(self) -> int:
        return len(self.profiles)

    def __iter__(self) -> Iterator[LagProfile]:
        return iter(self.profiles)

    def __getitem__(self, index: int) -> LagProfile:
        return self.profiles[index]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, as ``fdime lag --json`` prints it; ``fdime report`` reads it."""
        results = [profile.to_dict() for profile in self]
        return saved_record("lag", {"results": results, "plan": self.plan}, self.seconds)

    def to_pandas(self) -> Any:
        """Return the lags of all pairs as a pandas DataFrame, like a ``.csv`` file of ``fdime lag``."""
        import pandas

        return pandas.concat([profile.to_pandas() for profile in self], ignore_index=True)

    def __str__(self) -> str:
        if len(self) == 1:
            return str(self[0])
        dependent = sum(1 for profile in self if profile.p_over_pairs <= 0.05)
        largest = [
            {**one, "x": profile.x, "y": profile.y, "p_adjusted": profile.p_over_pairs}
            for profile in self
            for one in profile.estimates
            if one["lag"] == profile.largest_at
        ]
        rows = [
            {"x": one["x"], "y": one["y"], "lag": str(one["lag"])} | estimate_cells(one, "mi_nats")
            for one in strongest_first(largest, "mi_nats")
        ]
        found = f"{dependent} dependent at a false discovery rate of 5%"
        return "\n".join([f"{counted(len(self), 'pair')}, {found}", *table_lines(rows)])

    __repr__ = __str__

    def plot(self, figure: Figure | None = None) -> Figure:
        """Draw a panel for each pair with matplotlib."""
        from ._plot import plot_lags

        return plot_lags(self.profiles, figure)


def _later(lag: int) -> str:
    """Return when y is read, in words."""
    if lag == 0:
        return "at the same time"
    return f"{counted(abs(lag), 'step')} {'later' if lag > 0 else 'earlier'}"


@explain_names()
def lagged_information(
    x: Any,
    y: Any,
    *,
    lags: Iterable[int] = range(-10, 11),
    given: Any = None,
    time: Any = None,
    group: Any = None,
    estimator: str | Divergence = "auto",
    effort: Effort = "quick",
    discrete: str | list[str] | None = None,
    numeric: str | list[str] | None = None,
    missing: MissingOrConstant = "drop",
    blocks: int | None = None,
    folds: int = 5,
    permutations: int = 999,
    seed: int = 0,
    device: Device = "auto",
    precision: Precision | None = None,
    n_jobs: int | None = None,
    progress: bool | ProgressCallback | None = None,
) -> LagProfile:
    """Estimate the mutual information between ``x`` at t and ``y`` at t + lag, for many lags.

    Each lag has an estimate and an interval, as from :func:`mutual_information` for a time series. A
    test by circular shifts of one series against the other adjusts p-values for the number of lags.

    Parameters
    ----------
    x
        A series of one column, with rows in the order of time. A missing value removes the pairs that
        contain it and does not shift other rows.
    y
        The other series, with the same rows.
    lags
        The lags, in rows; positive if ``y`` is later than ``x``.
    given
        Columns that are held fixed at the times of ``x`` and of ``y``: the estimate is the part of the
        dependence that they do not explain.
    time
        The time of each row: numbers or dates on a grid, which may have gaps. Lags are then steps of
        the grid, and rows need not be sorted.
    group
        The recording of each row, such as a trial. Rows of different recordings are not compared.
    estimator, effort, discrete, numeric, folds, seed, device, precision
        As for :func:`mutual_information`.
    missing
        ``'drop'`` leaves out pairs with a missing value; ``'error'`` refuses missing values.
    blocks
        The number of rows to leave out between the folds of an estimate; None computes it from the
        autocorrelation time.
    permutations
        The number of shifts of the test if there are several recordings. A single recording is shifted by
        every number of steps.
    n_jobs
        The number of lags in parallel; None means all cores, or as many as the GPU needs. A backend
        chosen with ``joblib.parallel_config`` is used.
    progress
        As for :func:`mutual_information`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> y = np.roll(x, 2) ** 2 + 0.3 * rng.normal(size=500)
    >>> profile = lagged_information(x, y, lags=range(-2, 5), estimator="ksg")
    >>> profile.largest_at, profile.p_value < 0.05
    (2, True)
    """
    check_indices(x=x, y=y, given=given, time=time, group=group)
    left, right = as_table(x, "x"), as_table(y, "y")
    for name, table in (("x", left), ("y", right)):
        if len(table.names) != 1:
            advice = "lagged_information_pairs compares all pairs of columns"
            raise ValueError(f"{name} has {len(table.names)} columns; {advice}")
    profiles = lagged_information_pairs(
        left,
        right,
        lags=lags,
        given=given,
        time=time,
        group=group,
        estimator=estimator,
        effort=effort,
        discrete=discrete,
        numeric=numeric,
        missing=missing,
        blocks=blocks,
        folds=folds,
        permutations=permutations,
        seed=seed,
        device=device,
        precision=precision,
        n_jobs=n_jobs,
        progress=progress,
    )
    return profiles[0]


@explain_names()
def lagged_information_pairs(
    x: Any,
    y: Any,
    *,
    lags: Iterable[int] = range(-10, 11),
    given: Any = None,
    time: Any = None,
    group: Any = None,
    estimator: str | Divergence = "auto",
    effort: Effort = "quick",
    discrete: str | list[str] | None = None,
    numeric: str | list[str] | None = None,
    missing: MissingOrConstant = "drop",
    blocks: int | None = None,
    folds: int = 5,
    permutations: int = 999,
    seed: int = 0,
    device: Device = "auto",
    precision: Precision | None = None,
    n_jobs: int | None = None,
    journal: str | os.PathLike[str] | None = None,
    progress: bool | ProgressCallback | None = None,
) -> LagProfiles:
    """Estimate the lags of every column of ``x`` with every column of ``y``.

    Parameters
    ----------
    x
        A table or an array whose columns are series.
    y
        The series that are compared with those of ``x``.
    lags, given, time, group, estimator, effort, discrete, numeric, missing, blocks, folds, permutations
        As for :func:`lagged_information`.
    seed, device, precision
        As for :func:`lagged_information`.
    n_jobs
        The number of lags in parallel, over all pairs.
    journal
        A file to which each finished lag is appended. If the process is killed, the same call
        continues with the lags that are not in the file. One process at a time can write to it.
    progress
        As for :func:`mutual_information`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 2))
    >>> y = np.roll(x[:, 1], 2) + rng.normal(size=500)
    >>> profiles = lagged_information_pairs(x, y, lags=range(4), estimator="copula")
    >>> [(profile.x, profile.largest_at) for profile in profiles if profile.p_over_pairs < 0.05]
    [('x2', 2)]
    """
    start = perf_counter()
    check_indices(x=x, y=y, given=given, time=time, group=group)
    tables = [as_table(x, "x"), as_table(y, "y")]
    if given is not None:
        tables.append(as_table(given, "given"))
    everything = tables[0]
    for table in tables[1:]:
        everything = everything.beside(table)
    everything = everything.typed(
        selector_list(discrete, "discrete"), selector_list(numeric, "numeric")
    )
    if missing == "error":
        everything.check_complete()
    count = len(tables[0].names) + len(tables[1].names)
    fixed = list(range(count, len(everything.names)))
    estimate = announced_plan(
        estimator=estimator,
        effort=effort,
        folds=folds,
        permutations=permutations,
        seed=seed,
        blocks=True if blocks is None else blocks,
        # A single recording is shifted by every number of steps, however many pairs there are.
        tests=1 if group is None else len(tables[0].names) * len(tables[1].names),
    )
    work = _Work(
        everything.select(list(range(count))),
        len(tables[0].names),
        everything.select(fixed) if fixed else None,
        None if time is None else single_column(time, "time"),
        None if group is None else single_column(group, "group"),
        {"lags": sorted_lags(lags, "range(-20, 21)"), "estimate": estimate},
        reading_options(None, None, missing, "error"),
        execution(device, precision),
    )
    work.check()
    with (
        progress_callback(progress) as callback,
        open_journal(_native.LagJournal, journal, work.heading) as log,
    ):
        profiles = work.run(log, n_jobs, callback)
    return LagProfiles(profiles, work.plan, perf_counter() - start)


@dataclass(frozen=True)
class LagJob:
    """One lag of two series, as a job that can run in another process: it holds its own columns."""

    series: dict[str, _native.Table | None]
    lag: int
    plan: str
    options: dict[str, Any]
    where: dict[str, Any]


def estimate_lag(job: LagJob) -> dict[str, Any]:
    """Return the estimate of a lag, or its ``problem``. It uses one thread."""
    text = _native.estimate_lag(
        job.series, job.lag, job.plan, job.options, job.where, raise_if_cancelled
    )
    estimate: dict[str, Any] = json.loads(text)
    return estimate


@dataclass(frozen=True)
class _Work:
    """Everything that defines the profiles of all pairs."""

    #: The columns of x, then those of y.
    table: _native.Table
    #: The number of columns of x.
    x: int
    #: The columns that are held fixed.
    given: _native.Table | None
    time: _native.Table | None
    group: _native.Table | None
    #: The lags, and the plan of each estimate.
    plan: dict[str, Any]
    options: dict[str, Any]
    where: dict[str, Any]

    def check(self) -> None:
        """Raise an error if the plan cannot be executed on these series."""
        for pair in self.pairs():
            _native.check_lags(self.series(pair), as_json(self.plan, "plan"))

    def pairs(self) -> list[tuple[int, int]]:
        """Return the positions of the columns of each pair."""
        return list(product(range(self.x), range(self.x, len(self.table.names))))

    def series(self, pair: tuple[int, int]) -> dict[str, _native.Table | None]:
        """Return the two series of a pair, for the native part."""
        x, y = (self.table.select([column]) for column in pair)
        return {"x": x, "y": y, "given": self.given, "time": self.time, "group": self.group}

    def heading(self) -> str:
        return series_heading(self.table, self.given, self.time, self.group, self.plan["estimate"])

    def run(
        self,
        journal: _native.LagJournal | None,
        n_jobs: int | None,
        callback: ProgressCallback | None,
    ) -> list[LagProfile]:
        """Estimate the lags that are not in the journal. Return all profiles in order."""
        pairs, lags = self.pairs(), self.plan["lags"]
        series = {pair: self.series(pair) for pair in pairs}
        keys = [(i, j, lag) for i, j in pairs for lag in lags]
        plan = json.dumps(self.plan["estimate"])

        def jobs(remaining: list[tuple[int, int, int]]) -> list[LagJob]:
            return [
                LagJob(series[i, j], lag, plan, self.options, self.where) for i, j, lag in remaining
            ]

        concurrent = concurrent_jobs(self.where, self.table.rows)
        found = run_unfinished(keys, estimate_lag, jobs, journal, n_jobs, concurrent, callback)
        profiles = []
        for index, pair in enumerate(pairs):
            of_pair = json.dumps(found[index * len(lags) : (index + 1) * len(lags)])
            profile = _native.lag_profile(series[pair], json.dumps(self.plan), of_pair)
            profiles.append(json.loads(profile))
        adjusted = json.loads(_native.adjust_lag_profiles(json.dumps(profiles)))
        return [LagProfile._from_record(profile) for profile in adjusted]
