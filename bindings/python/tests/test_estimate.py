"""Estimates and their results."""

from __future__ import annotations

import json
import math
import pickle
import subprocess

import fdime
import numpy as np
import pytest


@pytest.fixture(scope="module")
def result(gaussian):
    return fdime.mutual_information(*gaussian, effort="quick")


def test_the_interval_covers_the_truth(result):
    low, high = result.interval
    assert low < 0.5 * math.log(2.0) < high and low <= result.mi <= high
    assert result.p_value < 0.01
    assert float(result) == result.mi
    assert result.bits == pytest.approx(result.mi / math.log(2.0))
    assert result.verdict.reliability in ("good", "fair")


def test_folds_and_rows_average_to_the_estimate(result, gaussian):
    assert len(result.folds) == 5 and sum(fold.test_rows for fold in result.folds) == 400
    assert result.pointwise.shape == (400,)
    assert result.pointwise.mean() == pytest.approx(result.unclipped, abs=1e-9)
    by_fold = sum(fold.mi * fold.test_rows for fold in result.folds) / 400
    # Half of the gap to the training rows is added to the lower bound of the folds.
    assert by_fold == pytest.approx(result.lower_bound, abs=1e-6)
    assert result.lower_bound <= result.unclipped
    assert result.null.shape == (999,)
    # With 400 rows the critics have 3/4 of the level, and correlations the rest.
    of_critics = (1 + (result.null >= result.observed).sum()) / 1000
    assert result.p_value == pytest.approx(of_critics / 0.75)


def test_the_command_line_gives_the_same_result(result, gaussian, command, tmp_path):
    x, y = gaussian
    np.savez(tmp_path / "data.npz", x=x, y=y)
    done = subprocess.run(
        [command, "estimate", tmp_path / "data.npz", "--effort", "quick", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    theirs, ours = json.loads(done.stdout), result.to_dict()
    # The command line also has the data of its figures.
    assert theirs.keys() - ours.keys() == {"figures"} and not ours.keys() - theirs.keys()
    for key in ("mi_nats", "ci_low", "ci_high", "p_value", "folds", "plan", "race", "baselines"):
        assert theirs[key] == ours[key], key
    text = subprocess.run(
        [command, "estimate", tmp_path / "data.npz", "--effort", "quick", "--bits"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert text.splitlines()[:4] == result.summary(bits=True).splitlines()[:4]


def test_text_and_html(result):
    text = repr(result)
    assert text.startswith("I(x; y) = ") and "reliability: " in text
    assert max(map(len, text.splitlines())) <= 80
    page = result._repr_html_()
    assert f"{result.mi:.3f} nats" in page and page.count("<div") == page.count("</div>")
    assert json.loads(json.dumps(result.to_dict()))["mi_nats"] == result.mi


def test_names_are_escaped_in_html():
    rng = np.random.default_rng(0)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rng.normal(size=(60, 1)), columns=["<script>"])
    page = fdime.mutual_information(frame, rng.normal(size=60), estimator="copula")._repr_html_()
    assert "<script>" not in page and "&lt;script&gt;" in page


@pytest.mark.parametrize("estimator", ["auto", "copula", "ksg"])
def test_plots(gaussian, estimator, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    result = fdime.mutual_information(*gaussian, estimator=estimator, effort="quick")
    figure = result.plot()
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5_000
    assert len(figure.axes) == {"auto": 3, "copula": 2, "ksg": 1}[estimator]


def test_threads_do_not_matter_and_a_plan_repeats_the_result(gaussian, result):
    again = fdime.mutual_information(*gaussian, plan=result.plan, threads=1)
    assert again.mi == result.mi and np.array_equal(again.pointwise, result.pointwise)
    other = fdime.mutual_information(*gaussian, effort="quick", seed=1)
    assert other.mi != result.mi
    assert json.loads(json.dumps(result.plan)) == result.plan


def test_a_pickled_result_scores_new_rows(gaussian, result):
    x, y = gaussian
    scores = pickle.loads(pickle.dumps(result)).score_samples(x, y)
    # Most critics were trained on a given row, so its score differs a little from the held-out one.
    assert np.corrcoef(scores, result.pointwise)[0, 1] > 0.9
    assert np.array_equal(scores, result.score_samples(x, y, threads=1))
    shuffled = result.score_samples(x, np.roll(y, 7))
    assert shuffled.mean() < 0 < scores.mean()


def test_saved_critics_are_read_by_the_command_line(gaussian, result, apply_command, tmp_path):
    result.critics.save(tmp_path / "model")
    x, y = gaussian
    answer = apply_command(tmp_path / "model", x, y)
    assert answer["mi_nats"] == pytest.approx(result.score_samples(x, y).mean())
    critics = fdime.Critics.load(tmp_path / "model")
    assert critics.mi == result.mi and critics.x == ("x1", "x2")
    assert np.array_equal(critics.score_samples(x, y), result.score_samples(x, y))
    with pytest.raises(FileNotFoundError, match="there is no such file of critics"):
        fdime.Critics.load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="cannot write .*: there is no folder .*nowhere"):
        result.critics.save(tmp_path / "nowhere" / "critics")


def test_dropped_rows_are_nan_in_pointwise(gaussian):
    x, y = gaussian[0].copy(), gaussian[1]
    x[[3, 5], 1] = np.nan
    result = fdime.mutual_information(x, y, estimator="copula", missing="drop")
    assert (result.n_rows, result.n_dropped) == (398, 2)
    assert np.flatnonzero(np.isnan(result.pointwise)).tolist() == [3, 5]


def test_categories_and_time_series():
    rng = np.random.default_rng(3)
    label = rng.integers(0, 3, size=500)
    x = label + 0.3 * rng.normal(size=500)
    as_number = fdime.mutual_information(x, label, effort="quick")
    as_classes = fdime.mutual_information(x, label, discrete="y", effort="quick")
    assert as_classes.interval[1] <= math.log(3.0) + 1e-9
    assert any(reason.code == "ties" for reason in as_number.verdict.reasons)
    texts = fdime.mutual_information(x, label.astype(str), effort="quick")
    assert texts.mi == as_classes.mi
    walk = np.cumsum(rng.normal(size=(2, 400)), axis=1)
    result = fdime.mutual_information(walk[0], walk[1], estimator="copula", blocks=10)
    assert result.plan["order"] == {"series": {"gap": 10}}
    automatic = fdime.mutual_information(walk[0], walk[1], estimator="copula", blocks=True)
    assert automatic.plan["order"]["series"]["gap"] > 10
    rows = fdime.mutual_information(walk[0], walk[1], estimator="copula", blocks=False)
    assert rows.plan["order"] == "exchangeable"
    assert any(reason.code == "serial-dependence" for reason in rows.verdict.reasons)
    assert fdime.estimate_plan(blocks=True)["order"] == "automatic-series"
    assert fdime.estimate_plan(blocks=np.True_)["order"] == "automatic-series"
    assert fdime.estimate_plan(blocks=np.False_)["order"] == "exchangeable"


def test_every_kind_of_estimator(gaussian):
    for estimator in ["cca", "ksg", "copula", "kl-dime", "cpc", "mine", "f:(u-1)^2/(u+1)"]:
        result = fdime.mutual_information(*gaussian, estimator=estimator, effort="quick")
        assert 0.15 < result.mi < 0.6, (estimator, result.mi)
        assert (result.p_value is None) == (estimator == "ksg")
    with pytest.raises(ValueError, match="'ksg': such an estimate has no critics"):
        fdime.mutual_information(*gaussian, estimator="ksg").score_samples(*gaussian)


def test_progress_is_reported(gaussian):
    reported = []
    fdime.mutual_information(*gaussian, progress=reported.append)
    assert reported == sorted(reported) and len(reported) > 2
    assert all(0.0 <= fraction < 1.0 for fraction in reported[:-1]) and reported[-1] == 1.0
    short = []
    fdime.mutual_information(*gaussian, estimator="ksg", progress=short.append)
    assert short[-1] == 1.0
    fdime.mutual_information(*gaussian, estimator="ksg", progress=np.False_)


@pytest.fixture(scope="module")
def dependent():
    """500 rows, 3 + 3 columns, 2 nats."""
    return fdime.Scenario("dense-gaussian", dim=3, level=2.0).sample(500, seed=1)


def test_a_chain_is_that_of_the_command_line(dependent, command, tmp_path):
    x, y = dependent
    options = dict(effort="quick", permutations=19)
    result = fdime.mutual_information(x, y, chain=2, **options)
    chain = result.chain
    assert (chain.side, len(chain.blocks), len(chain.terms)) == ("y", 2, 3)
    assert sorted(sum(chain.blocks, ())) == ["y1", "y2", "y3"]
    assert [term.term for term in chain.terms] == ["I(X; Y_1)", "I(X, Y_1; Y_2)", "I(Y_1; Y_2)"]
    assert [term.block for term in chain.terms] == [1, 2, 2]
    total = sum(term.mi if term.is_added else -term.mi for term in chain.terms)
    assert total == pytest.approx(result.unclipped) == result.pointwise.mean()
    np.savez(tmp_path / "data.npz", x=x, y=y)
    line = f"estimate {tmp_path}/data.npz --effort quick --permutations 19 --chain 2 --json"
    done = subprocess.run([command, *line.split()], capture_output=True, text=True, check=True)
    theirs, ours = json.loads(done.stdout), result.to_dict()
    for key in ("mi_nats", "ci_low", "ci_high", "folds", "plan", "chain"):
        assert theirs[key] == ours[key], key
    assert ours["chain"]["direct_nats"] == chain.direct and ours["plan"]["chain"] == 2
    assert "chain over 2 blocks of y: " in result.summary()
    assert "chain over 2 blocks of y, without it " in result._repr_html_()
    direct = fdime.mutual_information(x, y, **options)
    assert direct.chain is None and direct.mi == chain.direct
    assert "chain" not in direct.summary() and "chain" not in direct._repr_html_()


def test_critics_are_those_without_the_chain(dependent, tmp_path):
    """The result says so, and what is saved has the estimate that the critics are for."""
    chained = fdime.mutual_information(*dependent, estimator="copula", chain=3)
    direct = fdime.mutual_information(*dependent, estimator="copula", chain="off")
    assert any("without the chain" in note for note in chained.notes) and not direct.notes
    assert "note: critics for new rows" in chained.summary()
    chained.critics.save(tmp_path / "critics")
    assert fdime.Critics.load(tmp_path / "critics").mi == direct.mi == chained.chain.direct
    assert np.array_equal(chained.score_samples(*dependent), direct.score_samples(*dependent))


def test_the_default_of_the_chain_depends_on_the_effort(dependent):
    assert fdime.estimate_plan()["chain"] == fdime.estimate_plan(effort="max")["chain"] == "auto"
    assert fdime.estimate_plan(effort="quick")["chain"] == "off"
    assert fdime.estimate_plan(effort="quick", chain="auto")["chain"] == "auto"
    assert fdime.estimate_plan(chain=np.int64(3))["chain"] == 3
    few = fdime.mutual_information(dependent[0][:, 0], dependent[1][:, 0], estimator="copula")
    assert few.chain is None, "there is nothing to split"
