"""Transfer entropies of pairs and networks of series."""

from __future__ import annotations

import json
import subprocess

import fdime
import numpy as np
import pytest
from fdime import _transfer


@pytest.fixture(scope="module")
def series():
    """y follows x by a step, z follows y by a step."""
    rng = np.random.default_rng(0)
    x, y, z = rng.normal(size=(3, 600))
    y[1:] += x[:-1]
    z[1:] += y[:-1]
    return np.column_stack([x, y, z])


@pytest.fixture(scope="module")
def network(series):
    return fdime.transfer_network(series, history=1, estimator="copula")


def test_both_directions_of_a_pair(series):
    result = fdime.transfer_entropy(series[:, 0], series[:, 1], history=1, estimator="copula")
    assert 0.25 < result.forward.te < 0.45 and result.backward.te < 0.02
    assert result.forward.p_adjusted <= 0.01 and result.backward.p_adjusted > 0.05
    assert result.stronger is result.forward
    assert result.net == result.forward.te - result.backward.te
    assert result.forward.lags == (1,) and result.forward.n_rows == 599
    assert "source -> target is stronger" in str(result)
    assert repr(result) == str(result) and "good" in str(result)


def test_a_pair_is_a_network_of_two_series(series, command, tmp_path):
    pandas = pytest.importorskip("pandas")
    x, y = (pandas.Series(series[:, k], name="ab"[k]) for k in range(2))
    result = fdime.transfer_entropy(x, y, history=1, estimator="copula")
    network = fdime.transfer_network(series[:, :2], history=1, estimator="copula")
    record = result.to_dict()
    assert record["names"] == ["a", "b"] and record["plan"] == network.to_dict()["plan"]
    frame = result.to_pandas()
    assert list(frame["from"]) == ["a", "b"] and list(frame["te_nats"]) == [
        result.forward.te,
        result.backward.te,
    ]
    assert frame["is_stronger"].tolist() == [True, False]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(record))
    reported = subprocess.run([command, "report", path], capture_output=True, check=True).stdout
    assert b"a -> b is stronger" in reported


def test_plots(series, network):
    pytest.importorskip("matplotlib").use("agg")
    pair = fdime.transfer_entropy(series[:, 0], series[:, 1], history=1, estimator="copula")
    (panel,) = pair.plot().axes
    assert [tick.get_text() for tick in panel.get_yticklabels()] == [
        "source → target",
        "target → source",
    ]
    assert network.plot().axes[0].get_xlabel() == "to"


def test_the_history_is_chosen_for_each_target():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 800))
    for t in range(2, 800):
        y[t] += 0.7 * y[t - 2]
    result = fdime.transfer_entropy(x, y, estimator="copula")
    assert (result.forward.history, result.backward.history) == (2, 1)
    assert result.forward.lags == (1, 2)
    assert result.stronger is None and "neither direction" in str(result)


def test_times_recordings_and_missing_values(series):
    x, y = series[:, 0], series[:, 1]
    options = {"history": 1, "estimator": "copula"}
    expected = fdime.transfer_entropy(x, y, **options).forward
    order = np.random.default_rng(2).permutation(600)
    shuffled = fdime.transfer_entropy(x[order], y[order], time=order * 0.5, **options).forward
    assert shuffled == expected
    grouped = fdime.transfer_entropy(x, y, group=np.arange(600) // 200, **options).forward
    assert grouped.n_rows == 597
    gaps = y.copy()
    gaps[300] = np.nan
    assert fdime.transfer_entropy(x, gaps, **options).forward.n_rows == 597
    with pytest.raises(ValueError, match="no value"):
        fdime.transfer_entropy(x, gaps, missing="error", **options)


def test_a_network(network):
    assert network.names == ("x1", "x2", "x3") and len(network.directions) == 6
    significant = np.argwhere(np.nan_to_num(network.p_adjusted, nan=1.0) <= 0.05)
    assert [tuple(pair) for pair in significant] == [(0, 1), (1, 2)]
    assert network.te[0, 1] > 0.25 > network.te[1, 0]
    assert np.isnan(np.diag(network.te)).all()
    assert json.loads(json.dumps(network.to_dict()))["names"] == ["x1", "x2", "x3"]
    assert str(network).startswith("6 directions, 2 significant")
    first, second = str(network).splitlines()[2:4]
    assert first.split()[-2:] == ["adj", "reliability"] and second.split()[-1] == "good"
    assert repr(network) == str(network)


def test_a_journal_continues_after_a_kill(series, network, tmp_path, monkeypatch):
    journal = tmp_path / "network.jsonl"
    options = {"history": 1, "estimator": "copula", "journal": journal}
    whole = fdime.transfer_network(series, **options)
    assert whole.directions == network.directions
    lines = journal.read_text().splitlines()
    assert len(lines) == 7
    journal.write_text("\n".join(lines[:4]) + "\n" + lines[4][:50])
    run = []
    estimate = _transfer.estimate_transfer
    monkeypatch.setattr(
        _transfer, "estimate_transfer", lambda job: run.append(job) or estimate(job)
    )
    assert fdime.transfer_network(series, **options).directions == network.directions
    assert len(run) == 3
    with pytest.raises(ValueError, match="other settings"):
        fdime.transfer_network(series, **options | {"history": 2})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": 0}, r"history=0: must be between 1"),
        ({"history": 1.5}, r"history=1.5: give a whole number"),
        ({"lags": []}, "there is no lag"),
        ({"lags": "1..5"}, r"lags='1..5': give whole numbers"),
        ({"lags": 4}, r"lags=4: give a list of whole numbers, such as \[4\] or range"),
        ({"lags": [0, 1]}, r"lags=0: lags must be at least 1"),
        ({"lags": [-1, 1]}, r"lags=-1: lags must be at least 1"),
        ({"lags": [400]}, r"lags=400: must be at most 299"),
        ({"estimator": "ksg"}, "cannot be used with transfer entropy"),
        ({"time": np.ones(600)}, "same time"),
        ({"group": np.ones((600, 2))}, "group has 2 columns"),
    ],
)
def test_bad_arguments(series, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        fdime.transfer_entropy(series[:, 0], series[:, 1], **options)


def test_bad_series(series):
    with pytest.raises(ValueError, match="transfer_network"):
        fdime.transfer_entropy(series, series[:, 0])
    with pytest.raises(ValueError, match="source has 600 rows, but target has 500"):
        fdime.transfer_entropy(series[:, 0], series[:500, 1])
    with pytest.raises(ValueError, match="same value in every row"):
        fdime.transfer_entropy(series[:, 0], np.ones(600), history=1)
    with pytest.raises(ValueError, match="at least two"):
        fdime.transfer_network(series[:, :1])
