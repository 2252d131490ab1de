"""Mutual information from data."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._arguments import as_json, as_text, check_count, explain_names, selector_list
from ._blocks import Divergence, estimator_name, warn, warn_of_notice
from ._execution import Device, Precision, execution
from ._inputs import as_table, check_index, has_names
from ._pair import Pair, estimate_pair
from ._parallel import concurrent_jobs, run_jobs
from ._progress import ProgressCallback, progress_callback
from ._result import Estimate

Effort = Literal["quick", "default", "max"]
#: Whether an estimate uses the chain rule: never, if it is large, or with this many blocks.
ChainChoice = Literal["off", "auto"] | int
#: The treatment of rows with missing values, and of constant columns.
MissingOrConstant = Literal["drop", "error"]


def estimate_plan(
    *,
    estimator: str | Divergence = "auto",
    effort: Effort = "default",
    folds: int = 5,
    permutations: int = 999,
    seed: int = 0,
    blocks: bool | int | None = None,
    chain: ChainChoice | None = None,
    tests: int = 1,
) -> dict[str, Any]:
    """Return the plan of an estimate: all settings that determine it, as plain data.

    A plan can be changed, written to JSON, and passed to :func:`mutual_information`.

    Parameters
    ----------
    estimator, effort, folds, permutations, seed, blocks, chain
        As for :func:`mutual_information`.
    tests
        The number of estimates whose p-values will be adjusted for each other; they need more
        permutations.

    Examples
    --------
    >>> plan = estimate_plan(effort="quick")
    >>> [recipe["name"] for recipe in plan["portfolio"]["recipes"]]
    ['large-steps', 'waves', 'no-reference']
    """
    automatic = isinstance(blocks, (bool, np.bool_))
    gap = None if blocks is None or automatic else check_count(blocks, "blocks")
    options = {
        "estimator": estimator_name(estimator),
        "effort": as_text(effort, "effort", get_args(Effort)),
        "folds": check_count(folds, "folds"),
        "permutations": check_count(permutations, "permutations"),
        "seed": check_count(seed, "seed"),
        "chain": None if chain is None else str(chain),
        "blocks": (bool(blocks) if automatic else blocks is not None, gap),
        "tests": check_count(tests, "tests"),
    }
    plan: dict[str, Any] = json.loads(_native.estimate_plan(options))
    return plan


#: The arguments that a plan replaces.
PLAN_SETTINGS = [name for name in inspect.signature(estimate_plan).parameters if name != "tests"]


def announced_plan(**settings: Any) -> dict[str, Any]:
    """Return the plan of these settings. Warn of what the user should know about the estimator."""
    plan = estimate_plan(**settings)
    warn_of_notice(estimator_name(settings["estimator"]))
    return plan


@explain_names(set_by_plan=PLAN_SETTINGS)
def mutual_information(
    x: Any,
    y: Any,
    *,
    given: Any = None,
    estimator: str | Divergence = "auto",
    effort: Effort = "default",
    discrete: str | list[str] | None = None,
    numeric: str | list[str] | None = None,
    missing: MissingOrConstant = "drop",
    constant: MissingOrConstant = "error",
    blocks: bool | int | None = None,
    chain: ChainChoice | None = None,
    folds: int = 5,
    permutations: int = 999,
    seed: int = 0,
    plan: Mapping[str, Any] | str | None = None,
    device: Device = "auto",
    precision: Precision | None = None,
    threads: int = 0,
    progress: bool | ProgressCallback | None = None,
) -> Estimate:
    """Estimate the mutual information between ``x`` and ``y``, in nats.

    The result has a 95% interval, a test of independence and a verdict on its reliability. Each row
    is scored by critics that were not trained on it. The critics are chosen by their loss on held-out
    rows.

    Parameters
    ----------
    x
        A row for each observation: a NumPy array, lists, a table or a column of pandas, polars or
        pyarrow, or a tensor of torch or jax in CPU memory. Text, booleans and categories are
        discrete. A complex column becomes two columns.
    y
        The other side, in the same order of rows.
    given
        Columns to hold fixed, in the same order of rows: the estimate is then the conditional mutual
        information I(x; y | given), what y adds about x beyond these columns. The result's ``given``
        shows how much they explain. The columns of an array are called ``given1``, ``given2``, ...
    estimator
        ``auto``, ``copula``, ``cca``, ``ksg``, or an estimator that trains a critic, such as
        ``gan-dime``, ``kl-dime``, ``mine`` or ``f:(u-1)^2/(u+1)``; :func:`fdime.names` lists them.
        A :class:`Divergence` stands for its f-DIME estimator.
    effort
        The amount of computation: ``quick`` (a second or two), ``default``, or ``max``.
    discrete
        Columns of numbers that are categories: names, patterns (``'x*'``) or a list of them. The
        columns of an array are called ``x1``, ``x2``, ..., or ``x`` if it has one dimension; the same
        for ``y``.
    numeric
        Columns of text that are numbers, named as for ``discrete``.
    missing
        ``'drop'`` leaves out rows with missing values; ``'error'`` refuses them.
    constant
        ``'drop'`` leaves out columns whose values are all equal; ``'error'`` refuses them.
    blocks
        For a time series: the number of rows to leave out between contiguous folds, so that rows of
        different folds are unrelated. True computes it from the autocorrelation time; the result's
        ``plan`` has the number.
    chain
        The chain rule for strong dependence: split a side into this many blocks of columns and add up
        what each block adds. ``'auto'`` does so if the estimate is above a third of ln n and the chain
        finds more; ``'off'`` never. None means ``'auto'``, or ``'off'`` with ``effort='quick'``. A
        chain of B blocks takes about 2B times as long; the result's ``chain`` has its terms.
    folds
        The number of folds of cross-fitting.
    permutations
        The number of permutations of the test of independence.
    seed
        The seed of all random numbers. The same seed gives the same numbers with any number of
        threads.
    plan
        A plan (:func:`estimate_plan`, ``Estimate.plan``, or its JSON) instead of the arguments
        ``estimator``, ``effort``, ``blocks``, ``chain``, ``folds``, ``permutations`` and ``seed``,
        which cannot be given beside it.
    device
        ``cpu``, ``cuda``, or ``auto`` for a GPU if there is one. Devices draw different random
        numbers, so their results differ as those of different seeds do.
    precision
        The precision of the GPU: ``tf32``, ``fp32`` or ``bf16``. None means ``tf32``.
    threads
        The number of threads on the CPU; 0 means one for each core.
    progress
        Whether to show a progress bar, or a function to call with the completed fraction, at last
        with 1. None shows a bar after two seconds, on a terminal and in notebooks.

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

    What y tells about x is all explained by z, which both depend on:

    >>> z = rng.normal(size=1000)
    >>> x, y = z + rng.normal(size=1000), z + rng.normal(size=1000)
    >>> mutual_information(x, y, given=z, estimator="copula").p_value > 0.05
    True
    """
    check_index(x, y)
    left, right = as_table(x, "x"), as_table(y, "y")
    held_fixed = None
    if given is not None:
        check_index(x, given, ("x", "given"))
        held_fixed = as_table(given, "given")
    if plan is None:
        plan = announced_plan(
            estimator=estimator,
            effort=effort,
            folds=folds,
            permutations=permutations,
            seed=seed,
            blocks=blocks,
            chain=chain,
        )
    text, options = as_json(plan, "plan"), reading_options(discrete, numeric, missing, constant)
    where = execution(device, precision, threads)
    with progress_callback(progress) as callback:
        answer = _native.estimate(left, right, held_fixed, text, options, where, callback)
    return Estimate._from_native(answer)


def reading_options(
    discrete: str | list[str] | None,
    numeric: str | list[str] | None,
    missing: str,
    constant: str,
) -> dict[str, Any]:
    """Return how columns are read, for the native part."""
    return {
        "discrete": selector_list(discrete, "discrete"),
        "numeric": selector_list(numeric, "numeric"),
        "missing": as_text(missing, "missing", get_args(MissingOrConstant)),
        "constant": as_text(constant, "constant", get_args(MissingOrConstant)),
    }


def score_samples(
    model: _native.Model, first: int | None, x: Any, y: Any, missing: str, where: dict[str, Any]
) -> NDArray[np.float64]:
    """Return the log ratios of new rows by trained critics.

    ``first`` is the number of the first of the columns without names in training, if known.
    """
    check_index(x, y)
    x_names, y_names = model.names
    x_table = _trained_columns(x, x_names, "x", first)
    y_table = _trained_columns(y, y_names, "y", first)
    options = reading_options(None, None, missing, "drop")
    ratios, notes = model.log_ratios(x_table, y_table, options["missing"], where)
    for note in notes:
        warn(note)
    return ratios


def _trained_columns(data: Any, trained: list[str], role: str, first: int | None) -> _native.Table:
    """Return the columns that critics were trained on, in their order."""
    table = as_table(data, role)
    names, count, shown = table.names, len(table.names), ", ".join(trained[:8])
    has_own_names = has_names(data) and names != [role]
    if names == trained or (not has_own_names and count == len(trained)):
        return table
    possible = [names]
    if not has_own_names:
        possible = [_numbered(names, k) for k in ((0, 1) if first is None else (first,))]
    fitting = [n for n in possible if set(trained) <= set(n) and len(set(n)) == count]
    if len(fitting) == 1:
        return table.select([fitting[0].index(name) for name in trained])
    if fitting or count != len(trained):
        raise ValueError(
            f"{role} has {count} columns, but the critics were trained on {len(trained)}: {shown}"
        )
    if trained == [role] or any(
        trained == [f"{role}{k + n}" for k in range(count)] for n in (0, 1)
    ):
        return table  # the columns had no names in training
    raise ValueError(
        f"{role} has the columns {', '.join(names[:8])}, but the critics were trained on {shown}"
    )


def _numbered(names: list[str], first: int) -> list[str]:
    """Return the names of an array's columns with numbers from ``first`` instead of 1."""
    return [re.sub(r"\d+$", lambda number: str(int(number[0]) - 1 + first), n) for n in names]


#: A target of whole numbers with at most this many different values is discrete by ``"auto"``.
_MAX_CLASSES = 20


@overload
def mutual_info_features(
    X: Any,
    y: Any,
    *,
    discrete_features: str | Sequence[int] | Sequence[bool] = ...,
    discrete_target: bool | Literal["auto"] = ...,
    missing: MissingOrConstant = ...,
    estimator: str | Divergence = ...,
    effort: Effort = ...,
    permutations: int = ...,
    seed: int = ...,
    device: Device = ...,
    precision: Precision | None = ...,
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
    missing: MissingOrConstant = ...,
    estimator: str | Divergence = ...,
    effort: Effort = ...,
    permutations: int = ...,
    seed: int = ...,
    device: Device = ...,
    precision: Precision | None = ...,
    n_jobs: int | None = ...,
    p_values: Literal[True],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...


@explain_names()
def mutual_info_features(
    X: Any,
    y: Any,
    *,
    discrete_features: str | Sequence[int] | Sequence[bool] = "auto",
    discrete_target: bool | Literal["auto"] = "auto",
    missing: MissingOrConstant = "drop",
    estimator: str | Divergence = "auto",
    effort: Effort = "quick",
    permutations: int = 999,
    seed: int = 0,
    device: Device = "auto",
    precision: Precision | None = None,
    n_jobs: int | None = None,
    p_values: bool = False,
) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Estimate the mutual information between each feature and the target, in nats.

    A replacement for scikit-learn's ``mutual_info_regression`` and ``mutual_info_classif``, for
    ``SelectKBest`` and similar selectors. A constant feature has 0, and so has one without any value,
    with a warning.

    Parameters
    ----------
    X
        Features: an array or a table, numeric and discrete ones mixed.
    y
        The target: numbers or classes.
    discrete_features
        Positions or a mask of discrete features. With ``"auto"``, features of text, booleans and
        categories are discrete.
    discrete_target
        Whether ``y`` holds classes. With ``"auto"``, text, booleans, categories and whole numbers
        with at most 20 different values are classes.
    missing
        ``'drop'`` leaves out, for each feature, the rows in which it or the target is missing;
        ``'error'`` refuses them.
    estimator, effort, permutations, seed, device, precision
        As for :func:`mutual_information`.
    n_jobs
        The number of features in parallel; None means all cores, or as many as the GPU needs. A backend chosen with
        ``joblib.parallel_config`` is used.
    p_values
        Whether to return the p-values of the tests of independence as well, for ``SelectFdr`` and
        similar selectors.

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
    features = as_table(X, "x")
    target = as_target(as_table(y, "y"), features.rows, discrete_target)
    mask = discrete_mask(discrete_features, len(features.names))
    plan = announced_plan(
        estimator=estimator,
        effort=effort,
        permutations=permutations,
        seed=seed,
        tests=len(mask) if p_values else 1,
    )
    if p_values and plan["method"] == "ksg":
        raise ValueError("estimator='ksg': it has no test of independence and so no p-values")
    text = as_json(plan, "plan")
    _native.check_plan(text, features.rows)
    # With "drop", a column that is constant in the rows used is an error without advice.
    options = reading_options(None, None, missing, "drop")
    varying = varying_features(features, missing)
    where, jobs = execution(device, precision), []
    for k in varying:
        feature = features.select([k])
        feature = as_categories(feature, [bool(mask[k])])
        x_and_y = (features.names[k], feature), (target.names[0], target)
        jobs.append(Pair(*x_and_y, text, options, where))
    scores, tests = np.zeros(len(mask)), np.ones(len(mask))
    for index, pair in run_jobs(estimate_pair, jobs, n_jobs, concurrent_jobs(where, features.rows)):
        if pair["problem"] is not None:
            raise ValueError(pair["problem"])
        scores[varying[index]] = pair["mi_nats"]
        tests[varying[index]] = 1.0 if pair["p_value"] is None else pair["p_value"]
    return (scores, tests) if p_values else scores


def varying_features(features: _native.Table, missing: str) -> list[int]:
    """Return the positions of the features that vary. Warn of those without any value."""
    if missing == "error":
        features.check_complete()
    empty = [n for n, gaps in zip(features.names, features.missing) if gaps == features.rows > 0]
    if empty:
        shown = ", ".join(map(repr, empty[:8])) + (", ..." if len(empty) > 8 else "")
        warn(f"features without any value, which are treated as constant ones: {shown}")
    return [k for k, constant in enumerate(features.constant) if not constant]


def as_target(target: _native.Table, rows: int, discrete: bool | Literal["auto"]) -> _native.Table:
    """Return the target, as categories if it holds classes."""
    if len(target.names) != 1:
        raise ValueError(f"y has {len(target.names)} columns; give one target")
    if rows != target.rows:
        raise ValueError(
            f"x has {rows} rows, but y has {target.rows}; each row of x goes with the same row of y"
        )
    if target.constant[0]:
        raise ValueError("y has the same value in every row, so its mutual information is 0")
    return with_classes(target, discrete)


def with_classes(target: _native.Table, discrete: bool | Literal["auto"]) -> _native.Table:
    """Return the target with columns of classes as categories."""
    if isinstance(discrete, (bool, np.bool_)):
        classes = [bool(discrete)] * len(target.names)
    elif discrete == "auto":
        classes = target.few_whole_numbers(_MAX_CLASSES)
    else:
        raise ValueError(f"discrete_target={discrete!r}: write True, False or 'auto'")
    return as_categories(target, classes)


def as_categories(table: _native.Table, chosen: Sequence[bool]) -> _native.Table:
    """Return a table with the chosen columns as categories."""
    names = zip(table.names, table.discrete, chosen)
    numbers = [name for name, discrete, converted in names if converted and not discrete]
    return table.typed(numbers, []) if numbers else table


def discrete_mask(discrete: str | Sequence[int] | Sequence[bool], count: int) -> NDArray[np.bool_]:
    """Return which of the features are discrete."""
    mask = np.zeros(count, dtype=bool)
    if isinstance(discrete, str):
        if discrete != "auto":
            raise ValueError(f"discrete_features='{discrete}': write 'auto', positions or a mask")
        return mask
    chosen = np.asarray(discrete)
    if chosen.dtype == bool and chosen.shape == (count,):
        return chosen
    if chosen.size == 0:
        return mask
    within = chosen.dtype.kind in "iu" and bool(np.all((chosen >= 0) & (chosen < count)))
    if not within or chosen.ndim != 1:
        expected = f"positions from 0 to {count - 1}, or a mask of {count} booleans"
        raise ValueError(f"discrete_features={discrete!r}: give {expected}")
    mask[chosen] = True
    return mask
