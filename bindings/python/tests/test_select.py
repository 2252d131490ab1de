"""Selection of features."""

from __future__ import annotations

import doctest
import inspect
import json
import math

import fdime
import numpy as np
import pytest
from conftest import ROOT


@pytest.fixture(scope="module")
def sums() -> tuple[np.ndarray, np.ndarray]:
    """y = a + 0.8 b + noise, with a noisy copy of a, a constant and three columns of noise."""
    rng = np.random.default_rng(3)
    base = rng.normal(size=(500, 7))
    y = base[:, 0] + 0.8 * base[:, 1] + 0.5 * base[:, 2]
    copy = base[:, 0] + 0.3 * base[:, 3]
    return np.column_stack([copy, np.ones(500), base[:, [0, 1, 4, 5, 6]]]), y


@pytest.fixture(scope="module")
def exclusive_or() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    X = rng.integers(0, 2, size=(400, 6))
    return X, X[:, 1] ^ X[:, 4]


@pytest.mark.parametrize("criterion", ["forward", "cmim", "jmi", "mrmr"])
def test_copies_and_noise_are_left_out(sums, criterion):
    """Tests at 5%, adjusted for the candidates, with a fixed seed."""
    found = fdime.select_features(*sums, criterion=criterion, estimator="copula")
    assert found.names == ("x3", "x4") and found.columns.tolist() == [2, 3]
    assert found.end["reason"] == "nothing-left" and len(found.candidates) == 7
    for feature, ratio in zip(found.features, (1.89 / 0.89, 0.89 / 0.25)):
        assert feature.interval[0] <= 0.5 * math.log(ratio) <= feature.interval[1]
        assert feature.redundancy == pytest.approx(feature.alone - feature.gain)
        assert feature.p_adjusted <= 0.05
    assert "2 of 7 features; no other has a significant gain" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["features"][0]["feature"] == "x3"


def test_forward_finds_a_pair(exclusive_or):
    X, y = exclusive_or
    found = fdime.select_features(X, y, 2, discrete_features=range(6))
    assert sorted(found.names) == ["x2", "x5"]
    assert {feature.partner for feature in found.features} == {"x2", "x5"}
    assert sum(feature.gain for feature in found.features) == pytest.approx(math.log(2), abs=0.02)
    for criterion in ("cmim", "jmi", "mrmr"):
        found = fdime.select_features(X, y, 2, criterion=criterion, discrete_features=range(6))
        assert found.names == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k=0: must be between 1 and 6, the number of features"),
        ({"k": 7}, "k=7: must be between 1 and 6, the number of features"),
        ({"criterion": "gain"}, "criterion='gain': write forward, cmim, jmi or mrmr"),
        ({"estimator": "ksg"}, "estimator='ksg' cannot be used with a selection of features"),
    ],
)
def test_impossible_selections_are_refused(sums, arguments, message):
    with pytest.raises(ValueError, match=message):
        fdime.select_features(*sums, **arguments)


def test_impossible_tables_are_refused(sums):
    X, y = sums
    needed = "a selection needs at least two that do"
    with pytest.raises(ValueError, match=f"only one feature varies; {needed}"):
        fdime.select_features(X[:, :2], y)
    with pytest.raises(ValueError, match=f"no feature varies; {needed}"):
        fdime.select_features(np.ones((500, 3)), y)
    with pytest.raises(ValueError, match="y has 2 columns; give one target"):
        fdime.select_features(X, X[:, 2:4])
    with pytest.raises(ValueError, match="x has 500 rows, but y has 100"):
        fdime.select_features(X, y[:100])
    with pytest.raises(TypeError, match="k='all': give a whole number"):
        fdime.select_features(X, y, "all")


def test_tables(sums):
    pandas = pytest.importorskip("pandas")
    names = ["copy", "same", "a", "b", "n1", "n2", "n3"]
    frame = pandas.DataFrame(sums[0], columns=names)
    found = fdime.select_features(frame, sums[1], estimator="copula")
    assert found.names == ("a", "b") and list(found.to_pandas()["feature"]) == ["a", "b"]
    record = found.to_pandas().iloc[0]
    assert (record["ci_low"], record["ci_high"]) == found.features[0].interval
    assert record["gain_nats"] == found.features[0].gain and record["column"] == 2
    assert repr(found) == str(found)


def test_the_example_of_the_guide():
    guide = ROOT / "docs" / "SELECT.md"
    if not guide.exists():
        pytest.skip("the guide is not part of the package")
    result = doctest.testfile(str(guide), module_relative=False)
    assert result.attempted > 5 and result.failed == 0


sklearn = pytest.importorskip("sklearn", minversion="1.6")

from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

EXPECTED_FAILURES = {
    "check_n_features_in_after_fitting": "fits 15 rows; an estimate needs 20",
    "check_estimators_nan_inf": "fits 10 rows first; an estimate needs 20",
    "check_fit2d_1feature": "a selection needs two features",
    "check_complex_data": "complex columns are accepted, as two columns each",
    "check_dtype_object": "refused with another message",
}


@parametrize_with_checks(
    [fdime.MutualInformationSelector(estimator="copula", discrete_target=False, permutations=19)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_parameters_are_those_of_the_function():
    function = inspect.signature(fdime.select_features).parameters
    settings = fdime.MutualInformationSelector().get_params()
    assert set(settings) == set(function) - {"X", "y", "progress"}
    for name, value in settings.items():
        # scikit-learn's estimators refuse missing values.
        assert value == ("error" if name == "missing" else function[name].default), name


def test_a_pipeline(sums):
    pandas = pytest.importorskip("pandas")
    names = ["copy", "same", "a", "b", "n1", "n2", "n3"]
    frame = pandas.DataFrame(sums[0], columns=names)
    selector = clone(fdime.MutualInformationSelector(k=3, estimator="copula"))
    pipeline = make_pipeline(StandardScaler(), selector, LinearRegression())
    pipeline.fit(frame, sums[1])
    chosen = pipeline[1]
    assert chosen.selected_.tolist() == [2, 3] and chosen.support_.sum() == 2
    assert list(pipeline[:2].get_feature_names_out()) == ["a", "b"]
    assert chosen.result_.names == ("x2", "x3")  # StandardScaler returns an array
    assert list(chosen.get_feature_names_out()) == ["x2", "x3"]
    assert (chosen.gains_ > 0.2).all() and (chosen.p_values_ <= 0.05).all()
    assert pipeline.score(frame, sums[1]) > 0.8
