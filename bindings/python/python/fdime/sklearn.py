"""The estimator and the selector of features for scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._blocks import Divergence
from ._estimate import ChainChoice, Effort, MissingOrConstant, mutual_information, with_classes
from ._execution import Device, Precision
from ._inputs import as_table, check_index
from ._result import Estimate
from ._select import Criterion, Selection, select_features

try:
    from sklearn.base import BaseEstimator
    from sklearn.feature_selection import SelectorMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ImportError(
        "fdime.sklearn needs scikit-learn 1.6 or later: pip install 'scikit-learn>=1.6'"
    ) from None


class MutualInformation(BaseEstimator):
    """Mutual information between X and y as a scikit-learn estimator.

    New rows are scored by the critics of the estimate without a chain, so ``chain="off"`` saves time if
    only ``score_samples`` and ``score`` are needed.

    Parameters
    ----------
    discrete_target
        Whether ``y`` holds classes. With ``"auto"``, text, booleans, categories and whole numbers
        with at most 20 different values are classes.
    discrete
        As for :func:`fdime.mutual_information`, but features without names are called ``x0``, ``x1``,
        ..., as in scikit-learn.
    numeric
        Columns of text that are numbers, named as for ``discrete``.
    missing
        ``'error'`` refuses missing values; ``'drop'`` leaves out rows with one.
    constant
        ``'drop'`` leaves out constant features; ``'error'`` refuses them.
    estimator, effort, blocks, chain, folds, permutations, seed, device, precision, threads
        As for :func:`fdime.mutual_information`.

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
    n_features_in_
        The number of features during ``fit``.
    feature_names_in_
        Their names, if they had any.

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
        discrete_target: bool | Literal["auto"] = "auto",
        discrete: str | list[str] | None = None,
        numeric: str | list[str] | None = None,
        missing: MissingOrConstant = "error",
        constant: MissingOrConstant = "drop",
        blocks: bool | int | None = None,
        chain: ChainChoice | None = None,
        folds: int = 5,
        permutations: int = 999,
        seed: int = 0,
        device: Device = "auto",
        precision: Precision | None = None,
        threads: int = 0,
    ) -> None:
        self.estimator = estimator
        self.effort = effort
        self.discrete_target = discrete_target
        self.discrete = discrete
        self.numeric = numeric
        self.missing = missing
        self.constant = constant
        self.blocks = blocks
        self.chain = chain
        self.folds = folds
        self.permutations = permutations
        self.seed = seed
        self.device = device
        self.precision = precision
        self.threads = threads

    def fit(self, X: Any, y: Any) -> MutualInformation:
        """Estimate the mutual information between ``X`` and ``y``."""
        if y is None:
            raise ValueError("MutualInformation requires y to be passed, but the target y is None")
        features = _features(self, X, reset=True)
        check_index(X, y)
        settings = self.get_params(deep=False)
        target = with_classes(as_table(y, "y", first=0), settings.pop("discrete_target"))
        result = mutual_information(features, target, progress=False, **settings)
        if result.critics is not None:
            result.critics._first = 0
        self.result_: Estimate = result
        self.mi_: float = result.mi
        self.interval_: tuple[float, float] = result.interval
        self.p_value_: float | None = result.p_value
        return self

    def score_samples(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Return the pointwise mutual information ln p(x,y)/(p(x)p(y)) of new rows, in nats."""
        check_is_fitted(self)
        features = _features(self, X, reset=False)
        check_index(X, y)
        return self.result_.score_samples(
            features,
            y,
            missing=self.missing,
            device=self.device,
            precision=self.precision,
            threads=self.threads,
        )

    def score(self, X: Any, y: Any) -> float:
        """Return the mean of :meth:`score_samples`, the mutual information on new rows, in nats."""
        return float(np.nanmean(self.score_samples(X, y)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class MutualInformationSelector(SelectorMixin, BaseEstimator):
    """Selection of the features that are most informative about y, without redundant ones.

    The features that are kept are in their original order. Fewer than ``k`` are kept if no other adds
    significantly.

    Parameters
    ----------
    k, criterion, discrete_features, discrete_target, estimator, effort, blocks, folds, permutations
        As for :func:`fdime.select_features`.
    seed, device, precision, threads
        As for :func:`fdime.select_features`.
    missing
        ``'error'`` refuses missing values, as is usual in scikit-learn; ``'drop'`` leaves out the rows in
        which any feature or the target is missing.

    Attributes
    ----------
    selected_
        The positions of the chosen features, in the order of their choice.
    gains_
        What each of these adds to those before it, in nats.
    p_values_
        The adjusted p-value of the test of each gain.
    support_
        Whether each feature was chosen.
    result_
        The :class:`fdime.Selection`.
    n_features_in_
        The number of features during ``fit``.
    feature_names_in_
        Their names, if they had any.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 4))
    >>> y = X[:, 0] - X[:, 2] + 0.5 * rng.normal(size=500)
    >>> selector = MutualInformationSelector(k=2, estimator="copula").fit(X, y)
    >>> selector.get_support().tolist()
    [True, False, True, False]
    >>> selector.transform(X).shape
    (500, 2)
    """

    def __init__(
        self,
        k: int | None = None,
        *,
        criterion: Criterion = "forward",
        discrete_features: str | Sequence[int] | Sequence[bool] = "auto",
        discrete_target: bool | Literal["auto"] = "auto",
        missing: MissingOrConstant = "error",
        estimator: str | Divergence = "auto",
        effort: Effort = "quick",
        blocks: bool | int | None = None,
        folds: int = 5,
        permutations: int = 999,
        seed: int = 0,
        device: Device = "auto",
        precision: Precision | None = None,
        threads: int = 0,
    ) -> None:
        self.k = k
        self.criterion = criterion
        self.discrete_features = discrete_features
        self.discrete_target = discrete_target
        self.missing = missing
        self.estimator = estimator
        self.effort = effort
        self.blocks = blocks
        self.folds = folds
        self.permutations = permutations
        self.seed = seed
        self.device = device
        self.precision = precision
        self.threads = threads

    def fit(self, X: Any, y: Any) -> MutualInformationSelector:
        """Choose features of ``X`` that are informative about ``y``."""
        if y is None:
            raise ValueError(
                "MutualInformationSelector requires y to be passed, but the target y is None"
            )
        features = _features(self, X, reset=True)
        check_index(X, y)
        result = select_features(features, y, progress=False, **self.get_params(deep=False))
        self.result_: Selection = result
        self.selected_: NDArray[np.intp] = result.columns
        self.gains_: NDArray[np.float64] = np.array([found.gain for found in result.features])
        self.p_values_: NDArray[np.float64] = np.array(
            [found.p_adjusted for found in result.features]
        )
        self.support_: NDArray[np.bool_] = np.isin(np.arange(self.n_features_in_), result.columns)
        return self

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _features(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return the features by the names of scikit-learn. Raise its errors for a wrong shape."""
    if hasattr(X, "toarray"):
        raise TypeError("X is sparse; give it as a dense array, e.g. X.toarray()")
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
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
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if hasattr(estimator, "feature_names_in_"):
        return X
    if hasattr(X, "set_axis"):  # a table of pandas whose names are not texts
        X = X.set_axis([f"x{k}" for k in range(X.shape[1])], axis=1)
    return as_table(X, "x", first=0)
