"""Mutual information from data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._blocks import Divergence, as_json, count, estimator_name, tell_notice
from ._inputs import as_table, check_index, selectors
from ._pair import Pair, estimate_pair
from ._parallel import in_parallel
from ._progress import Watch, watching
from ._result import Estimate

Effort = Literal["quick", "default", "max"]
Drop = Literal["drop", "error"]


def estimate_plan(
    *,
    estimator: str | Divergence = "auto",
    effort: Effort = "default",
    folds: int = 5,
    permutations: int = 999,
    seed: int = 0,
    blocks: int | None = None,
) -> dict[str, Any]:
    """Everything that decides an estimate but the data, as plain data.

    It can be changed, written to JSON, and given to :func:`mutual_information`.

    >>> plan = estimate_plan(effort="quick")
    >>> [recipe["name"] for recipe in plan["portfolio"]["recipes"]]
    ['fast', 'waves']
    """
    text = _native.estimate_plan(
        estimator_name(estimator),
        _text(effort, "effort"),
        count(folds, "folds"),
        count(permutations, "permutations"),
        count(seed, "seed"),
        None if blocks is None else count(blocks, "blocks"),
    )
    plan: dict[str, Any] = json.loads(text)
    return plan


def mutual_information(
    x: Any,
    y: Any,
    *,
    estimator: str | Divergence = "auto",
    effort: Effort = "default",
    discrete: str | list[str] | None = None,
    numeric: str | list[str] | None = None,
    missing: Drop = "error",
    constant: Drop = "error",
    blocks: int | None = None,
    folds: int = 5,
    permutations: int = 999,
    seed: int = 0,
    plan: Mapping[str, Any] | str | None = None,
    threads: int = 0,
    progress: bool | Watch | None = None,
) -> Estimate:
    """How much ``x`` tells about ``y``, in nats, with an interval, a test and a verdict.

    Every row is scored by critics that never saw it; what the critics look like is chosen by the
    loss on held-out rows.

    Parameters
    ----------
    x, y
        Rows in the same order: NumPy arrays, lists, pandas, polars or pyarrow tables and columns,
        or torch and jax tensors in the CPU's memory. Texts, truth values and categories are
        discrete; complex numbers count as two columns.
    estimator
        ``auto``, ``copula``, ``cca``, ``ksg``, or an estimator of the library such as ``gan-dime``,
        ``kl-dime``, ``mine`` or ``f:(u-1)^2/(u+1)``; :func:`fdime.names` lists them. A
        :class:`Divergence` stands for its f-DIME.
    effort
        ``quick`` (a second or two), ``default``, or ``max``.
    discrete, numeric
        Columns of numbers that are categories, or of texts that are numbers: names, patterns
        (``'x*'``) or a list of them. The columns of an array are called ``x1``, ``x2``, ..., or
        ``x`` alone if it has one dimension; the same for ``y``.
    missing, constant
        What to do with rows in which a value is missing, and with columns that are always the same:
        ``'error'``, or ``'drop'`` to leave them out.
    blocks
        For a time series: how many rows apart two rows must be to count as unrelated.
    folds, permutations, seed
        Folds of cross-fitting, permutations of the test of independence, and the seed of all
        randomness. The same seed gives the same numbers, whatever the number of threads.
    plan
        A plan as a whole (:func:`estimate_plan`, ``Estimate.plan``, or its JSON), in place of the arguments
        ``estimator``, ``effort``, ``blocks``, ``folds``, ``permutations`` and ``seed``.
    threads
        Threads of the processor; 0 means one for every core.
    progress
        True or False, or what to call with the share that is done. None shows a line after two
        seconds, on a terminal and in notebooks.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=1000)
    >>> y = x + rng.normal(size=1000)  # exactly ln(2)/2 = 0.347 nats
    >>> result = mutual_information(x, y, effort="quick")
    >>> 0.25 < result.mi < 0.45 and result.p_value < 0.01
    True
    >>> result.verdict.reliability
    'good'
    """
    check_index(x, y)
    left, right = as_table(x, "x"), as_table(y, "y")
    if plan is None:
        plan = estimate_plan(
            estimator=estimator,
            effort=effort,
            folds=folds,
            permutations=permutations,
            seed=seed,
            blocks=blocks,
        )
        tell_notice(estimator_name(estimator))
    options = reading(discrete, numeric, missing, constant)
    workers = count(threads, "threads")
    with watching(progress) as watch:
        answer = _native.estimate(left, right, as_json(plan, "plan"), options, workers, watch)
    return Estimate._of(answer)


def reading(
    discrete: str | list[str] | None,
    numeric: str | list[str] | None,
    missing: str,
    constant: str,
) -> dict[str, Any]:
    """How columns are read, as the native part takes it."""
    return {
        "discrete": selectors(discrete, "discrete"),
        "numeric": selectors(numeric, "numeric"),
        "missing": _text(missing, "missing"),
        "constant": _text(constant, "constant"),
    }


def _text(value: object, argument: str) -> str:
    if isinstance(value, str):
        return value
    raise TypeError(f"{argument}={value!r}: give a text")


def score_samples(
    model: _native.Model, x: Any, y: Any, *, missing: str, threads: int
) -> NDArray[np.float64]:
    """The log ratio of new rows, by saved critics."""
    check_index(x, y)
    sides = [as_table(x, "x"), as_table(y, "y")]
    for k, (role, names) in enumerate(zip("xy", model.names)):
        have = sides[k].names
        if have == names:
            continue
        trained = ", ".join(names[:8])
        if set(names) <= set(have) and len(set(have)) == len(have):
            # another order, or columns that were left out
            sides[k] = sides[k].select([have.index(name) for name in names])
        elif len(have) != len(names):
            raise ValueError(
                f"{role} has {len(have)} columns, but the critics were trained on {len(names)}: "
                f"{trained}"
            )
        elif not (_are_made_up(have, role) or _are_made_up(names, role)):
            raise ValueError(
                f"{role} has the columns {', '.join(have[:8])}, but the critics were trained on "
                f"{trained}"
            )
    return model.log_ratios(
        sides[0], sides[1], _text(missing, "missing"), count(threads, "threads")
    )


def _are_made_up(names: list[str], role: str) -> bool:
    """Whether names are those that the columns of an array get."""
    return names == [role] or names == [f"{role}{k + 1}" for k in range(len(names))]


#: Whole numbers with at most this many values are taken for categories by ``"auto"``.
_MOST_CLASSES = 20


@overload
def mutual_info_features(
    X: Any,
    y: Any,
    *,
    discrete_features: str | Sequence[int] | Sequence[bool] = ...,
    discrete_target: bool | Literal["auto"] = ...,
    missing: Drop = ...,
    estimator: str | Divergence = ...,
    effort: Effort = ...,
    permutations: int = ...,
    seed: int = ...,
    n_jobs: int | None = ...,
    p_values: Literal[False] = ...,
) -> NDArray[np.float64]: ...


@overload
def mutual_info_features(
    X: Any,
    y: Any,
    *,
    discrete_features: str | Sequence[int] | Sequence[bool] = ...,
    discrete_target: bool | Literal["auto"] = ...,
    missing: Drop = ...,
    estimator: str | Divergence = ...,
    effort: Effort = ...,
    permutations: int = ...,
    seed: int = ...,
    n_jobs: int | None = ...,
    p_values: Literal[True],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...


def mutual_info_features(
    X: Any,
    y: Any,
    *,
    discrete_features: str | Sequence[int] | Sequence[bool] = "auto",
    discrete_target: bool | Literal["auto"] = "auto",
    missing: Drop = "error",
    estimator: str | Divergence = "auto",
    effort: Effort = "quick",
    permutations: int = 999,
    seed: int = 0,
    n_jobs: int | None = None,
    p_values: bool = False,
) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mutual information between each feature and the target, in nats.

    In the place of scikit-learn's ``mutual_info_regression`` and ``mutual_info_classif``, for
    ``SelectKBest`` and its like. A feature that never changes has 0.

    Parameters
    ----------
    X
        Features: an array or a table, numbers and categories mixed.
    y
        The target: numbers or classes.
    discrete_features
        Positions or a mask of features that are categories. ``"auto"`` goes by their type: texts,
        truth values and categories are discrete.
    discrete_target
        Whether ``y`` holds classes. ``"auto"`` goes by its type, and takes whole numbers with at
        most 20 values for classes.
    missing
        What to do with missing values: ``'error'``, or ``'drop'`` to leave out, for each feature, the
        rows in which it or the target has none.
    estimator, effort, permutations, seed
        As for :func:`mutual_information`.
    n_jobs
        How many features at once; None means all cores. A backend chosen with
        ``joblib.parallel_config`` is used.
    p_values
        Whether to return the p-values of the tests of independence as well, for ``SelectFdr`` and
        its like.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(500, 3))
    >>> y = np.abs(X[:, 1]) > 0.7
    >>> int(np.argmax(mutual_info_features(X, y)))
    1
    """
    check_index(X, y)
    features, target = as_table(X, "x"), as_table(y, "y")
    if len(target.names) != 1:
        raise ValueError(f"y has {len(target.names)} columns; give one target")
    if features.rows != target.rows:
        raise ValueError(
            f"x has {features.rows} rows, but y has {target.rows}; each row of x goes with the "
            "same row of y"
        )
    if target.constant[0]:
        raise ValueError("y has the same value in every row; there is nothing to tell about it")
    if isinstance(discrete_target, (bool, np.bool_)):
        classes = bool(discrete_target)
    elif discrete_target == "auto":
        classes = target.few_whole_numbers(_MOST_CLASSES)[0]
    else:
        raise ValueError(f"discrete_target={discrete_target!r}: write True, False or 'auto'")
    target = _as_categories(target) if classes else target
    mask = _discrete_mask(discrete_features, len(features.names))
    plan = estimate_plan(estimator=estimator, effort=effort, permutations=permutations, seed=seed)
    if p_values and plan["method"] == "ksg":
        raise ValueError("estimator=ksg: it has no test of independence, hence no p-values")
    text = as_json(plan, "plan")
    _native.check_plan(text, features.rows)
    tell_notice(estimator_name(estimator))
    options = reading(None, None, missing, "error")
    # A feature that is the same in every row tells nothing; where values are missing, ask first.
    gaps = [lacks > 0 and missing != "drop" for lacks in features.missing]
    same = [constant and not gap for constant, gap in zip(features.constant, gaps)]
    places = [k for k, constant in enumerate(same) if not constant]
    jobs = []
    for k in places:
        feature = features.select([k])
        feature = _as_categories(feature) if mask[k] else feature
        sides = (features.names[k], feature), (target.names[0], target)
        jobs.append(Pair(*sides, text, options))
    scores, tests = np.zeros(len(mask)), np.ones(len(mask))
    for place, told in in_parallel(estimate_pair, jobs, n_jobs):
        if told["problem"] is not None:
            # Such columns are found beforehand; there is no argument for what rows leave of them.
            raise ValueError(
                told["problem"].replace(", or all such columns with constant='drop'", "")
            )
        scores[places[place]] = told["mi_nats"]
        tests[places[place]] = 1.0 if told["p_value"] is None else told["p_value"]
    return (scores, tests) if p_values else scores


def _as_categories(column: _native.Table) -> _native.Table:
    return column if column.discrete[0] else column.typed([column.names[0]], [])


def _discrete_mask(discrete: str | Sequence[int] | Sequence[bool], count: int) -> NDArray[np.bool_]:
    mask = np.zeros(count, dtype=bool)
    if isinstance(discrete, str):
        if discrete != "auto":
            problem = "write 'auto', positions or a mask"
            raise ValueError(f"discrete_features='{discrete}': {problem}")
        return mask
    chosen = np.asarray(discrete)
    if chosen.dtype == bool and chosen.shape == (count,):
        return chosen
    if chosen.size == 0:
        return mask
    within = chosen.dtype.kind in "iu" and bool(np.all((chosen >= 0) & (chosen < count)))
    if not within or chosen.ndim != 1:
        problem = f"positions from 0 to {count - 1}, or a mask of {count} truth values"
        raise ValueError(f"discrete_features={discrete!r}: give {problem}")
    mask[chosen] = True
    return mask
