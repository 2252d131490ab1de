"""Selection of features."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._arguments import as_json, as_text, check_count, explain_names
from ._blocks import Divergence
from ._estimate import (
    Effort,
    MissingOrConstant,
    announced_plan,
    as_categories,
    as_target,
    discrete_mask,
    reading_options,
    varying_features,
)
from ._execution import Device, Precision, execution
from ._inputs import as_table, check_index
from ._progress import ProgressCallback, progress_callback
from ._result import saved_record
from ._text import counted, p_value_cell, p_value_text, table_lines

#: What decides which feature is chosen next.
Criterion = Literal["forward", "cmim", "jmi", "mrmr"]

_DEFAULT_K = 10


@dataclass(frozen=True)
class SelectedFeature:
    """A chosen feature; information is in nats."""

    #: Its place in the selection, from 1.
    rank: int
    #: Its name.
    feature: str
    #: Its position among the columns of X, from 0.
    column: int
    #: What it adds to the features before it, I(f; y | these).
    gain: float
    #: The 95% interval of the gain.
    interval: tuple[float, float]
    #: Its information by itself, I(f; y).
    alone: float
    #: ``alone - gain``, how much of it is already in the features before it. It is negative if they make
    #: the feature more informative.
    redundancy: float
    #: The p-value of the test of the gain; for a pair, of the gain of both.
    p_value: float
    #: The p-value times the number of candidates.
    p_adjusted: float
    #: The value of the criterion; for a pair, the gain of both.
    score: float
    #: The other feature, if the two were chosen as a pair.
    partner: str | None


@dataclass(frozen=True)
class Selection:
    """The chosen features, in the order of their choice."""

    #: The features.
    features: tuple[SelectedFeature, ...]
    #: Why there are no more. ``reason`` is ``complete``, or ``nothing-left`` with the best ``features``
    #: that were left, their ``gain_nats`` and ``p_adjusted``.
    end: dict[str, Any]
    #: The names of all features.
    candidates: tuple[str, ...] = field(repr=False)
    _record: dict[str, Any] = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the chosen features."""
        return tuple(feature.feature for feature in self.features)

    @property
    def columns(self) -> NDArray[np.intp]:
        """The positions of the chosen features among the columns of X."""
        return np.array([feature.column for feature in self.features], dtype=np.intp)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, as ``fdime select --json`` prints it; ``fdime report`` reads it."""
        return self._record

    def to_pandas(self) -> Any:
        """Return the features as a pandas DataFrame, one row each, like a ``.csv`` file of ``fdime select``."""
        import pandas

        return pandas.DataFrame(self._record["features"])

    def __str__(self) -> str:
        lines = [f"{len(self.features)} of {counted(len(self.candidates), 'feature')}"]
        if self.end["reason"] == "nothing-left":
            best = " with ".join(self.end["features"])
            lines[0] += (
                f"; no other has a significant gain (best: {best}, {p_value_text(self.end['p_adjusted'])})"
            )
        rows = [
            {
                "rank": str(found.rank),
                "feature": found.feature,
                "+nats": f"{found.gain:.3f}",
                "95% interval": f"{found.interval[0]:.3f} to {found.interval[1]:.3f}",
                "alone": f"{found.alone:.3f}",
                "redundancy": f"{found.redundancy:.3f}",
                "p adj": p_value_cell(found.p_adjusted),
            }
            for found in self.features
        ]
        return "\n".join([*lines, *table_lines(rows)])

    __repr__ = __str__


@explain_names()
def select_features(
    X: Any,
    y: Any,
    k: int | None = None,
    *,
    criterion: Criterion = "forward",
    discrete_features: str | Sequence[int] | Sequence[bool] = "auto",
    discrete_target: bool | Literal["auto"] = "auto",
    missing: MissingOrConstant = "drop",
    estimator: str | Divergence = "auto",
    effort: Effort = "quick",
    blocks: bool | int | None = None,
    folds: int = 5,
    permutations: int = 999,
    seed: int = 0,
    device: Device = "auto",
    precision: Precision | None = None,
    threads: int = 0,
    progress: bool | ProgressCallback | None = None,
) -> Selection:
    """Choose the features that are most informative about a target, without redundant ones.

    Features are chosen one after the other. Every gain is tested; if none of the remaining features
    adds significantly (5%, adjusted for their number), the selection ends. A constant feature is never
    chosen, nor one without any value, with a warning.

    Parameters
    ----------
    X
        Features: an array or a table, numeric and discrete ones mixed.
    y
        The target: numbers or classes.
    k
        The maximum number of features; None means 10, or all if there are fewer.
    criterion
        The criterion for the next feature f, with s for the features chosen before: ``forward``,
        I(f; y \\| all s), which also tries pairs if no feature adds alone; ``cmim``, the smallest
        I(f; y \\| s); ``jmi``, the mean I(f, s; y); ``mrmr``, I(f; y) minus the mean I(f; s).
    discrete_features, discrete_target
        As for :func:`mutual_info_features`.
    missing
        ``'drop'`` leaves out the rows in which any feature or the target is missing; ``'error'``
        refuses them.
    estimator
        As for :func:`mutual_information`. ``'copula'`` is much faster, for numeric features and
        targets with monotonic dependence.
    permutations
        The permutations of each test. More are made where many candidates need them for a significant
        test.
    effort, blocks, folds, seed, device, precision, threads, progress
        As for :func:`mutual_information`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 4))
    >>> X[:, 3] = X[:, 0] + 0.3 * rng.normal(size=500)  # a copy of the first with noise
    >>> y = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=500)
    >>> selection = select_features(X, y, estimator="copula")
    >>> sorted(selection.names)
    ['x1', 'x2']
    """
    start = perf_counter()
    check_index(X, y)
    features = as_table(X, "x")
    target = as_target(as_table(y, "y"), features.rows, discrete_target)
    mask = discrete_mask(discrete_features, len(features.names))
    plan = announced_plan(
        estimator=estimator,
        effort=effort,
        folds=folds,
        permutations=permutations,
        seed=seed,
        blocks=blocks,
    )
    varying = varying_features(features, missing)
    if len(varying) < 2:
        found = "only one feature varies" if varying else "no feature varies"
        raise ValueError(f"{found}; a selection needs at least two that do")
    table = as_categories(features.select(varying), [bool(mask[k]) for k in varying])
    count = min(_DEFAULT_K, len(varying)) if k is None else check_count(k, "k")
    with progress_callback(progress) as callback:
        text = _native.select_features(
            table,
            target,
            count,
            as_text(criterion, "criterion", get_args(Criterion)),
            as_json(plan, "plan"),
            reading_options(None, None, missing, "error"),
            execution(device, precision, threads),
            callback,
        )
    answer = json.loads(text)
    for record in answer["features"]:
        record["column"] = varying[record["column"]]
    fields = {"y": target.names[0], **answer, "candidates": features.names}
    fields["plan"] = {"k": count, "criterion": criterion, "estimate": plan}
    return Selection(
        tuple(_feature(record) for record in answer["features"]),
        answer["end"],
        tuple(features.names),
        saved_record("select", fields, perf_counter() - start),
    )


def _feature(record: dict[str, Any]) -> SelectedFeature:
    """Return the feature of a record."""
    return SelectedFeature(
        rank=record["rank"],
        feature=record["feature"],
        column=record["column"],
        gain=record["gain_nats"],
        interval=(record["ci_low"], record["ci_high"]),
        alone=record["alone_nats"],
        redundancy=record["redundancy_nats"],
        p_value=record["p_value"],
        p_adjusted=record["p_adjusted"],
        score=record["score_nats"],
        partner=record["partner"],
    )
