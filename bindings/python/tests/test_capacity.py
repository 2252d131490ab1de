"""Capacities of channels."""

from __future__ import annotations

import json
import math
import subprocess

import fdime
import numpy as np
import pytest

QUICK = dict(effort="quick", permutations=99)


@pytest.fixture(scope="module")
def doses() -> tuple[np.ndarray, np.ndarray]:
    """600 rows of three doses and a noisy response."""
    rng = np.random.default_rng(0)
    dose = np.array([4.0, 0.0, 1.0])[rng.integers(0, 3, size=600)]
    return dose, dose / (dose + 1.0) + 0.2 * rng.normal(size=600)


@pytest.fixture(scope="module")
def result(doses) -> fdime.ChannelCapacity:
    return fdime.channel_capacity(*doses, **QUICK)


def test_a_symmetric_channel_of_bits():
    """The truth is ln 2 - H(0.1) = 0.368 nats; counts need no critics."""
    rng = np.random.default_rng(1)
    sent = rng.random(5000) < 0.8
    received = sent ^ (rng.random(5000) < 0.1)
    result = fdime.channel_capacity(sent, received, **QUICK)
    low, high = result.interval
    assert low < 0.3681 < high and result.mi < result.capacity
    assert result.levels == ("false", "true") or result.levels == ("true", "false")
    assert np.allclose(result.optimal, 0.5, atol=0.05)
    assert result.bits == pytest.approx(result.capacity / math.log(2.0))
    assert result.p_value == 0.01


def test_arrays_of_results(doses, result):
    assert result.levels == ("0", "1", "4") and result.level_rows.sum() == 600
    assert result.observed.sum() == pytest.approx(1) and result.optimal.sum() == pytest.approx(1)
    assert result.discriminability.shape == (3, 3)
    assert np.array_equal(result.discriminability, result.discriminability.T)
    assert ((result.discriminability >= 0) & (result.discriminability <= 1)).all()
    assert (result.divergence <= result.capacity + 0.01).all()
    assert result.input == ("input",) and result.output == ("output",)
    assert result.summary(bits=True).startswith("capacity = ")
    assert "hardest to tell apart: 1 and 4" in str(result)
    assert json.loads(json.dumps(result.to_dict()))["levels"][2]["level"] == "4"
    again = fdime.channel_capacity(*doses, plan=result.plan, threads=1)
    assert again.capacity == result.capacity and again.interval == result.interval


def test_tables_and_several_columns(doses):
    pandas = pytest.importorskip("pandas")
    dose, response = doses
    drug = np.where(np.arange(600) % 2 == 0, "a", "b")
    table = pandas.DataFrame({"drug": drug, "dose": dose, "r1": response, "r2": -response})
    result = fdime.channel_capacity(table[["drug", "dose"]], table[["r1", "r2"]], **QUICK)
    assert result.levels[:2] == ("a, 0", "a, 1") and len(result.levels) == 6
    assert result.output == ("r1", "r2")


def test_the_command_line_gives_the_same(doses, command, tmp_path):
    dose, response = doses
    table = np.column_stack([dose, response])
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="input,output", comments="")
    line = [command, "capacity", tmp_path / "t.csv", "--input", "input", "--json"]
    line += ["--effort", "quick", "--permutations", "99"]
    printed = json.loads(subprocess.run(line, capture_output=True, check=True).stdout)
    columns = np.loadtxt(tmp_path / "t.csv", delimiter=",", skiprows=1).T
    ours = fdime.channel_capacity(*columns, **QUICK).to_dict()
    # Notes are in the words of each.
    for key in ("file", "seconds", "notes"):
        printed.pop(key), ours.pop(key)
    assert printed == ours


def test_plot(result, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    result.plot().savefig(tmp_path / "capacity.png")
    assert (tmp_path / "capacity.png").stat().st_size > 5_000


RNG = np.random.default_rng(0)
LEVELS, OUTPUT = np.arange(100) % 2, RNG.normal(size=100)

INVALID = [
    (lambda: fdime.channel_capacity(OUTPUT, OUTPUT), "^input: column 'input' takes too many"),
    (lambda: fdime.channel_capacity(np.zeros(100), OUTPUT), "same value in every row"),
    (
        lambda: fdime.channel_capacity(np.arange(100) < 7, OUTPUT),
        "^input: 1 of 2 levels have fewer than 20 rows, such as 'true' with 7; merge levels",
    ),
    (
        lambda: fdime.channel_capacity(LEVELS, OUTPUT[:50]),
        "input has 100 rows, but output has 50; each row of input goes with",
    ),
    (
        lambda: fdime.channel_capacity(LEVELS, OUTPUT, estimator="ksg"),
        "estimator='ksg' cannot be used with a capacity: it needs numbers",
    ),
    (
        lambda: fdime.channel_capacity(LEVELS, OUTPUT, plan=fdime.estimate_plan(chain=2)),
        "chain=2: a capacity is not estimated with a chain",
    ),
    (lambda: fdime.channel_capacity(LEVELS, OUTPUT, folds=1), "folds=1: must be between 2 and 20"),
]


@pytest.mark.parametrize(("call", "message"), INVALID)
def test_bad_input_is_refused_in_words(call, message):
    with pytest.raises(ValueError, match=message):
        call()
