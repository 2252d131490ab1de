"""Training runs on distributions with known mutual information."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._arguments import as_json, check_count, check_folder
from ._blocks import Divergence, estimator_name, level_text, warn_of_notice
from ._execution import Device, Precision, execution
from ._parallel import joblib_with_backend, run_jobs
from ._progress import ProgressCallback, progress_callback
from ._text import counted, table_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Staircase:
    """Every step of the runs of a staircase, and their summary."""

    #: The estimators, in the order of the plan.
    estimators: tuple[str, ...]
    #: The exact mutual information at every iteration.
    true_mi: NDArray[np.float64] = field(repr=False)
    #: For each estimator an array (runs, iterations) of estimates in nats; NaN once a run has diverged.
    estimates: dict[str, NDArray[np.float64]] = field(repr=False)
    #: For each estimator an array (runs, iterations) of the objective.
    values: dict[str, NDArray[np.float64]] = field(repr=False)
    #: A dictionary for each level that at least one run finished, with ``estimator, true_mi, mean,
    #: bias, variance, mse, window, runs, mean_spread``. ``bias`` is \|mean - true\|. With a chain also
    #: ``terms``: for each term ``term, block, with_x, mean, variance``. The mean is the sum of the
    #: terms ``with_x``, I(X, Y_<b; Y_b), less the others, I(Y_<b; Y_b).
    summary: list[dict[str, Any]]
    #: A dictionary for each run that diverged, with ``estimator, seed, iteration``, and the ``term``
    #: of a chain.
    failures: list[dict[str, Any]]
    #: The settings; ``staircase(plan=...)`` repeats the runs.
    plan: dict[str, Any] = field(repr=False)
    #: With a chain, for each estimator and term an array (runs, iterations) of estimates, whose signed
    #: sum is that of ``estimates``; otherwise empty.
    terms: dict[str, dict[str, NDArray[np.float64]]] = field(default_factory=dict, repr=False)

    def to_pandas(self) -> Any:
        """Return the summary as a pandas DataFrame, a row for each estimator and level, without terms."""
        import pandas

        return pandas.DataFrame(self.summary).drop(columns="terms", errors="ignore")

    def __str__(self) -> str:
        rows = [
            {"estimator": row["estimator"], "true nats": f"{row['true_mi']:.3f}"}
            | {name: f"{row[name]:.3f}" for name in ("mean", "bias", "variance", "mse")}
            for row in self.summary
        ]
        iterations = self.plan["schedule"]["iterations"]
        lines = [
            f"{counted(self.plan['runs'], 'run')} of {counted(len(self.estimators), 'estimator')}, "
            f"{iterations} iterations for each level; the last {self.plan['last']} are summarised"
        ]
        if self.failures:
            lines.append(
                f"diverged: {counted(len({(one['estimator'], one['seed']) for one in self.failures}), 'run')}"
            )
        return "\n".join([*lines, *table_lines(rows)])

    __repr__ = __str__

    def plot(self, figure: Figure | Axes | None = None) -> Figure:
        """Plot the first run of each estimator with matplotlib; with a chain, also its terms."""
        from ._plot import plot_staircase

        return plot_staircase(self, figure)


def staircase_plan(
    estimator: str | Divergence | Sequence[str | Divergence] | None = None,
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
    learning_rate_schedule: str | None = None,
    chain: int | Sequence[Sequence[int]] | None = None,
    link: str | None = None,
    readout: str | None = None,
    runs: int | None = None,
    last: int | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """Return the plan of a staircase: all settings of its runs, as plain data.

    Settings that are not given are those of ``plan``, or the paper's.

    Parameters
    ----------
    estimator
        One or several names, or a :class:`Divergence` for its f-DIME estimator; by default
        ``kl-dime``, ``gan-dime`` and ``hd-dime``.
    plan
        An earlier plan or its JSON, whose settings the other arguments change.
    scenario
        The distribution of the samples; :func:`names` lists them.
    dim
        The dimension of x and of y.
    levels
        The steps of the staircase: nats, or texts such as ``"rho=0.8"``.
    critic
        ``joint``, ``separable``, ``deranged`` or ``conv``.
    pairing
        The way to make marginal pairs: ``all-pairs``, ``derangement``, ``shift`` or ``permutation``.
    hidden
        The widths of the hidden layers.
    embedding
        The number of outputs of each network of the separable critic.
    activation
        ``relu``, ``elu`` or ``softplus``.
    batch
        The number of samples in a training step.
    iterations
        The number of iterations at each level.
    learning_rate
        The learning rate of Adam.
    learning_rate_schedule
        ``constant`` or ``warm-up-and-cosine``.
    chain
        Splits y into blocks of columns: a number of blocks, or the columns of each block, counted
        from 0.
    link
        The function from scores to log density ratios, instead of the estimator's.
    readout
        The function from log density ratios to the estimate, instead of the estimator's.
    runs
        The number of runs of each estimator, with consecutive seeds.
    last
        The number of final iterations of each level, from which bias and variance are computed.
    seed
        The seed of the first run.

    Examples
    --------
    >>> plan = staircase_plan("kl-dime", dim=2, levels=[1, 2], iterations=100)
    >>> plan["schedule"]
    {'levels': ['mi=1', 'mi=2'], 'iterations': 100}
    >>> staircase_plan("kl-dime", dim=3, chain=[[2], [0, 1]])["chain"]
    [[2], [0, 1]]
    """
    if isinstance(estimator, (str, Divergence)) or callable(estimator):
        estimator = [estimator]
    if isinstance(levels, (int, float, str)):
        levels = [levels]
    if isinstance(hidden, str) or not isinstance(hidden, (Iterable, type(None))):
        raise TypeError(f"hidden={hidden!r}: give the widths of the layers, e.g. [256, 256]")
    options = {
        "estimators": None if estimator is None else [estimator_name(e) for e in estimator],
        "scenario": scenario,
        "dim": _optional_count(dim, "dim"),
        "levels": None if levels is None else [level_text(level) for level in levels],
        "critic": critic,
        "pairing": pairing,
        "hidden": None if hidden is None else [check_count(width, "hidden") for width in hidden],
        "embedding": _optional_count(embedding, "embedding"),
        "activation": activation,
        "batch": _optional_count(batch, "batch"),
        "iterations": _optional_count(iterations, "iterations"),
        "learning_rate": learning_rate,
        "learning_rate_schedule": learning_rate_schedule,
        "chain": _chain(chain),
        "link": link,
        "readout": readout,
        "runs": _optional_count(runs, "runs"),
        "last": _optional_count(last, "last"),
        "seed": _optional_count(seed, "seed"),
    }
    base = None if plan is None else as_json(plan, "plan")
    text = _native.staircase_plan(base, as_json(options, "staircase"))
    changed: dict[str, Any] = json.loads(text)
    return changed


def _optional_count(value: int | None, argument: str) -> int | None:
    return None if value is None else check_count(value, argument)


def _chain(chain: Any) -> int | list[list[int]] | None:
    if chain is None:
        return None
    nested = isinstance(chain, Iterable) and not isinstance(chain, (str, bytes))
    if not nested:
        return check_count(chain, "chain")
    blocks = list(chain)
    if not all(isinstance(b, Iterable) and not isinstance(b, (str, bytes)) for b in blocks):
        raise TypeError(f"chain={chain!r}: give a number of blocks, or a list of columns for each")
    return [[check_count(column, "chain") for column in block] for block in blocks]


def staircase(
    estimator: str | Divergence | Sequence[str | Divergence] | None = None,
    *,
    device: Device = "auto",
    precision: Precision | None = None,
    threads: int = 0,
    n_jobs: int | None = None,
    log: str | os.PathLike[str] | None = None,
    progress: bool | ProgressCallback | None = None,
    **options: Any,
) -> Staircase:
    """Train estimators on a staircase of known mutual information; measure bias and variance.

    With ``chain=B`` an estimate is a sum over B blocks of y's columns, by the chain rule
    I(X; Y) = sum_b [I(X, Y_<b; Y_b) - I(Y_<b; Y_b)]. Each term is trained separately and is
    usually much smaller than the whole, so more information can be estimated; a run is then 2B - 1 trainings.

    Parameters
    ----------
    estimator
        One or several names, or a :class:`Divergence` for its f-DIME estimator; by default
        ``kl-dime``, ``gan-dime`` and ``hd-dime``.
    device, precision
        As for :func:`mutual_information`.
    threads
        The number of threads; 0 means one for each core. On a joblib backend each run has one.
    n_jobs
        The number of parallel runs on a backend chosen with ``joblib.parallel_config``. Without a
        backend, runs share the threads of this process.
    log
        A file to which each finished run is appended, as with ``fdime staircase --log``; runs that
        are already in it are not repeated. It cannot be used with a joblib backend.
    progress
        As for :func:`mutual_information`.
    **options
        The other arguments of :func:`staircase_plan`: ``plan``, ``scenario``, ``dim``, ``levels``,
        ``critic``, ``pairing``, ``hidden``, ``batch``, ``iterations``, ``learning_rate``,
        ``learning_rate_schedule``, ``chain``, ``runs``, ``seed``, ...

    Examples
    --------
    >>> result = staircase("gan-dime", dim=1, levels=[0.5], iterations=300, hidden=[32, 32],
    ...                    learning_rate=5e-3, last=100, device="cpu")
    >>> result.estimates["gan-dime"].shape
    (1, 300)
    >>> abs(result.summary[0]["mean"] - 0.5) < 0.3
    True

    The chain rule over two blocks of y:

    >>> result = staircase("gan-dime", dim=2, levels=[1], iterations=300, hidden=[32, 32], chain=2,
    ...                    learning_rate=5e-3, learning_rate_schedule="warm-up-and-cosine",
    ...                    last=100, device="cpu")
    >>> [term["term"] for term in result.summary[0]["terms"]]
    ['I(X; Y_1)', 'I(X, Y_1; Y_2)', 'I(Y_1; Y_2)']
    >>> result.terms["gan-dime"]["I(X, Y_1; Y_2)"].shape
    (1, 300)
    """
    if log is not None:
        check_folder(log)
    plan = staircase_plan(estimator, **options)
    plans = _native.run_plans(json.dumps(plan))
    where = execution(device, precision, threads)
    with progress_callback(progress) as callback:
        if joblib_with_backend() is None:
            traces = _native.execute(plans, where, log, callback)
        elif log is not None:
            raise ValueError(
                "log cannot be used with a joblib backend, which has several processes"
            )
        else:
            jobs = [_Run(text, {**where, "threads": 1}) for text in plans]
            traces = _execute_on_backend(jobs, n_jobs, callback)
    for entry in plan["estimators"]:
        warn_of_notice(entry["name"])
    return _result(plan, traces)


@dataclass(frozen=True)
class _Run:
    """One run, as a job that can run in another process."""

    plan: str
    where: dict[str, Any]


def _execute_one(job: _Run) -> _native.Trace:
    (trace,) = _native.execute([job.plan], job.where, None, None)
    return trace


def _execute_on_backend(
    jobs: list[_Run], n_jobs: int | None, callback: ProgressCallback | None
) -> list[_native.Trace]:
    traces: dict[int, _native.Trace] = {}
    for index, trace in run_jobs(_execute_one, jobs, n_jobs):
        traces[index] = trace
        if callback is not None:
            callback(len(traces) / len(jobs))
    return [traces[index] for index in range(len(jobs))]


def _result(plan: dict[str, Any], traces: list[_native.Trace]) -> Staircase:
    count = plan["runs"]
    iterations = len(plan["schedule"]["levels"]) * plan["schedule"]["iterations"]
    labels = _labels([estimator["name"] for estimator in plan["estimators"]])
    true_mi = np.repeat(traces[0].true_mi, plan["schedule"]["iterations"])
    result = Staircase(labels, true_mi, {}, {}, [], [], plan)
    runs = _native.combine(json.dumps(plan), traces)
    for k, name in enumerate(labels):
        own = runs[k * count : (k + 1) * count]
        sums = [run.trace for run in own]
        result.estimates[name] = np.stack([_padded(t.estimates, iterations) for t in sums])
        result.values[name] = np.stack([_padded(t.values, iterations) for t in sums])
        for level in json.loads(_native.summarise(own, plan["last"])):
            result.summary.append({"estimator": name, **level})
        terms = [run.terms for run in own]
        for of_term in zip(*terms):
            values = np.stack([_padded(trace.estimates, iterations) for _, trace in of_term])
            result.terms.setdefault(name, {})[of_term[0][0]] = values
        for index, trace in enumerate(sums):
            # The sum of a chain ends with the first of its terms; each that diverged is named.
            ended = [({"term": term}, part) for term, part in terms[index]] or [({}, trace)]
            for term, part in ended:
                if part.diverged_at is not None:
                    failure = {"estimator": name, "seed": plan["seed"] + index, **term}
                    result.failures.append({**failure, "iteration": part.diverged_at})
    return result


def _labels(names: list[str]) -> tuple[str, ...]:
    """Return distinct labels: names that occur more than once, as with two links, get a number."""
    seen: dict[str, int] = {}
    labels = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        labels.append(name if names.count(name) == 1 else f"{name} ({seen[name]})")
    return tuple(labels)


def _padded(values: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    return np.concatenate([values, np.full(length - len(values), np.nan)])
