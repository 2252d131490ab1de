"""scikit-learn."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn", minversion="1.6")

import fdime
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.feature_selection import SelectFdr, SelectKBest
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

EXPECTED_FAILURES = {
    "check_n_features_in_after_fitting": "fits 15 rows; an estimate needs 20",
    "check_estimators_nan_inf": "fits 10 rows first; an estimate needs 20",
    "check_fit2d_1feature": "fits 10 rows; an estimate needs 20",
    "check_complex_data": "complex columns are accepted, as two columns each",
    "check_dtype_object": "refused with another message",
    "check_methods_sample_order_invariance": "calls score_samples(X), which has no y",
    "check_methods_subset_invariance": "calls score_samples(X), which has no y",
}


@parametrize_with_checks(
    [fdime.MutualInformation(effort="quick", permutations=19)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_parameters_are_those_of_the_function():
    import inspect

    function = inspect.signature(fdime.mutual_information).parameters
    defaults = {name: parameter.default for name, parameter in function.items()}
    # scikit-learn's estimators refuse missing values, and select among constant features. A target
    # of few whole numbers is classes, as for the other functions of features.
    defaults |= {"missing": "error", "constant": "drop", "discrete_target": "auto"}
    for name, value in fdime.MutualInformation().get_params().items():
        assert value == defaults[name], name


def test_names_are_those_of_scikit_learn(gaussian, tmp_path):
    """Also where the first column is left out, which would shift names counted from 1."""
    pandas = pytest.importorskip("pandas")
    x, y = gaussian
    X = np.column_stack([np.ones(len(x)), x])
    estimator = fdime.MutualInformation(estimator="copula").fit(X, y)
    assert estimator.result_.x == ("x1", "x2") and estimator.result_.y == ("y",)
    expected = fdime.mutual_information(x, y, estimator="copula").score_samples(x, y)
    critics = estimator.result_.critics
    for scores in (
        estimator.score_samples(X, y),
        estimator.result_.score_samples(X, y),
        critics.score_samples(x, y),
    ):
        assert np.array_equal(scores, expected)
    critics.save(tmp_path / "critics")
    loaded = fdime.Critics.load(tmp_path / "critics")
    assert np.array_equal(loaded.score_samples(x, y), expected)
    with pytest.raises(ValueError, match="x has 3 columns, but the critics were trained on 2: x1"):
        loaded.score_samples(X, y)
    numbered = fdime.MutualInformation(estimator="copula").fit(pandas.DataFrame(X), y)
    assert numbered.result_.x == ("x1", "x2")
    assert np.array_equal(numbered.score_samples(pandas.DataFrame(X), y), expected)
    chosen = fdime.MutualInformation(estimator="copula", numeric="x0").fit(x, y)
    assert chosen.result_.x == ("x0", "x1")


def test_few_whole_numbers_are_classes(gaussian):
    x, y = gaussian
    classes = np.digitize(y, [-1, 1])
    options = {"effort": "quick", "permutations": 99}
    expected = fdime.mutual_information(x, classes, discrete="y", **options)
    estimator = fdime.MutualInformation(**options).fit(x, classes)
    assert estimator.mi_ == expected.mi
    assert estimator.score(x, classes) == expected.score_samples(x, classes).mean()
    numbers = fdime.MutualInformation(discrete_target=False, **options).fit(x, classes)
    assert numbers.mi_ == fdime.mutual_information(x, classes, **options).mi != expected.mi
    with pytest.raises(ValueError, match="discrete_target='yes': write True, False or 'auto'"):
        fdime.MutualInformation(discrete_target="yes").fit(x, classes)


def test_fit_score_clone_and_save(gaussian, apply_command, tmp_path):
    x, y = gaussian
    estimator = fdime.MutualInformation(effort="quick").set_params(seed=3)
    copy = clone(estimator)
    assert copy.get_params()["seed"] == 3 and not hasattr(copy, "mi_")
    estimator.fit(x[:300], y[:300])
    assert estimator.interval_[0] < 0.5 * math.log(2.0) < estimator.interval_[1]
    assert estimator.mi_ == estimator.result_.mi and estimator.p_value_ < 0.01
    scores = estimator.score_samples(x[300:], y[300:])
    assert scores.shape == (100,)
    assert 0.1 < scores.mean() == estimator.score(x[300:], y[300:])
    estimator.result_.critics.save(tmp_path / "critics")
    answer = apply_command(tmp_path / "critics", x[300:], y[300:], names=["x0", "x1", "y"])
    assert answer["mi_nats"] == pytest.approx(scores.mean())


def test_columns_are_matched_by_name(gaussian):
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame(gaussian[0], columns=["a", "b"]).assign(same=1.0)
    estimator = fdime.MutualInformation(estimator="copula").fit(x, gaussian[1])
    assert list(estimator.feature_names_in_) == ["a", "b", "same"]
    assert estimator.result_.x == ("a", "b"), "the constant column is dropped"
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.score_samples(x[["b", "a", "same"]], gaussian[1])


def test_grid_search():
    """The score is held-out mutual information, which here is larger for critics than for CCA."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 1))
    y = np.abs(x[:, 0]) + 0.1 * rng.normal(size=600)
    search = GridSearchCV(
        fdime.MutualInformation(effort="quick", permutations=19),
        {"estimator": ["cca", "auto"]},
        cv=KFold(2),
    )
    assert search.fit(x, y).best_params_ == {"estimator": "auto"}


def test_mixed_features():
    """Two informative features are found among noise: a category, and an uncorrelated number."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    n = 500
    group = rng.choice(["a", "b", "c"], size=n)
    hidden = rng.normal(size=n)
    y = (group == "a") + (np.abs(hidden) > 0.7) + 0.3 * rng.normal(size=n)
    X = pandas.DataFrame(
        {
            "noise": rng.normal(size=n),
            "group": group,
            "same": 1.0,
            "hidden": hidden,
            "coin": rng.random(n) < 0.5,
        }
    )
    scores, p_values = fdime.mutual_info_features(X, y, p_values=True)
    assert set(np.argsort(scores)[-2:]) == {1, 3}
    assert scores[2] == 0.0 and p_values[2] == 1.0
    # alpha = 0.01 for each, fixed seed
    assert (p_values < 0.01).tolist() == [False, True, False, True, False]
    classes = (y > 1).astype(int)
    by_class = fdime.mutual_info_features(X, classes)
    assert by_class.max() <= math.log(2.0) and set(np.argsort(by_class)[-2:]) == {1, 3}


def test_different_row_labels_are_refused(gaussian):
    pandas = pytest.importorskip("pandas")
    X, y = pandas.DataFrame(gaussian[0]), pandas.Series(gaussian[1])
    with pytest.raises(ValueError, match="different pandas indices"):
        fdime.mutual_info_features(X, y.sort_values())
    result = fdime.mutual_information(X, y, estimator="copula")
    with pytest.raises(ValueError, match="different pandas indices"):
        result.score_samples(X, y.sort_values())
    with pytest.raises(ValueError, match="but the critics were trained on"):
        result.score_samples(X.rename(columns={0: "other", 1: "names"}), y)
    assert np.array_equal(result.score_samples(X[[1, 0]], y), result.score_samples(X, y))


def test_columns_without_names_are_matched_by_position(gaussian):
    pandas = pytest.importorskip("pandas")
    x, y = gaussian
    named = pandas.DataFrame(x, columns=["a", "b"]), pandas.Series(y, name="c")
    twice = pandas.DataFrame(x, columns=["a", "a"])
    for data in (named, (x, y), (twice, y)):
        result = fdime.mutual_information(*data, estimator="copula")
        expected = result.score_samples(*data)
        assert np.array_equal(result.score_samples(x, y), expected)
        assert np.array_equal(result.score_samples(x, pandas.Series(y)), expected)
    dropped = fdime.mutual_information(
        np.column_stack([x, np.ones(len(x))]), y, estimator="copula", constant="drop"
    )
    assert dropped.x == ("x1", "x2")
    with_rest = np.column_stack([x, y])
    assert np.array_equal(dropped.score_samples(with_rest, y), dropped.score_samples(x, y))


def test_missing_values_are_dropped_for_each_feature():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] + rng.normal(size=200)
    X[:50, 1] = np.nan
    X = np.column_stack([X, np.where(np.arange(200) < 50, np.nan, 1.0)])
    scores = fdime.mutual_info_features(X, y, missing="drop", estimator="copula")
    assert scores[2] == 0.0, "its present values are all equal"
    assert scores[0] == fdime.mutual_info_features(X[:, :1], y, estimator="copula")[0]


def test_features_without_values_are_named():
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(size=(200, 2)), np.full(200, np.nan)])
    y = X[:, 0] + rng.normal(size=200)
    with pytest.warns(fdime.FdimeWarning, match="without any value, .*: 'x3'$"):
        scores, p_values = fdime.mutual_info_features(X, y, estimator="copula", p_values=True)
    assert scores[2] == 0.0 and p_values[2] == 1.0
    with pytest.warns(fdime.FdimeWarning, match="without any value, .*: 'x3'$"):
        assert fdime.select_features(X, y, estimator="copula").names == ("x1",)
    for call in (
        lambda: fdime.select_features(X, y, estimator="copula", missing="error"),
        lambda: fdime.MutualInformationSelector(estimator="copula").fit(X, y),
    ):
        with pytest.raises(ValueError, match=r"column 'x[23]' has no value \(NaN\) in row 1"):
            call()


def test_selectors_in_a_pipeline():
    """scikit-learn converts X to numbers first, so categories are given by position."""
    X, y = load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    X = np.column_stack([X[:, :4], rng.normal(size=len(X)), rng.integers(0, 3, size=len(X))])
    score = partial(fdime.mutual_info_features, permutations=99, discrete_features=[5])
    chosen = make_pipeline(StandardScaler(), SelectKBest(score, k=2)).fit(X, y)
    assert chosen.transform(X).shape == (178, 2) and not chosen[-1].get_support()[4:].any()
    found = SelectFdr(partial(score, p_values=True), alpha=0.05).fit(X, y).get_support()
    assert found[0] and not found[4:].any()


def test_jobs_do_not_change_scores():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 3))
    y = X[:, 0] > 0
    one = fdime.mutual_info_features(X, y, n_jobs=1)
    assert np.array_equal(one, fdime.mutual_info_features(X, y, n_jobs=2))
    assert np.array_equal(one, fdime.mutual_info_features(X, y, discrete_target=True, n_jobs=-1))
