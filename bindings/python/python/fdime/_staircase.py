"""Training runs on distributions with known mutual information."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._blocks import (
    Divergence,
    FdimeWarning,
    as_json,
    count,
    estimator_name,
    level_text,
    tell_notice,
)
from ._parallel import _chosen_joblib, in_parallel
from ._progress import Watch, watching

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Staircase:
    """What happened at every step of every run."""

    #: The estimators, in the order of the plan.
    estimators: tuple[str, ...]
    #: The exact mutual information at every iteration.
    true_mi: NDArray[np.float64] = field(repr=False)
    #: For each estimator an array (runs, iterations) of estimates in nats; NaN after a run diverged.
    estimates: dict[str, NDArray[np.float64]] = field(repr=False)
    #: For each estimator an array (runs, iterations) of the objective's values.
    values: dict[str, NDArray[np.float64]] = field(repr=False)
    #: For each level that a run finished, ``estimator, true_mi, mean, bias, variance, mse, window,
    #: runs, mean_spread``. ``bias`` is the magnitude of mean - true.
    summary: list[dict[str, Any]]
    #: Runs that diverged, ``estimator, seed, iteration``.
    failures: list[dict[str, Any]]
    #: Everything that defines the runs; ``staircase(plan=...)`` runs it again.
    plan: dict[str, Any] = field(repr=False)

    def plot(self, figure: Figure | None = None) -> Figure:
        """The first run of each estimator, with matplotlib."""
        from ._plot import staircase

        return staircase(self, figure)


def staircase_plan(
    estimators: str | Divergence | Sequence[str | Divergence] | None = None,
    *,
    plan: Mapping[str, Any] | str | None = None,
    scenario: str | None = None,
    dim: int | None = None,
    levels: Sequence[float | str] | None = None,
    critic: str | None = None,
    pairing: str | None = None,
    hidden: Sequence[int] | None = None,
    embedding: int | None = None,
    activation: str | None = None,
    batch: int | None = None,
    iterations: int | None = None,
    learning_rate: float | None = None,
    link: str | None = None,
    readout: str | None = None,
    runs: int | None = None,
    last: int | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """A plan as plain data: the paper's settings with what the arguments ask for.

    With ``plan``, an earlier one or its JSON, in place of the paper's settings.

    >>> plan = staircase_plan("kl-dime", dim=2, levels=[1, 2], iterations=100)
    >>> plan["schedule"]
    {'levels': ['mi=1', 'mi=2'], 'iterations': 100}
    """
    if isinstance(estimators, (str, Divergence)) or callable(estimators):
        estimators = [estimators]
    if isinstance(levels, (int, float, str)):
        levels = [levels]
    if isinstance(hidden, str) or not isinstance(hidden, (Iterable, type(None))):
        raise TypeError(f"hidden={hidden!r}: give the widths of the layers, e.g. [256, 256]")
    options = {
        "estimators": None if estimators is None else [estimator_name(e) for e in estimators],
        "scenario": scenario,
        "dim": _counted(dim, "dim"),
        "levels": None if levels is None else [level_text(level) for level in levels],
        "critic": critic,
        "pairing": pairing,
        "hidden": None if hidden is None else [count(width, "hidden") for width in hidden],
        "embedding": _counted(embedding, "embedding"),
        "activation": activation,
        "batch": _counted(batch, "batch"),
        "iterations": _counted(iterations, "iterations"),
        "learning_rate": learning_rate,
        "link": link,
        "readout": readout,
        "runs": _counted(runs, "runs"),
        "last": _counted(last, "last"),
        "seed": _counted(seed, "seed"),
    }
    base = None if plan is None else as_json(plan, "plan")
    made: dict[str, Any] = json.loads(_native.staircase_plan(base, as_json(options, "staircase")))
    return made


def _counted(value: int | None, argument: str) -> int | None:
    return None if value is None else count(value, argument)


def staircase(
    estimators: str | Divergence | Sequence[str | Divergence] | None = None,
    *,
    device: str = "auto",
    precision: str | None = None,
    threads: int = 0,
    n_jobs: int | None = None,
    progress: bool | Watch | None = None,
    **options: Any,
) -> Staircase:
    """Trains estimators on a staircase of known mutual information and measures bias and variance.

    Parameters
    ----------
    estimators
        Names, or a :class:`Divergence` for its f-DIME; the paper's three by default.
    device, precision
        ``cpu``, ``cuda``, or ``auto`` for a GPU where there is one; ``fp32``, ``tf32`` or ``bf16``
        on a GPU.
    threads
        Threads of the processor; 0 means one for every core. A job of a backend has one.
    n_jobs
        Runs at once on a backend chosen with ``joblib.parallel_config``; without one, runs share
        the threads of this process.
    progress
        As for :func:`mutual_information`.
    options
        Those of :func:`staircase_plan`: ``plan``, ``scenario``, ``dim``, ``levels``, ``critic``,
        ``pairing``, ``hidden``, ``batch``, ``iterations``, ``learning_rate``, ``runs``, ``seed``, ...

    Examples
    --------
    >>> result = staircase("gan-dime", dim=1, levels=[0.5], iterations=300, hidden=[32, 32],
    ...                    learning_rate=5e-3, last=100, device="cpu")
    >>> result.estimates["gan-dime"].shape
    (1, 300)
    >>> abs(result.summary[0]["mean"] - 0.5) < 0.3
    True
    """
    plan = staircase_plan(estimators, **options)
    plans = _native.run_plans(json.dumps(plan))
    if _chosen_joblib() is not None:
        jobs = [_Run(text, device, precision) for text in plans]
        traces: list[Any] = [None] * len(plans)
        notices: list[str] = []
        with watching(progress) as watch:
            for done, (place, told) in enumerate(in_parallel(_execute_one, jobs, n_jobs), 1):
                traces[place] = told[0]
                notices += told[1]
                if watch is not None:
                    watch(done / len(jobs))
    else:
        workers = count(threads, "threads")
        with watching(progress) as watch:
            traces, notices = _native.execute(plans, device, precision, workers, watch)
    for estimator in plan["estimators"]:
        tell_notice(estimator["name"])
    for notice in dict.fromkeys(notices):
        warnings.warn(notice, FdimeWarning, stacklevel=2)
    return _gathered(plan, traces)


@dataclass(frozen=True)
class _Run:
    plan: str
    device: str
    precision: str | None


def _execute_one(job: _Run) -> tuple[_native.Trace, list[str]]:
    (trace,), notices = _native.execute([job.plan], job.device, job.precision, 1, None)
    return trace, notices


def _gathered(plan: dict[str, Any], traces: list[_native.Trace]) -> Staircase:
    runs = plan["runs"]
    iterations = len(plan["schedule"]["levels"]) * plan["schedule"]["iterations"]
    titles = _titles([estimator["name"] for estimator in plan["estimators"]])
    true_mi = np.repeat(traces[0].true_mi, plan["schedule"]["iterations"])
    result = Staircase(titles, true_mi, {}, {}, [], [], plan)
    for k, name in enumerate(titles):
        own = traces[k * runs : (k + 1) * runs]
        result.estimates[name] = np.stack([_padded(t.estimates, iterations) for t in own])
        result.values[name] = np.stack([_padded(t.values, iterations) for t in own])
        for level in json.loads(_native.summarise(own, plan["last"])):
            result.summary.append({"estimator": name, **level})
        for index, trace in enumerate(own):
            if trace.diverged_at is not None:
                failure = {"estimator": name, "seed": plan["seed"] + index}
                result.failures.append({**failure, "iteration": trace.diverged_at})
    return result


def _titles(names: list[str]) -> tuple[str, ...]:
    """Names as keys: an estimator that is there twice (with two links, say) gets a number."""
    count = {name: names.count(name) for name in names}
    seen: dict[str, int] = {}
    titles = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        titles.append(name if count[name] == 1 else f"{name} ({seen[name]})")
    return tuple(titles)


def _padded(values: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    return np.concatenate([values, np.full(length - len(values), np.nan)])
