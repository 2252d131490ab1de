"""Conditional mutual information."""

from __future__ import annotations

import fdime
import numpy as np
import pytest


@pytest.fixture(scope="module")
def triple():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(600, 2))
    x = z.sum(axis=1) + 0.5 * rng.normal(size=600)
    return x, z[:, 0] ** 2 + z[:, 1] + 0.5 * rng.normal(size=600), z


def test_what_z_explains_does_not_count(triple):
    x, y, z = triple
    result = fdime.mutual_information(x, y, given=z, effort="quick")
    assert result.mi < 0.03 and result.p_value > 0.02
    assert result.given.unconditional > 0.1
    assert result.given.columns == ("given1", "given2")
    assert result.given.explained_x > 0.8 and result.given.explained_y > 0.5
    assert str(result).startswith("I(x; y | z) = ")
    assert result.pointwise.mean() == pytest.approx(result.unclipped, abs=1e-9)
    with pytest.raises(ValueError, match="given: such an estimate has no critics"):
        result.score_samples(x, y)
    assert fdime.mutual_information(x, y, estimator="copula").given is None


def test_bad_input_is_refused_in_the_words_of_python(triple):
    x, y, z = triple
    for given, options, words in (
        (z[:-1], {}, "given has 599 rows, but x has 600"),
        (np.ones(600), {}, "the same value"),
        (z, {"estimator": "ksg"}, "estimator='ksg'.*given"),
        (z, {"chain": 2}, "chain=2.*given"),
    ):
        with pytest.raises(ValueError, match=words):
            fdime.mutual_information(x, y, given=given, **options)
