"""Building blocks for researchers: divergences, objectives, and scenarios with known MI."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native
from ._arguments import check_count
from ._expression import trace_expression


class FdimeWarning(UserWarning):
    """A remark about the arguments of a call, for example about a changed f."""


def warn(message: str) -> None:
    """Warn at the line outside this package that led here."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, FdimeWarning, stacklevel=level)


def warn_of_notice(estimator: str) -> None:
    """Warn if there is something that the user should know about an estimator."""
    notice = _native.notice(estimator)
    if notice is not None:
        warn(f"{estimator}: {notice}")


def names() -> dict[str, dict[str, str]]:
    """Return every name that an argument accepts, with a description, by kind.

    >>> sorted(names()["pairings"])
    ['all-pairs', 'derangement', 'permutation', 'shift']
    """
    return _native.names()


class Divergence:
    """An f-divergence, by its name or by its generator f(u).

    With the log density ratio l, the f-DIME value function is E_joint[a(l)] - E_marginal[b(l)],
    where a(l) = f'(e^l) and b(l) = e^l a(l) - f(e^l).

    Parameters
    ----------
    f
        A name (``kl``, ``gan``, ``hd``, ...), an expression in u (``"u*ln(u)"``), or a function of u
        made of arithmetic and NumPy functions, which is converted to an expression.

    Examples
    --------
    >>> import numpy as np
    >>> kl = Divergence("kl")
    >>> float(kl.a(0.0))
    1.0
    >>> own = Divergence(lambda u: (u - 1) ** 2 / (u + 1))
    >>> own.estimator
    'f:((u-1)^2)/(u+1)'
    >>> bool(np.allclose(own.b_slope(0.3), np.exp(0.3) * own.a_slope(0.3)))
    True
    """

    def __init__(self, f: str | Callable[[Any], Any]) -> None:
        if callable(f):
            name = "f:" + trace_expression(f)
        elif isinstance(f, str):
            known = f in _native.names()["divergences"] or f.startswith(("f:", "alpha-"))
            name = f if known or "u" not in f or f.isidentifier() else "f:" + f
        else:
            raise TypeError(f"f={f!r}: give a name, an expression in u, or a function of u")
        self._native = _native.Divergence(name)
        if self._native.notice:
            warn(f"{name}: {self._native.notice}")

    @property
    def name(self) -> str:
        """The name in plans."""
        return self._native.name

    @property
    def title(self) -> str:
        """The full name."""
        return self._native.title

    @property
    def formula(self) -> str:
        """The generator as a formula in u."""
        return self._native.formula

    @property
    def estimator(self) -> str:
        """The name of its f-DIME estimator."""
        return self.name if self.name.startswith("f:") else f"{self.name}-dime"

    def f(self, u: ArrayLike) -> NDArray[np.float64]:
        """Return f(u) for u > 0."""
        return _map(self._native.f, u)

    def a(self, log_ratio: ArrayLike) -> NDArray[np.float64]:
        """Return a(l) = f'(e^l), the contribution of a joint pair to the value function."""
        return _map(self._native.a, log_ratio)

    def b(self, log_ratio: ArrayLike) -> NDArray[np.float64]:
        """Return b(l) = e^l a(l) - f(e^l), which a marginal pair subtracts from it."""
        return _map(self._native.b, log_ratio)

    def a_slope(self, log_ratio: ArrayLike) -> NDArray[np.float64]:
        """Return a'(l)."""
        return _map(self._native.a_slope, log_ratio)

    def b_slope(self, log_ratio: ArrayLike) -> NDArray[np.float64]:
        """Return b'(l) = e^l a'(l)."""
        return _map(self._native.b_slope, log_ratio)

    def __repr__(self) -> str:
        return f"Divergence({self.name!r})"

    def __reduce__(self) -> tuple[type[Divergence], tuple[str]]:
        return Divergence, (self.name,)


def _map(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]], values: ArrayLike
) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    return function(array.reshape(-1)).reshape(array.shape)


class Objective:
    """The objective that a critic is trained to maximise, and the readout of its scores.

    Scores are the raw outputs of a critic: for all pairs of a batch as a square matrix with the joint
    pairs on the diagonal, or for joint and for marginal pairs as two vectors.

    Parameters
    ----------
    estimator
        The name of an estimator, such as ``gan-dime``, ``mine`` or ``smile-1``, or a
        :class:`Divergence`.
    link
        The function from scores to log density ratios; None means the estimator's.
    readout
        The function from log density ratios to the estimate; None means the estimator's.

    Examples
    --------
    >>> import numpy as np
    >>> objective = Objective("kl-dime", link="identity")
    >>> scores = np.zeros(4, dtype=np.float32)
    >>> value, (joint, marginal) = objective.value_and_gradient(scores, scores)
    >>> joint.sum(), marginal.sum()
    (np.float32(1.0), np.float32(-1.0))
    """

    def __init__(
        self,
        estimator: str | Divergence,
        *,
        link: str | None = None,
        readout: str | None = None,
    ) -> None:
        self._native = _native.Objective(estimator_name(estimator), link, readout)

    @property
    def estimator(self) -> str:
        """The name of the estimator."""
        return self._native.name

    @property
    def link(self) -> str:
        """The function from scores to log density ratios."""
        return self._native.link

    @property
    def readout(self) -> str:
        """The function from log density ratios to the estimate."""
        return self._native.readout

    def value_and_gradient(
        self, joint: ArrayLike, marginal: ArrayLike | None = None
    ) -> tuple[float, tuple[NDArray[np.float32], ...]]:
        """Return the objective on a batch, and its gradient in the shape of the scores.

        MINE remembers past batches: its gradient uses a moving average of the partition function.
        All its batches must have the same size.
        """
        value, gradient = self._native.value_and_gradient(*self._scores(joint, marginal))
        return value, tuple(gradient)

    def mutual_information(self, joint: ArrayLike, marginal: ArrayLike | None = None) -> float:
        """Return the mutual information that the readout computes from scores, in nats."""
        return self._native.mutual_information(*self._scores(joint, marginal))

    def _scores(
        self, joint: ArrayLike, marginal: ArrayLike | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        all_pairs = any(name.endswith("info-nce") for name in (self._native.cost, self.readout))
        if marginal is not None and all_pairs:
            raise ValueError(
                f"estimator='{self.estimator}': InfoNCE compares every x with every y; give the "
                "scores of all pairs as a square matrix"
            )
        return _scores(joint, marginal)

    def __repr__(self) -> str:
        return f"Objective({self.estimator!r}, link={self.link!r}, readout={self.readout!r})"


def _scores(
    joint: ArrayLike, marginal: ArrayLike | None
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    first = np.asarray(joint, dtype=np.float32)
    if marginal is None:
        if first.ndim != 2:
            raise ValueError("give the scores of all pairs as a square matrix, or two vectors")
        return first, None
    second = np.asarray(marginal, dtype=np.float32)
    if first.ndim != 1 or second.ndim != 1:
        raise ValueError("give the scores of joint and of marginal pairs as vectors")
    return first, second


def estimator_name(estimator: str | Divergence | Callable[[Any], Any]) -> str:
    """Return the name of an estimator; for a divergence, that of its f-DIME estimator."""
    if isinstance(estimator, str):
        return estimator
    if isinstance(estimator, Divergence):
        return estimator.estimator
    if callable(estimator):
        return Divergence(estimator).estimator
    raise TypeError(f"estimator={estimator!r}: give a name, a Divergence, or a function of u")


class Scenario:
    """A distribution with known mutual information.

    Parameters
    ----------
    name
        A scenario, optionally followed by maps: ``gaussian``, ``student``, ``swiss-roll``,
        ``gaussian+half-cube+y:asinh``; :func:`names` lists them.
    dim
        The dimension of x before any map, and of y unless the scenario has y on a line.
    level
        The strength of the dependence: nats, or a text such as ``"rho=0.8"``, ``"eps=0.1"`` or ``"df=2"``;
        :func:`names` shows the kinds that a scenario takes.

    Examples
    --------
    >>> scenario = Scenario("gaussian", dim=3, level=2.0)
    >>> round(scenario.mutual_information, 6)
    2.0
    >>> x, y = scenario.sample(1000, seed=0)
    >>> x.shape, y.shape
    ((1000, 3), (1000, 3))
    """

    def __init__(self, name: str, *, dim: int = 1, level: float | str = 1.0) -> None:
        self.name, self.dim = name, check_count(dim, "dim")
        self.level = level_text(level)
        self._native = _native.Scenario(name, self.dim, self.level)

    @property
    def mutual_information(self) -> float:
        """The exact mutual information, in nats."""
        return self._native.mutual_information

    @property
    def dims(self) -> tuple[int, int]:
        """The dimensions of x and y."""
        return self._native.dims

    def sample(self, n: int, *, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Draw rows of x and y, the same as ``fdime sample`` with this seed."""
        x, y, _ = self.sample_log_ratios(n, seed=seed)
        return x, y

    def sample_log_ratios(
        self, n: int, *, seed: int = 0
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Draw rows with the exact log ratio ln p(x,y)/(p(x)p(y)) of each."""
        return self._native.sample(check_count(n, "n"), check_count(seed, "seed"))

    def __repr__(self) -> str:
        return f"Scenario({self.name!r}, dim={self.dim}, level={self.level!r})"

    def __reduce__(self) -> tuple[Callable[..., Scenario], tuple[str, int, str]]:
        return _scenario, (self.name, self.dim, self.level)


def _scenario(name: str, dim: int, level: str) -> Scenario:
    return Scenario(name, dim=dim, level=level)


def level_text(level: float | str) -> str:
    """Return a level as it is written in plans."""
    if isinstance(level, str):
        return level
    try:
        return f"mi={float(level)!r}"
    except (TypeError, ValueError):
        raise TypeError(f"level={level!r}: give nats, or a text such as 'rho=0.8'") from None


def benchmark(suite: str = "bmi") -> dict[str, Scenario]:
    """Return the tasks of the benchmark of Czyż et al. by name.

    ``fdime suite bmi`` and ``fdime suite bmi2`` run the same tasks.

    Parameters
    ----------
    suite
        ``bmi``, the 40 tasks of *Beyond Normal* (NeurIPS 2023), or ``bmi2``, the 13 mixtures of
        *On the Properties and Estimation of Pointwise Mutual Information Profiles* (TMLR 2025).

    Examples
    --------
    >>> tasks = benchmark()
    >>> len(tasks), round(tasks["student-df2-3x3"].mutual_information, 3)
    (40, 0.291)
    >>> tasks = benchmark("bmi2")
    >>> len(tasks), round(tasks["galaxy-2x1"].mutual_information, 3)
    (13, 0.494)
    """
    return {
        task: Scenario(name, dim=dim, level=level)
        for task, name, dim, level in _native.suite(suite)
    }


class ConditionalTask:
    """A distribution of x, y and z with known conditional mutual information I(X; Y | Z).

    :func:`conditional_benchmark` returns such tasks.
    """

    def __init__(self, suite: str, name: str) -> None:
        self.suite, self.name = suite, name
        self._native = _native.ConditionalTask(suite, name)

    @property
    def conditional_mutual_information(self) -> float:
        """The exact I(X; Y | Z), in nats; of a series, its transfer entropy."""
        return self._native.information

    @property
    def is_series(self) -> bool:
        """Whether rows are steps in time. x is then the next value of a series, z its past, y another's."""
        return self._native.is_series

    def sample(
        self, n: int, *, seed: int = 0
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Draw rows of x, y and z, the same as ``fdime suite`` with this seed."""
        x, y, z = self._native.sample(check_count(n, "n"), check_count(seed, "seed"))
        return x, y, z

    def __repr__(self) -> str:
        return f"ConditionalTask({self.suite!r}, {self.name!r})"

    def __reduce__(self) -> tuple[type[ConditionalTask], tuple[str, str]]:
        return ConditionalTask, (self.suite, self.name)


def conditional_benchmark(suite: str = "conditional") -> dict[str, ConditionalTask]:
    """Return tasks with known conditional mutual information, or transfer entropy, by name.

    ``fdime suite conditional`` and ``fdime suite transfer`` run the same tasks.

    Parameters
    ----------
    suite
        ``conditional`` or ``transfer``.

    Examples
    --------
    >>> task = conditional_benchmark()["smooth-1x1x5"]
    >>> round(task.conditional_mutual_information, 3)
    0.223
    >>> x, y, z = task.sample(1000, seed=0)
    >>> x.shape, z.shape
    ((1000, 1), (1000, 5))
    """
    return {name: ConditionalTask(suite, name) for name in _native.conditional_suite(suite)}
