"""Lags of series: the numbers of the command line, gaps, recordings, errors, journals."""

from __future__ import annotations

import json
import subprocess

import fdime
import joblib
import numpy as np
import pytest
from fdime import _lag

COPULA = dict(estimator="copula", lags=range(0, 5))


@pytest.fixture(scope="module")
def series():
    """400 rows; y follows x by 3 steps, in 4 recordings of 100 rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=403)
    return x[3:], x[:400] + 0.5 * rng.normal(size=400), np.repeat(np.arange(4), 100)


def test_a_planted_lag_without_correlation_is_found(series):
    x, y, _ = series
    profile = fdime.lagged_information(x, y**2, lags=[4, 3, 3, 2], estimator="ksg")
    assert profile.lags.tolist() == [2, 3, 4] and profile.largest_at == 3
    assert profile.p_value == profile.p_adjusted.min() <= 0.05
    low, high = profile.interval[1]
    assert 0 < low < profile.mi[1] < high and profile.band > 0
    lines = str(profile).splitlines()
    assert lines[0].startswith("I(x; y 3 steps later) = ")
    assert lines[1].endswith("the largest of 3 lags") and lines[2].startswith("dependent: p = 0.0")
    assert lines[3].startswith("largest test statistic: ")
    assert lines[5].split() == ["lag", "nats", "95%", "interval", "p", "adj", "reliability"]
    assert [line.split()[0] for line in lines[6:9]] == ["2", "3", "4"]
    assert profile.p_over_pairs == profile.p_value
    assert json.loads(json.dumps(profile.to_dict()))["largest_at"] == 3


def test_the_numbers_are_those_of_the_command_line(series, command, tmp_path):
    x, y, trial = series
    table = np.column_stack([x, y, trial])
    np.savetxt(tmp_path / "s.csv", table, delimiter=",", header="x,y,trial", comments="")
    line = [command, "lag", tmp_path / "s.csv", "--x", "x", "--y", "y", "--lags", "0..4"]
    line += ["--estimator", "copula", "--json"]
    for group, more in ((None, []), (trial, ["--group", "trial"])):
        profile = fdime.lagged_information(x, y, group=group, **COPULA)
        shown = json.loads(subprocess.run([*line, *more], capture_output=True, check=True).stdout)
        (expected,) = shown["results"]
        assert profile.to_dict() == expected


def test_columns_can_be_held_fixed(series, command, tmp_path):
    x, y, _ = series
    driver = np.random.default_rng(5).normal(size=400)
    x, y = x + 3 * driver, y + 3 * driver
    table = np.column_stack([x, y, driver])
    np.savetxt(tmp_path / "s.csv", table, delimiter=",", header="x,y,given", comments="")
    line = [command, "lag", tmp_path / "s.csv", "--x", "x", "--y", "y", "--given", "given"]
    line += ["--lags", "0..4", "--estimator", "copula", "--json"]
    shown = json.loads(subprocess.run(line, capture_output=True, check=True).stdout)
    assert fdime.lagged_information(x, y, **COPULA).largest_at == 0
    profile = fdime.lagged_information(x, y, given=driver, **COPULA)
    assert profile.largest_at == 3 and profile.to_dict() == shown["results"][0]
    assert str(profile).startswith("I(x; y 3 steps later | given) = ")
    with pytest.raises(ValueError, match="estimator='ksg'.*use auto"):
        fdime.lagged_information(x, y, given=driver, estimator="ksg")
    with pytest.raises(ValueError, match="given"):
        fdime.lagged_information(x, y, given=driver[:-1], estimator="copula")


def test_missing_values_and_times_do_not_move_rows(series):
    x, y, _ = series
    gone = np.arange(400) % 13 == 5
    blank = [np.where(gone, np.nan, values) for values in (x, y)]
    expected = fdime.lagged_information(*blank, **COPULA)
    assert expected.largest_at == 3
    time = 0.1 * np.arange(400)[~gone]
    order = np.random.default_rng(1).permutation(len(time))
    cut = [values[~gone][order] for values in (x, y)]
    found = fdime.lagged_information(*cut, time=time[order], **COPULA)
    assert found.to_dict() == expected.to_dict()
    with pytest.raises(ValueError, match="missing='drop'"):
        fdime.lagged_information(*blank, missing="error", **COPULA)


def test_recordings_are_not_compared_with_each_other(series):
    x, y, trial = series
    profile = fdime.lagged_information(x, y, group=trial, **COPULA)
    assert [row["n_rows"] for row in profile.estimates] == [400, 396, 392, 388, 384]
    assert profile.largest_at == 3 and profile.p_value <= 0.01
    named = fdime.lagged_information(x, y, group=[f"trial {k}" for k in trial], **COPULA)
    assert named.to_dict() == profile.to_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(lags=[]), r"lags=\[\]: there is no lag"),
        (dict(lags=range(5, -5)), "there is no lag"),
        (dict(lags=range(0, 201)), "lags=200: the series has 400 steps; lags must be at most 199"),
        (dict(y=np.ones(400)), "column 'y' has the same value in every row"),
        (dict(y=np.ones(399)), "column 'y' has 399 rows, but 'x' has 400"),
        (dict(x=np.ones((400, 2))), "x has 2 columns; lagged_information_pairs compares"),
        (dict(time=np.arange(400) ** 1.5), "time: the times are not at equal steps: row 3"),
        (dict(time=np.arange(400) // 2), "time: rows 1 and 2 have the same time; .* in group"),
        (dict(time=np.arange(399)), "column 'time' has 399 rows, but 'x' has 400"),
        (dict(time=np.ones((400, 2))), "time has 2 columns; give one value for each row"),
        (dict(group=np.arange(400) // 8), "lags=4: recording '0' has 8 steps, .* of group"),
        (dict(effort="huge"), "effort='huge'"),
        (dict(missing="no"), "missing='no'"),
    ],
)
def test_bad_arguments_are_refused(series, change, message):
    x, y, _ = series
    with pytest.raises(ValueError, match=message):
        fdime.lagged_information(**{"x": x, "y": y, "lags": range(5), **change})


@pytest.mark.parametrize("lags", [3, "0..5", [0.5], [True]])
def test_lags_are_whole_numbers(series, lags):
    with pytest.raises(TypeError, match="lags.* whole numbers?.* range"):
        fdime.lagged_information(*series[:2], lags=lags)


def test_a_single_lag_is_written_as_a_list(series):
    with pytest.raises(TypeError, match=r"lags=4: give a list .* such as \[4\] or range"):
        fdime.lagged_information(*series[:2], lags=4)


def test_many_pairs_continue_a_journal_after_a_kill(series, tmp_path, monkeypatch):
    x, y, _ = series
    both, journal = np.column_stack([x, y]), tmp_path / "lags.jsonl"
    whole = fdime.lagged_information_pairs(both, y**3, journal=journal, **COPULA)
    assert [profile.x for profile in whole] == ["x1", "x2"] and len(whole) == 2
    assert [profile.largest_at for profile in whole] == [3, 0]
    assert all(profile.p_over_pairs <= 0.05 for profile in whole)
    lines = journal.read_text().splitlines()
    assert len(lines) == 11
    journal.write_text("\n".join(lines[:5]) + "\n" + lines[5][:20])
    done = []
    monkeypatch.setattr(_lag, "estimate_lag", lambda job: done.append(job) or estimate(job))
    again = fdime.lagged_information_pairs(both, y**3, journal=journal, n_jobs=1, **COPULA)
    assert [p.to_dict() for p in again] == [p.to_dict() for p in whole] and len(done) == 6
    with pytest.raises(ValueError, match="other data, other settings or another version"):
        fdime.lagged_information_pairs(both, y**3, journal=journal, seed=1, **COPULA)


estimate = _lag.estimate_lag


def test_the_command_line_continues_a_journal_of_python(series, command, tmp_path):
    x, y, trial = series
    table = np.column_stack([x, y, trial])
    np.savetxt(tmp_path / "s.csv", table, "%.17g", delimiter=",", header="x,y,trial", comments="")
    journal = tmp_path / "lags.json.unfinished"
    group = fdime._inputs.as_table(trial, "trial")
    profiles = fdime.lagged_information_pairs(x, y, group=group, journal=journal, **COPULA)
    text = journal.read_text().replace('"mi_nats":', '"mi_nats":1', 1)  # a mark
    journal.write_text(text)
    line = [
        command,
        "lag",
        tmp_path / "s.csv",
        "--x",
        "x",
        "--y",
        "y",
        "--lags",
        "0..4",
        "--resume",
    ]
    line += ["--group", "trial", "--estimator", "copula", "-o", tmp_path / "lags.json"]
    subprocess.run(line, check=True, capture_output=True)
    found = json.loads((tmp_path / "lags.json").read_text())["results"][0]["lags"]
    differing = [a["lag"] for a, b in zip(found, profiles[0].estimates) if a != b]
    assert len(differing) == 1


def test_other_processes_give_the_same_profiles(series):
    x, y, trial = series
    here = fdime.lagged_information(x, y, group=trial, **COPULA)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        there = fdime.lagged_information(x, y, group=trial, **COPULA)
    assert there.to_dict() == here.to_dict()


def test_plots_and_tables(series):
    pytest.importorskip("matplotlib").use("agg")
    pandas = pytest.importorskip("pandas")
    x, y, _ = series
    profiles = fdime.lagged_information_pairs(np.column_stack([x, y]), y**3, **COPULA)
    assert len(profiles.plot().axes) == 4 and len(profiles[0].plot().axes) == 2
    assert profiles[0].plot().axes[0].get_title() == "x1 and y"
    lines = str(profiles).splitlines()
    assert lines[0] == "2 pairs, 2 dependent at a false discovery rate of 5%"
    assert [line.split()[:3] for line in lines[3:]] == [["x2", "y", "0"], ["x1", "y", "3"]]
    reverse = fdime.lagged_information(y, x, estimator="copula", lags=[-3, 0])
    assert str(reverse).startswith("I(x; y 3 steps earlier) = ")
    table = profiles.to_pandas()
    assert isinstance(table, pandas.DataFrame) and len(table) == 10
    assert list(table.columns[:4]) == ["x", "y", "given", "lag"]
