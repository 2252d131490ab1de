"""Results of estimates."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ._arguments import check_folder
from ._execution import Device, Precision, execution
from ._native import Model, __version__
from ._text import Record, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Reason:
    """A warning about an estimate."""

    #: A short name that does not change between versions.
    code: str
    #: The highest reliability with this warning, ``good``, ``fair`` or ``doubtful``.
    limits_to: str
    #: The finding and what to do, in a sentence.
    text: str


@dataclass(frozen=True)
class Verdict:
    """The reliability of an estimate with the reasons for it."""

    #: ``good``, ``fair`` or ``doubtful``, the lowest that a reason allows.
    reliability: str
    #: The reasons, most serious first.
    reasons: tuple[Reason, ...]

    @classmethod
    def _from_record(cls, record: dict[str, Any]) -> Verdict:
        return cls(record["reliability"], tuple(Reason(**reason) for reason in record["reasons"]))

    def __str__(self) -> str:
        return "\n".join([self.reliability, *(f"  - {reason.text}" for reason in self.reasons)])


@dataclass(frozen=True)
class Fold:
    """One fold of cross-fitting."""

    #: The number of rows that its critics were trained on.
    train_rows: int
    #: The number of rows that stopped their training.
    validation_rows: int
    #: The number of held-out rows, which they score.
    test_rows: int
    #: The mean log ratio of the test rows, in nats.
    mi: float
    #: Its standard error.
    standard_error: float
    #: The mean log ratio of training rows; far above ``mi`` it shows overfitting.
    train_mi: float
    #: The critics, each with its recipe, weight and learning curve.
    critics: list[dict[str, Any]] = field(repr=False)

    @classmethod
    def _from_record(cls, record: dict[str, Any]) -> Fold:
        return cls(
            train_rows=record["rows"]["train"],
            validation_rows=record["rows"]["validation"],
            test_rows=record["rows"]["test"],
            mi=record["mi_nats"],
            standard_error=record["standard_error"],
            train_mi=record["train_mi_nats"],
            critics=record["members"],
        )


@dataclass(frozen=True)
class ChainTerm:
    """The estimate of one term of the chain rule."""

    #: The term as a formula, such as ``I(X, Y_1; Y_2)``.
    term: str
    #: The number of its block, from 1.
    block: int
    #: Whether it is added or subtracted.
    is_added: bool
    #: Its estimate, in nats.
    mi: float
    #: Its mean of normalised log ratios.
    lower_bound: float
    #: The difference between the training rows' mean log ratio and that of held-out rows.
    gap: float

    @classmethod
    def _from_record(cls, record: dict[str, Any]) -> ChainTerm:
        return cls(**{key.removesuffix("_nats"): value for key, value in record.items()})


@dataclass(frozen=True)
class Chain:
    """The terms of an estimate by the chain rule, whose signed sum is the estimate."""

    #: The side that was split, ``x`` or ``y``.
    side: str
    #: The names of each block's columns, in the order of the chain.
    blocks: tuple[tuple[str, ...], ...]
    #: The terms.
    terms: tuple[ChainTerm, ...]
    #: The estimate without a chain, in nats.
    direct: float

    @classmethod
    def _from_record(cls, record: dict[str, Any]) -> Chain:
        return cls(
            side=record["side"],
            blocks=tuple(tuple(names) for names in record["blocks"]),
            terms=tuple(ChainTerm._from_record(term) for term in record["terms"]),
            direct=record["direct_nats"],
        )


@dataclass(frozen=True)
class Given:
    """What the columns that are held fixed explain of x and y."""

    #: The names of these columns.
    columns: tuple[str, ...]
    #: The estimate of I(x; y) without them, in nats.
    unconditional: float
    #: The share of the variance of x that they predict in held-out rows; None for categories.
    explained_x: float | None
    #: The same for y.
    explained_y: float | None
    #: The mutual information of these columns and the residual of x, in nats.
    remaining: float
    #: The p-value of a test of whether this residual is independent of them within the neighbourhoods
    #: of the test of conditional independence. If it is small, that test may reject too often.
    neighbourhood_p_value: float

    @classmethod
    def _from_record(cls, record: dict[str, Any]) -> Given:
        figures = {key.removesuffix("_nats"): value for key, value in record.items()}
        return cls(**{**figures, "columns": tuple(record["columns"])})


class Critics:
    """Trained critics, which score new rows. They are :attr:`Estimate.critics`, or a saved file.

    Columns are matched by name, and those without names by position.

    >>> import numpy as np, tempfile, fdime
    >>> x = np.random.default_rng(0).normal(size=100)
    >>> result = fdime.mutual_information(x, x + 1.0, estimator="copula")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.critics.save(folder + "/critics.safetensors")
    ...     critics = fdime.Critics.load(folder + "/critics.safetensors")
    >>> bool((critics.score_samples(x, x + 1.0) > 0).all())
    True
    """

    def __init__(self, model: Model, first: int | None = None) -> None:
        self._model = model
        #: The number of the first of the columns without names; None if it is not known.
        self._first = first

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Critics:
        """Read a file that :meth:`save` or ``fdime estimate --save`` wrote."""
        if not os.path.exists(path):
            raise FileNotFoundError(f"{os.fspath(path)}: there is no such file of critics")
        return cls(Model.load(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file, which ``fdime apply`` also reads."""
        check_folder(path)
        self._model.save(path)

    @property
    def mi(self) -> float:
        """The estimate that they were trained for, in nats; the one without a chain."""
        return self._model.mi

    @property
    def x(self) -> tuple[str, ...]:
        """The columns of x that they need."""
        return tuple(self._model.names[0])

    @property
    def y(self) -> tuple[str, ...]:
        """The columns of y that they need."""
        return tuple(self._model.names[1])

    def score_samples(
        self,
        x: Any,
        y: Any,
        *,
        missing: str = "drop",
        device: Device = "auto",
        precision: Precision | None = None,
        threads: int = 0,
    ) -> NDArray[np.float64]:
        """Return the log ratios of new rows in nats, averaged over the folds' critics."""
        from ._estimate import score_samples

        where = execution(device, precision, threads)
        return score_samples(self._model, self._first, x, y, missing, where)

    def __repr__(self) -> str:
        return f"Critics(x={', '.join(self.x[:4])}; y={', '.join(self.y[:4])})"


def saved_record(command: str, fields: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return what ``--json`` of a command prints, which ``fdime report`` reads."""
    return {"command": command, **fields, "seconds": seconds, "version": __version__}


def grid(
    records: Iterable[Record],
    key: str,
    ends: tuple[str, str],
    rows: Sequence[str],
    columns: Sequence[str],
) -> NDArray[np.float64]:
    """Return a value of records as an array, from the first of their ends to the second; else NaN."""
    values = np.full((len(rows), len(columns)), np.nan)
    row_of, column_of = ({name: k for k, name in enumerate(side)} for side in (rows, columns))
    for record in records:
        row, column = (record[end] for end in ends)
        if row in row_of and column in column_of and record[key] is not None:
            values[row_of[row], column_of[column]] = record[key]
    return values


class Summarised:
    """A result that prints as the command line does."""

    #: The command with the same results.
    _command: ClassVar[str]
    _json: str
    _summaries: tuple[str, str]

    def summary(self, *, bits: bool = False) -> str:
        """Return the summary of the command line, in nats or in bits."""
        return self._summaries[bits]

    def __str__(self) -> str:
        return self.summary()

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, as ``--json`` of the command line prints it; ``fdime report`` reads it."""
        record: dict[str, Any] = json.loads(self._json)
        return {"command": self._command, **record}


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(Summarised):
    """An estimate of mutual information in nats, with its uncertainty and reliability.

    ``print`` shows the summary of the command line; notebooks show a card.
    """

    _command = "estimate"
    #: The estimate in nats, at least 0 and at most the entropy of a discrete side.
    mi: float
    #: The 95% interval, in nats.
    interval: tuple[float, float]
    #: The p-value of the test of independence; None for ``ksg``, which has no test.
    p_value: float | None
    #: The log ratio ln p(x,y)/(p(x)p(y)) of each row, by critics that were not trained on it; NaN for
    #: dropped rows.
    pointwise: NDArray[np.float64] = field(repr=False)
    #: The reliability, with reasons.
    verdict: Verdict
    #: The folds of cross-fitting; with a chain, their figures are sums over its terms.
    folds: tuple[Fold, ...]
    #: The terms of the chain rule, if the estimate is their sum.
    chain: Chain | None
    #: What the columns that are held fixed tell; None unless the estimate is conditional.
    given: Given | None
    #: The estimate before it is limited; without dependence it can be slightly negative.
    unclipped: float
    #: The mean of normalised log ratios, a lower bound for every critic. With a chain it is that of the
    #: added terms, less the subtracted ones and what their critics may have missed.
    lower_bound: float | None
    #: Classical estimates from the same data, in nats.
    baselines: dict[str, float | None]
    #: The mean log ratios of random pairings, the null distribution of the test; None without a test.
    null: NDArray[np.float64] | None = field(repr=False)
    #: The mean log ratio of the observed pairs, which the test compares with ``null``.
    observed: float | None
    #: The number of rows used.
    n_rows: int
    #: The number of rows dropped because of missing values.
    n_dropped: int
    #: The name of the estimator.
    estimator: str
    #: The names of the columns of x.
    x: tuple[str, ...]
    #: The names of the columns of y.
    y: tuple[str, ...]
    #: Remarks on how the data were read, such as columns that were left out, and on the critics.
    notes: tuple[str, ...]
    #: The settings; ``mutual_information(x, y, plan=...)`` repeats the estimate.
    plan: dict[str, Any] = field(repr=False)
    #: The duration in seconds.
    seconds: float
    #: The critics of the estimate without a chain, for :meth:`score_samples`; None for ``ksg``,
    #: for counts and for conditional estimates.
    critics: Critics | None = field(repr=False)
    _json: str
    _summaries: tuple[str, str]

    @classmethod
    def _from_native(cls, answer: dict[str, Any]) -> Estimate:
        record = json.loads(answer["json"])
        baselines = record["baselines"]
        return cls(
            mi=record["mi_nats"],
            interval=(record["ci_low"], record["ci_high"]),
            p_value=record["p_value"],
            pointwise=answer["pointwise"],
            verdict=Verdict._from_record(record["verdict"]),
            folds=tuple(Fold._from_record(fold) for fold in record["folds"]),
            chain=Chain._from_record(record["chain"]) if "chain" in record else None,
            given=Given._from_record(record["given"]) if "given" in record else None,
            unclipped=record["unclipped_nats"],
            lower_bound=record["lower_bound_nats"],
            baselines={key.removesuffix("_nats"): value for key, value in baselines.items()},
            null=answer["null"],
            observed=answer["observed"],
            n_rows=record["n_rows"],
            n_dropped=record["n_dropped"],
            estimator=record["estimator"],
            x=tuple(record["x"]),
            y=tuple(record["y"]),
            notes=tuple(record["notes"]),
            plan=record["plan"],
            seconds=record["seconds"],
            critics=None if answer["model"] is None else Critics(answer["model"], first=1),
            _json=answer["json"],
            _summaries=(wrapped(answer["summary"]), wrapped(answer["summary_bits"])),
        )

    @property
    def bits(self) -> float:
        """The estimate in bits."""
        return self.mi / math.log(2.0)

    def __float__(self) -> float:
        """Return the estimate, in nats."""
        return self.mi

    def score_samples(
        self,
        x: Any,
        y: Any,
        *,
        missing: str = "drop",
        device: Device = "auto",
        precision: Precision | None = None,
        threads: int = 0,
    ) -> NDArray[np.float64]:
        """Return the log ratios of new rows in nats, averaged over the folds' critics."""
        if self.critics is None:
            of = "given" if self.given else f"estimator='{self.estimator}'"
            raise ValueError(f"{of}: such an estimate has no critics to score new rows with")
        return self.critics.score_samples(
            x, y, missing=missing, device=device, precision=precision, threads=threads
        )

    def _repr_html_(self) -> str:
        from ._html import card

        return card(self)

    def plot(self, figure: Figure | Axes | None = None) -> Figure:
        """Plot pointwise information, the null distribution and learning curves with matplotlib.

        The figure is a new one or a given one. Axes are enough for ``ksg``, which has one panel.
        """
        from ._plot import plot_estimate

        return plot_estimate(self, figure)
