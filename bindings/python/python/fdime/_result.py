"""What comes out of an estimate."""

from __future__ import annotations

import html
import json
import math
import os
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._native import Model

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _wrapped(paragraphs: list[tuple[bool, str]]) -> str:
    """Wraps paragraphs, each with whether it is an item of a list, to lines of 80 characters."""

    def filled(item: bool, text: str) -> str:
        first, rest = ("  - ", "    ") if item else ("", "  ")
        return textwrap.fill(
            text,
            80,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )

    return "\n".join(filled(item, text) for item, text in paragraphs)


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

    def __str__(self) -> str:
        return "\n".join([self.reliability, *(f"  - {reason.text}" for reason in self.reasons)])


@dataclass(frozen=True)
class Fold:
    """One fold: critics learn on some rows, stop by others, and score these."""

    #: Rows that critics were fitted to.
    train_rows: int
    #: Rows that stopped them.
    validation_rows: int
    #: Rows that they never saw, and score.
    test_rows: int
    #: The mean log ratio of the test rows, in nats.
    mi: float
    #: Its standard error.
    standard_error: float
    #: The mean log ratio of training rows. Far above ``mi`` it means overfitting.
    train_mi: float
    #: The critics, each with its recipe, weight and learning curve.
    critics: list[dict[str, Any]] = field(repr=False)


class Critics:
    """Trained critics, which give new rows a log ratio: :attr:`Estimate.critics`, or a saved folder.

    >>> import numpy as np, tempfile, fdime
    >>> x = np.random.default_rng(0).normal(size=100)
    >>> result = fdime.mutual_information(x, x + 1.0, estimator="copula")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.critics.save(folder + "/critics")
    ...     critics = fdime.Critics.load(folder + "/critics")
    >>> bool((critics.score_samples(x, x + 1.0) > 0).all())
    True
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Critics:
        """Reads a folder that :meth:`save`, or ``fdime estimate --save``, wrote."""
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"{os.fspath(folder)}: there is no such folder of critics")
        return cls(Model.load(folder))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes a folder, which the command line's ``fdime apply`` reads too."""
        self._model.save(folder)

    @property
    def mi(self) -> float:
        """The estimate that they come from, in nats."""
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
        self, x: Any, y: Any, *, missing: str = "error", threads: int = 0
    ) -> NDArray[np.float64]:
        """The log ratio of new rows, in nats, averaged over the folds' critics."""
        from ._estimate import score_samples

        return score_samples(self._model, x, y, missing=missing, threads=threads)

    def __repr__(self) -> str:
        return f"Critics(x={', '.join(self.x[:4])}; y={', '.join(self.y[:4])})"


@dataclass(frozen=True, eq=False)
class Estimate:
    """A mutual information in nats, how sure it is, and whether to believe it.

    ``print`` shows what the command line shows; notebooks show a card.
    """

    #: The estimate in nats, not negative, and no more than the entropy of a discrete side.
    mi: float
    #: The 95% interval, in nats.
    interval: tuple[float, float]
    #: Of the test of independence; None for a method without one (``ksg``).
    p_value: float | None
    #: The log ratio ln p(x,y)/(p(x)p(y)) of every row, by critics that never saw it; NaN for rows
    #: that were left out.
    pointwise: NDArray[np.float64] = field(repr=False)
    #: Whether to believe it, with reasons.
    verdict: Verdict
    #: Figures of the folds.
    folds: tuple[Fold, ...]
    #: What the readout gave, which is below 0 by chance when there is no dependence.
    unclipped: float
    #: The Donsker-Varadhan readout of the same critics.
    lower_bound: float | None
    #: What classical estimators say of the same data, in nats.
    baselines: dict[str, float | None]
    #: The mean log ratio of random pairings, which the test compares with; None without a test.
    null: NDArray[np.float64] | None = field(repr=False)
    #: The mean log ratio of the observed pairs among those permuted.
    observed: float | None
    #: Rows used.
    n_rows: int
    #: Rows left out because a value was missing.
    n_dropped: int
    #: How it was made.
    estimator: str
    #: The names of the columns.
    x: tuple[str, ...]
    y: tuple[str, ...]
    #: Everything that decides the numbers but the data; ``mutual_information(plan=...)`` takes it.
    plan: dict[str, Any] = field(repr=False)
    #: How long it took.
    seconds: float
    #: The critics, for :meth:`score_samples`; None for a method without (``ksg``).
    critics: Critics | None = field(repr=False)
    _json: str = field(repr=False)
    _summaries: tuple[str, str] = field(repr=False)

    @classmethod
    def _of(cls, answer: dict[str, Any]) -> Estimate:
        told = json.loads(answer["json"])
        folds = (
            Fold(
                train_rows=fold["rows"]["train"],
                validation_rows=fold["rows"]["validation"],
                test_rows=fold["rows"]["test"],
                mi=fold["mi_nats"],
                standard_error=fold["standard_error"],
                train_mi=fold["train_mi_nats"],
                critics=fold["members"],
            )
            for fold in told["folds"]
        )
        verdict = told["verdict"]
        reasons = tuple(Reason(**reason) for reason in verdict["reasons"])
        return cls(
            mi=told["mi_nats"],
            interval=(told["ci_low"], told["ci_high"]),
            p_value=told["p_value"],
            pointwise=answer["pointwise"],
            verdict=Verdict(verdict["reliability"], reasons),
            folds=tuple(folds),
            unclipped=told["unclipped_nats"],
            lower_bound=told["lower_bound_nats"],
            baselines={
                "gaussian_copula": told["baselines"]["gaussian_copula_nats"],
                "ksg": told["baselines"]["ksg_nats"],
            },
            null=answer["null"],
            observed=answer["observed"],
            n_rows=told["n_rows"],
            n_dropped=told["n_dropped"],
            estimator=told["estimator"],
            x=tuple(told["x"]),
            y=tuple(told["y"]),
            plan=told["plan"],
            seconds=told["seconds"],
            critics=None if answer["model"] is None else Critics(answer["model"]),
            _json=answer["json"],
            _summaries=(_wrapped(answer["summary"]), _wrapped(answer["summary_bits"])),
        )

    @property
    def bits(self) -> float:
        """The estimate in bits."""
        return self.mi / math.log(2.0)

    def summary(self, *, bits: bool = False) -> str:
        """What the command line prints, in nats or in bits."""
        return self._summaries[bits]

    def __str__(self) -> str:
        return self.summary()

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: what ``fdime estimate --json`` prints."""
        told: dict[str, Any] = json.loads(self._json)
        return told

    def score_samples(
        self, x: Any, y: Any, *, missing: str = "error", threads: int = 0
    ) -> NDArray[np.float64]:
        """The log ratio of new rows, in nats, averaged over the folds' critics."""
        if self.critics is None:
            raise ValueError(f"estimator={self.estimator}: it has no critics to score rows with")
        return self.critics.score_samples(x, y, missing=missing, threads=threads)

    def _repr_html_(self) -> str:
        low, high = self.interval
        # The interval on a line from 0 to a little above its end.
        scale = 220.0 / max(high * 1.1, 1e-9)
        colour = {"good": "#16a34a", "fair": "#ca8a04", "doubtful": "#ef4444"}
        if self.p_value is None:
            test = "no test of independence"
        else:
            found = "dependent" if self.p_value <= 0.05 else "no dependence found"
            test = f"{found} (p = {self.p_value:.3g})"
        reasons = "".join(f"<li>{html.escape(r.text)}</li>" for r in self.verdict.reasons)
        names = [", ".join(s[:4]) + (", ..." if len(s) > 4 else "") for s in (self.x, self.y)]
        dropped = f", {self.n_dropped} left out" if self.n_dropped else ""
        folds = "".join(
            f"<tr><td>{k + 1}</td><td>{fold.test_rows}</td><td>{fold.mi:.3f}</td>"
            f"<td>{fold.train_mi:.3f}</td></tr>"
            for k, fold in enumerate(self.folds)
        )
        table = (
            "<details><summary>folds</summary><table><tr><th>fold</th><th>rows</th>"
            f"<th>held out</th><th>training</th></tr>{folds}</table></details>"
            if folds
            else ""
        )
        return (
            '<div style="font:14px system-ui,sans-serif;border:1px solid #8884;border-radius:8px;'
            'padding:10px 14px;max-width:560px;line-height:1.5">'
            f'<div style="opacity:.75">I({html.escape(names[0])}; {html.escape(names[1])})</div>'
            f'<div><b style="font-size:24px">{self.mi:.3f} nats</b> '
            f"({self.bits:.3f} bits), 95% interval {low:.3f} to {high:.3f}</div>"
            '<svg width="240" height="22" role="img" aria-label="the interval and the estimate">'
            '<line x1="10" x2="230" y1="11" y2="11" stroke="#8888"/>'
            f'<line x1="{10 + low * scale:.1f}" x2="{10 + high * scale:.1f}" y1="11" y2="11" '
            'stroke="#3b82f6" stroke-width="6" stroke-linecap="round"/>'
            f'<circle cx="{10 + self.mi * scale:.1f}" cy="11" r="5" fill="#f97316"/></svg>'
            f"<div>{test}; reliability: "
            f'<b style="color:{colour[self.verdict.reliability]}">{self.verdict.reliability}</b>'
            f"</div>{f'<ul>{reasons}</ul>' if reasons else ''}"
            f'<div style="opacity:.75">{self.n_rows} rows{dropped}; estimator '
            f"{html.escape(self.estimator)}; {self.seconds:.1f} s</div>{table}</div>"
        )

    def plot(self, figure: Figure | None = None) -> Figure:
        """Pointwise information, the null distribution and learning curves, with matplotlib."""
        from ._plot import estimate

        return estimate(self, figure)
