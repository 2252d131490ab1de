"""How many rows does a study need?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native
from ._arguments import as_json, as_text, check_count, explain_names
from ._blocks import Divergence, level_text
from ._estimate import Effort, estimate_plan
from ._execution import Device, Precision, execution
from ._progress import ProgressCallback, progress_callback
from ._result import Summarised
from ._text import wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class StudySize:
    """What estimates of simulated tables with one number of rows show.

    Amounts are medians over tables, in nats.
    """

    #: The number of rows.
    rows: int
    #: The number of simulated tables.
    tables: int
    #: The number of tables in which the test rejected independence.
    rejected: int
    #: The power, from a curve through all sizes if rows were searched for, else the share of tables
    #: in which the test rejected.
    power: float
    #: The estimate.
    mi: float
    #: Its 95% interval.
    interval: tuple[float, float]
    #: The width of the interval.
    width: float
    #: The share of tables whose interval contains the true value.
    coverage: float
    #: The share of tables whose estimate has the verdict ``good``.
    good: float

    @classmethod
    def _from_record(cls, record: dict[str, Any]) -> StudySize:
        same = ("rows", "tables", "rejected", "power", "coverage", "good")
        return cls(
            mi=record["mi_nats"],
            interval=(record["ci_low"], record["ci_high"]),
            width=record["width_nats"],
            **{key: record[key] for key in same},
        )


@dataclass(frozen=True, eq=False, repr=False)
class PowerAnalysis(Summarised):
    """The power of the test of independence, simulated; ``print`` shows the command line's summary."""

    _command = "power"
    #: The number of rows that a study needs; None if the numbers of rows were given.
    rows: int | None
    #: The 95% interval of that number, which is uncertain because the simulated tables are finitely many.
    rows_interval: tuple[int, int] | None
    #: What estimates of about that many rows show.
    typical: StudySize | None
    #: What was found with each number of rows, in ascending order.
    sizes: tuple[StudySize, ...]
    #: The mutual information of the simulated tables, in nats.
    mi: float
    #: The numbers of columns of x and of y.
    dim: tuple[int, int]
    #: The level of the test.
    alpha: float
    #: The settings.
    plan: dict[str, Any]
    #: The duration in seconds.
    seconds: float
    _json: str
    _summaries: tuple[str, str]

    @classmethod
    def _from_native(cls, answer: dict[str, Any]) -> PowerAnalysis:
        record = json.loads(answer["json"])
        needed = record["needed"]
        return cls(
            rows=needed and needed["rows"],
            rows_interval=needed and (needed["rows_low"], needed["rows_high"]),
            typical=needed and StudySize._from_record(needed["typical"]),
            sizes=tuple(StudySize._from_record(size) for size in record["sizes"]),
            mi=record["mi_nats"],
            dim=tuple(record["columns"]),
            alpha=record["alpha"],
            plan=record["plan"],
            seconds=record["seconds"],
            _json=answer["json"],
            _summaries=(wrapped(answer["summary"]), wrapped(answer["summary_bits"])),
        )

    def plot(self, figure: Figure | None = None) -> Figure:
        """Plot power and intervals against the number of rows with matplotlib."""
        from ._plot import plot_power

        return plot_power(self, figure)


@explain_names()
def power_analysis(
    mi: float | str,
    *,
    dim: int | str | Sequence[int] = 1,
    pairs: int | None = None,
    power: float = 0.8,
    rows: int | Iterable[int] | None = None,
    alpha: float = 0.05,
    tables: int = 400,
    scenario: str = "gaussian",
    estimator: str | Divergence = "auto",
    effort: Effort = "quick",
    folds: int = 5,
    permutations: int = 999,
    seed: int = 0,
    device: Device = "auto",
    precision: Precision | None = None,
    threads: int = 0,
    progress: bool | ProgressCallback | None = None,
) -> PowerAnalysis:
    """Simulate how many rows a study needs to detect a dependence.

    Tables are drawn from a distribution with known mutual information and estimated; the power is the
    share of them in which the test of independence rejects.

    Parameters
    ----------
    mi
        The mutual information to detect: nats, or a text such as ``"rho=0.3"``.
    dim
        The numbers of columns of x and of y, such as ``(5, 2)`` or ``"5+2"``; one number means both.
    pairs
        The number of pairs of columns that share the information equally; all others are noise. None
        means the smaller of the two dimensions.
    power
        The required power: the function searches for the number of rows that achieves it.
    rows
        Compute the power with these numbers of rows instead.
    alpha
        The level of the test.
    tables
        The number of simulated tables, in total or for each of ``rows``.
    scenario
        The distribution of the tables; :func:`names` lists them.
    estimator, effort, folds, permutations, seed, device, precision, threads, progress
        As for :func:`mutual_information`.

    Examples
    --------
    >>> study = power_analysis("rho=0.5", rows=[30, 120], estimator="copula", tables=60)
    >>> study.sizes[0].power < study.sizes[1].power
    True
    """
    columns = _dimensions(dim)
    shared = min(columns) if pairs is None else check_count(pairs, "pairs")
    sizes = rows if rows is None or isinstance(rows, Iterable) else [rows]
    plan = estimate_plan(
        estimator=estimator, effort=effort, folds=folds, permutations=permutations, seed=seed
    )
    with progress_callback(progress) as callback:
        answer = _native.power_analysis(
            (as_text(scenario, "scenario"), shared),
            level_text(mi),
            columns,
            float(power),
            None if sizes is None else [check_count(size, "rows") for size in sizes],
            float(alpha),
            check_count(tables, "tables"),
            as_json(plan, "plan"),
            execution(device, precision, threads),
            callback,
        )
    return PowerAnalysis._from_native(answer)


def _dimensions(dim: int | str | Sequence[int]) -> tuple[int, int]:
    """Return the numbers of columns of x and of y."""
    if isinstance(dim, str):
        sides = [int(part) if part.strip().isdecimal() else part for part in dim.split("+")]
    else:
        sides = list(dim) if isinstance(dim, Sequence) else [dim]
    if len(sides) not in (1, 2):
        raise ValueError(f"dim={dim!r}: give one number, or two such as (5, 2) or '5+2'")
    return check_count(sides[0], "dim"), check_count(sides[-1], "dim")
