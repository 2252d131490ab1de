"""The capacity of a channel with a discrete input."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._arguments import as_json, explain_names
from ._blocks import Divergence
from ._estimate import PLAN_SETTINGS, Effort, MissingOrConstant, announced_plan, reading_options
from ._execution import Device, Precision, execution
from ._inputs import as_table, check_index
from ._progress import ProgressCallback, progress_callback
from ._result import Summarised, Verdict
from ._text import wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class ChannelCapacity(Summarised):
    """The capacity of a channel in nats, with its uncertainty and reliability.

    ``print`` shows the summary of the command line.
    """

    _command = "capacity"
    #: The capacity in nats, at most the logarithm of the number of levels.
    capacity: float
    #: The 95% interval, in nats.
    interval: tuple[float, float]
    #: The mutual information at the observed input distribution, in nats.
    mi: float
    #: Its 95% interval.
    mi_interval: tuple[float, float]
    #: The p-value of the test of independence of input and output.
    p_value: float | None
    #: The names of the levels of the input, numbers in ascending order.
    levels: tuple[str, ...]
    #: The number of rows of each level.
    level_rows: NDArray[np.int64]
    #: The share of the rows of each level.
    observed: NDArray[np.float64]
    #: The input distribution that attains the capacity.
    optimal: NDArray[np.float64]
    #: The divergence in nats between the outputs of each level and those of all levels with optimal
    #: shares: the capacity for levels in use, and no more for others.
    divergence: NDArray[np.float64]
    #: For all pairs of levels, the information in bits about which was sent, if equally likely. It is 0
    #: if they cannot be told apart, 1 if they always can.
    discriminability: NDArray[np.float64]
    #: The reliability, with reasons.
    verdict: Verdict
    #: The number of rows used.
    n_rows: int
    #: The number of rows dropped because of missing values.
    n_dropped: int
    #: The name of the estimator.
    estimator: str
    #: The names of the columns of the input.
    input: tuple[str, ...]
    #: The names of the columns of the output.
    output: tuple[str, ...]
    #: Remarks on how the data were read, such as columns that were left out.
    notes: tuple[str, ...]
    #: The settings; ``channel_capacity(input, output, plan=...)`` repeats the estimate.
    plan: dict[str, Any]
    #: The duration in seconds.
    seconds: float
    _json: str
    _summaries: tuple[str, str]

    @classmethod
    def _from_native(cls, answer: dict[str, Any]) -> ChannelCapacity:
        record = json.loads(answer["json"])
        levels = record["levels"]

        def values(key: str) -> NDArray[np.float64]:
            return np.array([level[key] for level in levels], dtype=np.float64)

        return cls(
            capacity=record["capacity_nats"],
            interval=(record["ci_low"], record["ci_high"]),
            mi=record["mi_nats"],
            mi_interval=(record["mi_ci_low"], record["mi_ci_high"]),
            p_value=record["p_value"],
            levels=tuple(level["level"] for level in levels),
            level_rows=np.array([level["rows"] for level in levels], dtype=np.int64),
            observed=values("share"),
            optimal=values("optimal_share"),
            divergence=values("divergence_nats"),
            discriminability=np.array(record["discriminability_bits"], dtype=np.float64),
            verdict=Verdict._from_record(record["verdict"]),
            n_rows=record["n_rows"],
            n_dropped=record["n_dropped"],
            estimator=record["estimator"],
            input=tuple(record["input"]),
            output=tuple(record["output"]),
            notes=tuple(record["notes"]),
            plan=record["plan"],
            seconds=record["seconds"],
            _json=answer["json"],
            _summaries=(wrapped(answer["summary"]), wrapped(answer["summary_bits"])),
        )

    @property
    def bits(self) -> float:
        """The capacity in bits."""
        return self.capacity / math.log(2.0)

    def plot(self, figure: Figure | None = None) -> Figure:
        """Plot the input distribution and the discriminability of levels with matplotlib."""
        from ._plot import plot_capacity

        return plot_capacity(self, figure)


@explain_names(set_by_plan=PLAN_SETTINGS)
def channel_capacity(
    input: Any,
    output: Any,
    *,
    estimator: str | Divergence = "auto",
    effort: Effort = "default",
    discrete: str | list[str] | None = None,
    numeric: str | list[str] | None = None,
    missing: MissingOrConstant = "drop",
    constant: MissingOrConstant = "error",
    blocks: bool | int | None = None,
    folds: int = 5,
    permutations: int = 999,
    seed: int = 0,
    plan: Mapping[str, Any] | str | None = None,
    device: Device = "auto",
    precision: Precision | None = None,
    threads: int = 0,
    progress: bool | ProgressCallback | None = None,
) -> ChannelCapacity:
    """Estimate the capacity of the channel from a discrete ``input`` to ``output``, in nats.

    The capacity is the largest mutual information over all distributions of the input: the information in
    the output about doses, symbols or stimuli if these have the optimal proportions.
    Critics that did not see a row score its output against every level of the input, and the
    algorithm of Blahut and Arimoto finds the optimal proportions.

    Parameters
    ----------
    input
        The levels, such as doses, one row for each observation. Numbers with few different values are
        levels too. With several columns, each combination of values is a level. Every level needs at
        least 20 rows.
    output
        The outputs in the same order, numbers or categories, in any number of columns.
    estimator
        As for :func:`mutual_information`, but not ``copula``, ``cca`` or ``ksg``, which need numbers.
    effort, missing, constant, blocks, folds, permutations, seed, device, precision, threads, progress
        As for :func:`mutual_information`.
    discrete
        As for :func:`mutual_information`. The columns of an array are called ``input1``, ``input2``,
        ..., or ``input`` if it has one dimension; the same for ``output``.
    numeric
        Columns of text that are numbers, named as for ``discrete``.
    plan
        A plan (:func:`estimate_plan`) instead of the arguments ``estimator``, ``effort``, ``blocks``,
        ``folds``, ``permutations`` and ``seed``, which cannot be given beside it.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> dose = rng.integers(0, 3, size=3000)
    >>> count = rng.poisson([0, 2, 9], size=(3000, 3))[np.arange(3000), dose]
    >>> result = channel_capacity(dose, count, effort="quick")
    >>> low, high = result.interval
    >>> low < 0.856 < high  # the exact capacity
    True
    >>> result.levels
    ('0', '1', '2')
    >>> bool(result.optimal[1] < result.optimal[0])
    True
    """
    check_index(input, output, ("input", "output"))
    left, right = as_table(input, "input"), as_table(output, "output")
    if plan is None:
        plan = announced_plan(
            estimator=estimator,
            effort=effort,
            folds=folds,
            permutations=permutations,
            seed=seed,
            blocks=blocks,
        )
    text, options = as_json(plan, "plan"), reading_options(discrete, numeric, missing, constant)
    where = execution(device, precision, threads)
    with progress_callback(progress) as callback:
        answer = _native.channel_capacity(left, right, text, options, where, callback)
    return ChannelCapacity._from_native(answer)
