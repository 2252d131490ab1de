"""The estimator for scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._blocks import Divergence
from ._estimate import ChainChoice, Effort, MissingOrConstant, mutual_information
from ._result import Estimate

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ImportError(
        "fdime.MutualInformation needs scikit-learn 1.6 or later: pip install 'scikit-learn>=1.6'"
    ) from None


class MutualInformation(BaseEstimator):
    """Mutual information between X and y as a scikit-learn estimator.

    The parameters are those of :func:`fdime.mutual_information`, without ``plan`` and ``progress``.
    Constant features are dropped by default. New rows are scored by the critics of the estimate without a
    chain, so ``chain="off"`` saves time if only ``score_samples`` and ``score`` are needed.

    Attributes
    ----------
    mi_
        The estimate, in nats.
    interval_
        The 95% interval.
    p_value_
        The p-value of the test of independence.
    result_
        The :class:`fdime.Estimate`; ``result_.critics.save(path)`` saves the critics.
    n_features_in_, feature_names_in_
        The features seen during ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import clone
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2))
    >>> y = X.sum(axis=1) + rng.normal(size=600)
    >>> estimator = clone(MutualInformation(effort="quick")).fit(X, y)
    >>> 0.3 < estimator.mi_ < 0.7
    True
    >>> estimator.score_samples(X[:3], y[:3]).shape
    (3,)
    """

    def __init__(
        self,
        *,
        estimator: str | Divergence = "auto",
        effort: Effort = "default",
        discrete: str | list[str] | None = None,
        numeric: str | list[str] | None = None,
        missing: MissingOrConstant = "error",
        constant: MissingOrConstant = "drop",
        blocks: bool | int | None = None,
        chain: ChainChoice | None = None,
        folds: int = 5,
        permutations: int = 999,
        seed: int = 0,
        threads: int = 0,
    ) -> None:
        self.estimator = estimator
        self.effort = effort
        self.discrete = discrete
        self.numeric = numeric
        self.missing = missing
        self.constant = constant
        self.blocks = blocks
        self.chain = chain
        self.folds = folds
        self.permutations = permutations
        self.seed = seed
        self.threads = threads

    def fit(self, X: Any, y: Any) -> MutualInformation:
        """Estimate the mutual information between ``X`` and ``y``."""
        if y is None:
            raise ValueError("MutualInformation requires y to be passed, but the target y is None")
        self._check(X, reset=True)
        result = mutual_information(X, y, progress=False, **self.get_params(deep=False))
        self.result_: Estimate = result
        self.mi_: float = result.mi
        self.interval_: tuple[float, float] = result.interval
        self.p_value_: float | None = result.p_value
        return self

    def score_samples(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Return the pointwise mutual information ln p(x,y)/(p(x)p(y)) of new rows, in nats."""
        check_is_fitted(self)
        self._check(X, reset=False)
        return self.result_.score_samples(X, y, missing=self.missing, threads=self.threads)

    def score(self, X: Any, y: Any) -> float:
        """Return the mean of :meth:`score_samples`, the mutual information on new rows, in nats."""
        return float(np.nanmean(self.score_samples(X, y)))

    def _check(self, X: Any, *, reset: bool) -> None:
        if hasattr(X, "toarray"):
            raise TypeError("X is sparse; give it as a dense array, e.g. X.toarray()")
        shape = np.shape(X)
        if len(shape) == 1:
            raise ValueError("X has one dimension; Reshape your data, e.g. X.reshape(-1, 1)")
        if len(shape) == 2:  # the messages that scikit-learn's own checks expect
            minima = (1, 2 if reset else 1)
            for count, noun, minimum in zip(shape[::-1], ("feature", "sample"), minima):
                if count < minimum:
                    raise ValueError(
                        f"Found array with {count} {noun}(s) (shape={shape}) while a minimum of "
                        f"{minimum} is required."
                    )
        validate_data(self, X, reset=reset, skip_check_array=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
