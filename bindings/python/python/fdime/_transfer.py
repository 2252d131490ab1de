"""Transfer entropy between series."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import permutations as ordered_pairs
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._arguments import as_json, check_count, explain_names, selector_list, sorted_lags
from ._blocks import Divergence
from ._estimate import Effort, MissingOrConstant, announced_plan, reading_options
from ._execution import Device, Precision, execution
from ._inputs import as_table, check_indices, single_column
from ._journal import open_journal, run_unfinished, series_heading
from ._matrix import _positions
from ._parallel import concurrent_jobs, raise_if_cancelled
from ._progress import ProgressCallback, progress_callback
from ._result import grid, saved_record
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
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class TransferDirection:
    """The transfer entropy from one series to another, in nats."""

    #: The name of the series that is earlier.
    source: str
    #: The name of the series that is predicted.
    target: str
    #: The estimate; NaN if there is a problem.
    te: float
    #: The 95% interval.
    interval: tuple[float, float]
    #: The p-value of the test that nothing is transferred; NaN if there is a problem.
    p_value: float
    #: The p-value, adjusted for the number of directions (Benjamini-Hochberg).
    p_adjusted: float
    #: The number of past values of the target that were held fixed.
    history: int
    #: The lags of the source.
    lags: tuple[int, ...]
    #: The number of instants with all values.
    n_rows: int
    #: ``good``, ``fair`` or ``doubtful``; None if there is a problem.
    reliability: str | None
    #: The codes of the reasons for that, separated by spaces.
    reasons: str | None
    #: Why there is no estimate.
    problem: str | None

    @classmethod
    def _from_record(cls, record: dict[str, Any]) -> TransferDirection:
        return cls(
            record["from"],
            record["to"],
            _number(record["te_nats"]),
            (_number(record["ci_low"]), _number(record["ci_high"])),
            _number(record["p_value"]),
            _number(record["p_adjusted"]),
            record["history"],
            tuple(record["lags"]),
            record["n_rows"],
            record["reliability"],
            record["reasons"],
            record["problem"],
        )

    def __str__(self) -> str:
        if self.problem is not None:
            return f"{self.source} -> {self.target}: {self.problem}"
        low, high = self.interval
        return (
            f"{self.source} -> {self.target}: {self.te:.3f} nats, 95% interval {low:.3f} to "
            f"{high:.3f}, {p_value_text(self.p_adjusted)}"
        )


@dataclass(frozen=True, eq=False)
class TransferNetwork:
    """Transfer entropies between all pairs of series, in nats."""

    #: The names of the series, in the order of the arrays.
    names: tuple[str, ...]
    #: One dictionary for each direction, with ``from, to, te_nats, ci_low, ci_high, p_value,
    #: p_adjusted, net_nats, is_stronger, history, lags, n_rows, reliability, reasons,
    #: problem``.
    directions: list[dict[str, Any]] = field(repr=False)
    #: The plan of every estimate.
    plan: dict[str, Any] = field(repr=False)
    #: The duration in seconds.
    seconds: float = field(repr=False)

    def _array(self, key: str) -> NDArray[np.float64]:
        return grid(self.directions, key, ("from", "to"), self.names, self.names)

    @property
    def te(self) -> NDArray[np.float64]:
        """The estimates, from the series of the row to that of the column; NaN on the diagonal."""
        return self._array("te_nats")

    @property
    def p_value(self) -> NDArray[np.float64]:
        """The p-values of the tests that nothing is transferred."""
        return self._array("p_value")

    @property
    def p_adjusted(self) -> NDArray[np.float64]:
        """The p-values, adjusted for the number of directions (Benjamini-Hochberg)."""
        return self._array("p_adjusted")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, as ``fdime transfer --json`` prints it; ``fdime report`` reads it."""
        fields = {"names": list(self.names), "results": self.directions, "plan": self.plan}
        return saved_record("transfer", fields, self.seconds)

    def to_pandas(self) -> Any:
        """Return the directions as a pandas DataFrame, strongest first."""
        import pandas

        return pandas.DataFrame(strongest_first(self.directions, "te_nats"))

    def __str__(self) -> str:
        found = [one for one in self.directions if one["te_nats"] is not None]
        count = sum(1 for one in found if one["te_nats"] > 0 and one["p_adjusted"] <= 0.05)
        lines = [
            f"{counted(len(self.directions), 'direction')}, {count} significant at a false discovery "
            "rate of 5%",
            *failures(self.directions, "te_nats"),
        ]
        return "\n".join([*lines, *_table(strongest_first(found, "te_nats"))])

    __repr__ = __str__

    def plot(self, figure: Figure | Axes | None = None) -> Figure:
        """Draw a heat map with matplotlib, in a new figure, a given one or given axes."""
        from ._plot import plot_network

        return plot_network(self, figure)


def _table(directions: list[dict[str, Any]]) -> list[str]:
    """Return a table of directions, and why some are not reliable."""
    rows = [
        {"from": one["from"], "to": one["to"], "history": str(one["history"])}
        | estimate_cells(one, "te_nats")
        for one in directions
    ]
    return [*table_lines(rows), *doubts(directions, "direction")]


@dataclass(frozen=True)
class TransferEntropy:
    """Transfer entropy in both directions between two series, in nats."""

    #: From the source to the target.
    forward: TransferDirection
    #: From the target to the source.
    backward: TransferDirection
    #: The plan of both estimates.
    plan: dict[str, Any] = field(repr=False)
    _network: TransferNetwork = field(repr=False, compare=False)

    @property
    def net(self) -> float:
        """The estimate of the forward direction less that of the backward direction."""
        return self.forward.te - self.backward.te

    @property
    def stronger(self) -> TransferDirection | None:
        """The direction whose interval lies above that of the other; None if they overlap."""
        for one, other in ((self.forward, self.backward), (self.backward, self.forward)):
            if one.interval[0] > other.interval[1]:
                return one
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, as ``fdime transfer --json`` prints it; ``fdime report`` reads it."""
        return self._network.to_dict()

    def to_pandas(self) -> Any:
        """Return the two directions as a pandas DataFrame, the forward one first."""
        import pandas

        return pandas.DataFrame(self._network.directions)

    def __str__(self) -> str:
        stronger = self.stronger
        verdict = (
            "neither direction is shown to be stronger: the intervals overlap"
            if stronger is None
            else f"{stronger.source} -> {stronger.target} is stronger: the intervals do not overlap"
        )
        return "\n".join([verdict, *_table(self._network.directions)])

    __repr__ = __str__

    def plot(self, figure: Figure | Axes | None = None) -> Figure:
        """Draw both directions with matplotlib, in a new figure, a given one or given axes."""
        from ._plot import plot_transfer

        return plot_transfer(self, figure)


@explain_names()
def transfer_entropy(
    source: Any,
    target: Any,
    *,
    history: int | None = None,
    lags: Iterable[int] | None = None,
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
) -> TransferEntropy:
    """Estimate the transfer entropy between two series, in both directions.

    TE(source -> target) is the mutual information between the next value of ``target`` and the values
    of ``source`` at ``lags`` before it, given the last ``history`` values of ``target`` itself. The test
    preserves the dynamics of each series and their contemporaneous dependence.

    Parameters
    ----------
    source
        A series with a row for each step in time. A step is used if all its values are present.
    target
        The other series, with the same rows.
    history
        The number of past values of the target that are held fixed. None chooses the smallest
        number, up to 10, that predicts held-out values almost as well as any, for each direction.
    lags
        The steps by which the source is earlier, such as ``range(1, 6)``. None means 1 to
        ``history``.
    time
        The time of each row, on a grid that may have gaps; rows need not be sorted. None means that
        every row is a step.
    group
        The recording of each row. The past of an instant is never in another recording.
    estimator, effort, discrete, numeric, folds, permutations, seed, device, precision
        As for :func:`mutual_information`. ``ksg`` is not supported.
    missing
        ``'drop'`` leaves out instants with a missing value; ``'error'`` refuses missing values.
    blocks
        The number of rows to leave out between contiguous folds. None computes it from the
        autocorrelation time.
    n_jobs
        The number of directions in parallel; None means all cores, or as many as the GPU needs.
    progress
        As for :func:`mutual_information`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=600)
    >>> y = np.roll(x, 1) + rng.normal(size=600)  # exactly ln(2)/2 = 0.347 nats
    >>> result = transfer_entropy(x, y, history=1, effort="quick")
    >>> bool(0.25 < result.forward.te < 0.45), result.forward.p_value < 0.01
    (True, True)
    >>> result.stronger.source
    'source'
    """
    start = perf_counter()
    check_indices(source=source, target=target, time=time, group=group)
    tables = [as_table(source, "source"), as_table(target, "target")]
    for name, table in zip(("source", "target"), tables):
        if len(table.names) != 1:
            advice = "transfer_network estimates all directions between columns"
            raise ValueError(f"{name} has {len(table.names)} columns; {advice}")
    if tables[0].rows != tables[1].rows:
        raise ValueError(
            f"source has {tables[0].rows} rows, but target has {tables[1].rows}; each row of source "
            "goes with the same row of target"
        )
    series = tables[0].beside(tables[1])
    if series.names[0] == series.names[1]:
        raise ValueError(
            f"source and target are both called '{series.names[0]}'; names must differ"
        )
    work = _Work.new(
        series.typed(selector_list(discrete, "discrete"), selector_list(numeric, "numeric")),
        (time, group),
        (history, lags, blocks),
        {"estimator": estimator, "effort": effort, "folds": folds}
        | {"permutations": permutations, "seed": seed},
        missing,
        execution(device, precision),
    )
    with progress_callback(progress) as callback:
        records = work.run(None, n_jobs, callback)
    for record in records:
        if record["problem"] is not None:
            raise ValueError(record["problem"])
    forward, backward = (TransferDirection._from_record(record) for record in records)
    network = TransferNetwork(tuple(series.names), records, work.plan, perf_counter() - start)
    return TransferEntropy(forward, backward, work.plan, network)


@explain_names()
def transfer_network(
    data: Any,
    *,
    columns: str | list[str] | None = None,
    history: int | None = None,
    lags: Iterable[int] | None = None,
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
) -> TransferNetwork:
    """Estimate the transfer entropy between all columns, in both directions, with adjusted p-values.

    If a direction cannot be estimated, its entry in the result has a ``problem``; the others are not
    affected.

    Parameters
    ----------
    data
        A table or an array whose columns are series.
    columns
        The columns to compare; by default all. Names, patterns or a list of them.
    history, lags, time, group, estimator, effort, discrete, numeric, missing, blocks, folds
        As for :func:`transfer_entropy`.
    permutations, seed, device, precision, n_jobs, progress
        As for :func:`transfer_entropy`.
    journal
        A file to which each finished direction is appended. If the process is killed, the same call
        continues with the directions that are not in the file. One process at a time can write to it.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(600, 3))
    >>> x[1:, 1] += x[:-1, 0]
    >>> network = transfer_network(x, history=1, estimator="copula")
    >>> [(found["from"], found["to"]) for found in network.directions if found["p_adjusted"] <= 0.05]
    [('x1', 'x2')]
    """
    start = perf_counter()
    check_indices(data=data, time=time, group=group)
    table = as_table(data, "x").typed(
        selector_list(discrete, "discrete"), selector_list(numeric, "numeric")
    )
    if columns is not None:
        table = table.select(_positions(table, columns, "columns"))
    if len(table.names) < 2:
        raise ValueError("there is one column; at least two are needed to compare")
    if len(set(table.names)) < len(table.names):
        raise ValueError("two columns have the same name; names must differ")
    work = _Work.new(
        table,
        (time, group),
        (history, lags, blocks),
        {"estimator": estimator, "effort": effort, "folds": folds}
        | {"permutations": permutations, "seed": seed},
        missing,
        execution(device, precision),
    )
    with (
        progress_callback(progress) as callback,
        open_journal(_native.TransferJournal, journal, work.heading) as log,
    ):
        directions = work.run(log, n_jobs, callback)
    return TransferNetwork(tuple(table.names), directions, work.plan, perf_counter() - start)


@dataclass(frozen=True)
class TransferJob:
    """One direction, as a job that can run in another process: it holds its own columns."""

    source: _native.Table
    target: dict[str, _native.Table | None]
    plan: str
    options: dict[str, Any]
    where: dict[str, Any]


def estimate_transfer(job: TransferJob) -> dict[str, Any]:
    """Return the estimate of a direction, or its ``problem``. It uses one thread."""
    text = _native.estimate_transfer(
        job.source, job.target, job.plan, job.options, job.where, raise_if_cancelled
    )
    estimate: dict[str, Any] = json.loads(text)
    return estimate


@dataclass(frozen=True)
class _Work:
    """Everything that defines the directions between the columns of a table."""

    table: _native.Table
    time: _native.Table | None
    group: _native.Table | None
    plan: dict[str, Any]
    options: dict[str, Any]
    where: dict[str, Any]

    @classmethod
    def new(
        cls,
        table: _native.Table,
        places: tuple[Any, Any],
        past: tuple[int | None, Iterable[int] | None, int | None],
        settings: dict[str, Any],
        missing: MissingOrConstant,
        where: dict[str, Any],
    ) -> _Work:
        """Return the work for these arguments; raise an error if it cannot be done."""
        history, lags, blocks = past
        directions = len(table.names) * (len(table.names) - 1)
        blocks = True if blocks is None else blocks
        estimate = announced_plan(**settings, blocks=blocks, tests=directions)
        plan = {
            "history": None if history is None else check_count(history, "history"),
            "lags": None if lags is None else sorted_lags(lags, "range(1, 6)", minimum=1),
            "estimate": estimate,
        }
        time, group = (
            None if place is None else single_column(place, name)
            for place, name in zip(places, ("time", "group"))
        )
        options = reading_options(None, None, missing, "error")
        if missing == "error":
            table.check_complete()
        work = cls(table, time, group, plan, options, where)
        _native.check_transfer(work.timed(table), as_json(plan, "plan"))
        return work

    def timed(self, series: _native.Table) -> dict[str, _native.Table | None]:
        """Return series with their times and recordings, for the native part."""
        return {"series": series, "time": self.time, "group": self.group}

    def heading(self) -> str:
        return series_heading(self.table, None, self.time, self.group, self.plan)

    def run(
        self,
        journal: _native.TransferJournal | None,
        n_jobs: int | None,
        callback: ProgressCallback | None,
    ) -> list[dict[str, Any]]:
        """Estimate the directions that are not in the journal. Return all of them in order."""
        plan = json.dumps(self.plan)
        columns = [self.table.select([k]) for k in range(len(self.table.names))]
        targets = [self.timed(column) for column in columns]
        keys = list(ordered_pairs(range(len(columns)), 2))

        def jobs(remaining: list[tuple[int, int]]) -> list[TransferJob]:
            plans = {
                j: _native.transfer_plan_for_target(targets[j], plan, raise_if_cancelled)
                for j in {j for _, j in remaining}
            }
            return [
                TransferJob(columns[i], targets[j], plans[j], self.options, self.where)
                for i, j in remaining
            ]

        concurrent = concurrent_jobs(self.where, self.table.rows)
        found = run_unfinished(keys, estimate_transfer, jobs, journal, n_jobs, concurrent, callback)
        text = _native.compare_transfers(json.dumps(found))
        directions: list[dict[str, Any]] = json.loads(text)
        return directions


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
