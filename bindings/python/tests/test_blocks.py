"""Building blocks: divergences, objectives, scenarios, staircases."""

from __future__ import annotations

import json
import math
import pickle
import subprocess

import fdime
import numpy as np
import pytest

LOG_RATIOS = np.linspace(-4.0, 4.0, 41)


@pytest.mark.parametrize(
    "name", sorted(set(fdime.names()["divergences"]) - {"alpha-A"}) + ["alpha-0.3"]
)
def test_a_and_b_of_every_divergence_satisfy_their_definitions(name):
    """b = e^l a - f(e^l) and b' = e^l a', for every divergence."""
    divergence = fdime.Divergence(name)
    u = np.exp(LOG_RATIOS)
    a, b = divergence.a(LOG_RATIOS), divergence.b(LOG_RATIOS)
    assert np.allclose(b, u * a - divergence.f(u), atol=1e-9 * np.abs(u * a).max())
    assert np.allclose(divergence.b_slope(LOG_RATIOS), u * divergence.a_slope(LOG_RATIOS))
    step = 1e-6
    slope = (divergence.a(LOG_RATIOS + step) - divergence.a(LOG_RATIOS - step)) / (2 * step)
    assert np.allclose(slope, divergence.a_slope(LOG_RATIOS), rtol=1e-5, atol=1e-6)
    assert divergence.f(1.0) == pytest.approx(0.0, abs=1e-14)
    assert pickle.loads(pickle.dumps(divergence)).name == name


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (lambda u: u * np.log(u), "kl"),
        (lambda u: -np.log(u), "reverse-kl"),
        (lambda u: (np.sqrt(u) - 1) ** 2, "hd"),
        (lambda u: np.square(u - 1), "pearson"),
        (lambda u: (1 - u) ** 2 / u, "neyman"),
        (lambda u: (u - 1) * np.log(u), "jeffreys"),
        (lambda u: np.log(2) - np.log1p(u), "shifted-log"),
        (lambda u: u * np.log(u) - (u + 1.0) * np.log(u + 1) + np.log(4), "gan"),
        ("u*ln(u)", "kl"),
        ("(sqrt(u)-1)^2", "hd"),
    ],
    ids=str,
)
def test_a_function_of_u_equals_the_named_divergence(f, name):
    custom, known = fdime.Divergence(f), fdime.Divergence(name)
    for method in ("a", "b", "a_slope", "b_slope"):
        ours, theirs = getattr(custom, method)(LOG_RATIOS), getattr(known, method)(LOG_RATIOS)
        assert np.allclose(ours, theirs, rtol=1e-9, atol=1e-9), (custom, method)


def test_functions_that_are_not_expressions_are_refused_with_a_reason():
    for f, message in [
        (lambda u: u * math.log(u), "functions of the math module accept only numbers"),
        (lambda u: u if u > 1 else 1 / u, "cannot be converted to an expression"),
        (lambda u: np.maximum(u, 1), "cannot be converted to an expression"),
        (lambda u: np.floor(u), "np.floor"),
    ]:
        with pytest.raises(TypeError, match=message):
            fdime.Divergence(f)
    with pytest.raises(ValueError, match="does not depend on u"):
        fdime.Divergence(lambda u: 3.0)
    with pytest.raises(ValueError, match="not convex"):
        fdime.Divergence(np.log)


def test_f_of_1_is_subtracted_with_a_warning():
    with pytest.warns(fdime.FdimeWarning, match=r"f\(1\) is 3 instead of 0"):
        assert fdime.Divergence("u*ln(u)+3").f(1.0) == 0.0


ESTIMATORS = [
    "kl-dime",
    "gan-dime",
    "hd-dime",
    "nwj",
    "mine",
    "smile-1",
    "smile-own-2",
    "smile-inf",
    "f:(u-1)^2/(u+1)",
]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_gradients_equal_finite_differences(estimator):
    rng = np.random.default_rng(1)
    joint, marginal = rng.normal(size=(2, 8))
    value, gradient = fdime.Objective(estimator).value_and_gradient(joint, marginal)
    for side in range(2):
        for k in range(8):
            values = []
            for step in (1e-2, -1e-2):
                moved = [joint.copy(), marginal.copy()]
                moved[side][k] += step
                values.append(fdime.Objective(estimator).value_and_gradient(*moved)[0])
            slope = (values[0] - values[1]) / 2e-2
            assert gradient[side][k] == pytest.approx(slope, abs=2e-3)


def test_a_matrix_of_scores_equals_its_diagonal_and_the_rest():
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(6, 6))
    off = ~np.eye(6, dtype=bool)
    for estimator in ESTIMATORS:
        square, paired = fdime.Objective(estimator), fdime.Objective(estimator)
        left, (gradient,) = square.value_and_gradient(matrix)
        right, (joint, marginal) = paired.value_and_gradient(matrix.diagonal(), matrix[off])
        assert left == pytest.approx(right, abs=1e-5)
        assert np.allclose(gradient.diagonal(), joint, atol=1e-6)
        assert np.allclose(gradient[off], marginal, atol=1e-6)
        assert square.mutual_information(matrix) == pytest.approx(
            paired.mutual_information(matrix.diagonal(), matrix[off]), abs=1e-5
        )


def test_info_nce_is_at_most_the_logarithm_of_the_batch():
    assert fdime.Objective("cpc").mutual_information(50 * np.eye(16)) == pytest.approx(math.log(16))


def test_mine_remembers_past_batches():
    """ln Z_avg <- ln(0.99 Z_avg + 0.01 Z), and the marginal gradient is -e^l / (n Z_avg)."""
    mine = fdime.Objective("mine")
    mine.value_and_gradient(np.zeros(4), np.zeros(4))
    _, (_, gradient) = mine.value_and_gradient(np.zeros(4), np.full(4, 3.0))
    average = 0.99 + 0.01 * math.exp(3.0)
    assert np.allclose(gradient, -math.exp(3.0) / (4 * average), rtol=1e-5)
    with pytest.raises(
        ValueError, match="it remembers batches of 4 \\+ 4; make another for other sizes"
    ):
        mine.value_and_gradient(np.zeros(3), np.zeros(3))
    other = fdime.Objective("kl-dime")
    for size in (4, 3):
        other.value_and_gradient(np.zeros(size), np.zeros(size))


def test_scenarios_have_the_stated_mutual_information(command, tmp_path):
    """The mean of the exact log ratio is the stated value: within 4.5 standard errors (alpha 7e-6 each)."""
    for name, dim, level in [
        ("gaussian", 3, 2.0),
        ("student", 2, "df=2"),
        ("uniform", 1, "eps=0.3"),
        ("concentric", 3, "components=5"),
        ("swiss-roll", 1, 0.8),
    ]:
        scenario = fdime.Scenario(name, dim=dim, level=level)
        x, y, ratios = scenario.sample_log_ratios(20_000, seed=1)
        assert (x.shape[1], y.shape[1]) == scenario.dims
        error = 4.5 * ratios.std() / math.sqrt(len(ratios))
        assert abs(ratios.mean() - scenario.mutual_information) < error, name
    subprocess.run(
        [
            command,
            "sample",
            "swiss-roll",
            "--level",
            "0.8",
            "-n",
            "50",
            "--dim",
            "1",
            "--seed",
            "1",
            "-o",
            tmp_path / "s.npz",
        ],
        check=True,
        capture_output=True,
    )
    with np.load(tmp_path / "s.npz") as drawn:
        assert np.array_equal(drawn["x"], x[:50]) and np.array_equal(drawn["y"], y[:50])


def test_the_benchmark_has_two_suites():
    tasks = fdime.benchmark()
    assert len(tasks) == 40
    assert tasks["additive-noise-0.1-1x1"].mutual_information == pytest.approx(1.7094, abs=1e-4)
    assert pickle.loads(pickle.dumps(tasks["student-df2-3x3"])).dims == (3, 3)
    mixtures = fdime.benchmark("bmi2")
    assert len(mixtures) == 13
    assert mixtures["concentric-5-25x1"].dims == (25, 1)


def test_conditional_tasks_are_those_of_the_command_line(command):
    tasks = fdime.conditional_benchmark()
    assert len(tasks) == 33 and len(fdime.conditional_benchmark("transfer")) == 14
    task = pickle.loads(pickle.dumps(tasks["smooth-1x1x5"]))
    assert task.conditional_mutual_information == pytest.approx(-0.5 * np.log(1 - 0.6**2))
    x, y, z = task.sample(300, seed=4)
    line = [command, "suite", "conditional", "--tasks", task.name, "--rows", "300", "--seed", "4"]
    line += ["--estimator", "copula", "--json"]
    shown = json.loads(subprocess.run(line, capture_output=True, check=True).stdout)
    result = fdime.mutual_information(x, y, given=z, estimator="copula", seed=4)
    assert result.mi == shown["results"][0]["mi_nats"]
    assert fdime.conditional_benchmark("transfer")["one-way"].is_series
    with pytest.raises(ValueError, match="suites of conditional tasks"):
        fdime.conditional_benchmark("bmi")


SMALL = dict(
    dim=2,
    levels=[0.5, 1],
    iterations=200,
    hidden=[32, 32],
    learning_rate=5e-3,
    last=50,
    device="cpu",
)


def test_a_staircase_returns_arrays():
    result = fdime.staircase(["kl-dime", "gan-dime"], runs=2, **SMALL)
    assert result.estimators == ("kl-dime", "gan-dime")
    assert result.estimates["gan-dime"].shape == result.values["gan-dime"].shape == (2, 400)
    assert np.array_equal(result.true_mi, np.repeat([0.5, 1.0], 200))
    row = next(r for r in result.summary if r["estimator"] == "gan-dime" and r["true_mi"] == 1.0)
    window = result.estimates["gan-dime"][:, -50:]
    assert row["mean"] == pytest.approx(window.mean()) and row["runs"] == 2
    assert row["variance"] == pytest.approx(window.var(axis=1).mean())
    assert row["bias"] == pytest.approx(abs(window.mean() - 1.0))


def test_a_plan_repeats_a_staircase_to_the_bit(command, tmp_path):
    first = fdime.staircase("hd-dime", **SMALL)
    text = json.dumps(first.plan)
    again = fdime.staircase(plan=json.loads(text), device="cpu", threads=1)
    assert np.array_equal(first.estimates["hd-dime"], again.estimates["hd-dime"])
    (tmp_path / "plan.json").write_text(text)
    done = subprocess.run(
        [command, "staircase", "--plan", tmp_path / "plan.json", "--json", "--device", "cpu"],
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = json.loads(done.stdout)["results"]
    assert [row["mean"] for row in theirs] == [row["mean"] for row in first.summary]


CHAINED = dict(
    scenario="dense-gaussian",
    dim=3,
    levels=[0.5, 1],
    iterations=60,
    hidden=[16, 16],
    chain=3,
    learning_rate_schedule="warm-up-and-cosine",
    last=20,
    device="cpu",
)


def signed_sum(terms):
    return sum(term["mean"] if term["with_x"] else -term["mean"] for term in terms)


def test_a_chained_staircase_is_the_sum_of_its_terms():
    result = fdime.staircase(["kl-dime", "gan-dime"], runs=2, **CHAINED)
    assert len(result.summary) == 4 and result.failures == []
    for row in result.summary:
        assert signed_sum(row["terms"]) == pytest.approx(row["mean"], abs=1e-9)
    for name in result.estimators:
        terms = result.terms[name]
        added = ["I(X; Y_1)", "I(X, Y_1; Y_2)", "I(X, Y_<3; Y_3)"]
        assert list(terms) == [*added[:2], "I(Y_1; Y_2)", added[2], "I(Y_<3; Y_3)"]
        total = sum(value if name in added else -value for name, value in terms.items())
        assert total.shape == (2, 120)
        assert np.allclose(total, result.estimates[name], atol=1e-12)
    assert result.plan["learning_rate_schedule"] == "warm-up-and-cosine"
    direct = fdime.staircase("kl-dime", **SMALL)
    assert direct.terms == {} and "terms" not in direct.summary[0] and "chain" not in direct.plan


def test_a_chained_staircase_has_the_numbers_and_keys_of_the_command_line(command, tmp_path):
    log, plan = tmp_path / "runs.jsonl", tmp_path / "plan.json"
    first = fdime.staircase("gan-dime", log=log, **CHAINED)
    assert len(log.read_text().splitlines()) == 5
    again = fdime.staircase(plan=first.plan, device="cpu", log=log)
    assert again.summary == first.summary and len(log.read_text().splitlines()) == 5
    plan.write_text(json.dumps(first.plan))
    line = [command, "staircase", "--plan", plan, "--json", "--device", "cpu"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout)["results"]
    for ours, row in zip(first.summary, theirs, strict=True):
        assert ours["terms"] == row["terms"] and ours["mean"] == row["mean"]
        assert set(ours) <= set(row)


def test_blocks_of_a_chain_can_be_given():
    options = {**CHAINED, "chain": [np.array([2]), (0, 1)]}
    result = fdime.staircase("gan-dime", **options)
    assert result.plan["chain"] == [[2], [0, 1]]
    assert [term["block"] for term in result.summary[0]["terms"]] == [1, 2, 2]
    assert fdime.staircase_plan("kl-dime", dim=4, chain=np.int64(2))["chain"] == 2


def test_a_chained_staircase_runs_on_a_backend():
    joblib = pytest.importorskip("joblib")
    here = fdime.staircase("kl-dime", runs=2, **CHAINED)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        there = fdime.staircase("kl-dime", runs=2, **CHAINED)
    assert there.summary == here.summary


def test_a_diverged_term_is_named():
    result = fdime.staircase("nwj", **{**CHAINED, "learning_rate": 1e6, "iterations": 200})
    assert {failure["term"] for failure in result.failures} <= set(result.terms["nwj"])
    assert result.failures and result.summary == []
    assert np.isnan(result.estimates["nwj"][0, -1])


def test_runs_in_a_log_are_not_repeated_here_or_by_the_command_line(command, tmp_path):
    log, plan = tmp_path / "runs.jsonl", tmp_path / "plan.json"
    first = fdime.staircase(["kl-dime", "hd-dime"], log=log, **SMALL)
    lines = log.read_text().splitlines()
    assert len(lines) == 2
    again = fdime.staircase(plan=first.plan, device="cpu", log=log)
    assert log.read_text().splitlines() == lines and again.summary == first.summary
    plan.write_text(json.dumps(first.plan))
    line = [command, "staircase", "--plan", plan, "--log", log, "--device", "cpu", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert "2 of 2 runs are already in the log" in done.stderr
    assert [row["mean"] for row in json.loads(done.stdout)["results"]] == [
        row["mean"] for row in first.summary
    ]


def test_a_function_of_u_trains_like_the_named_divergence():
    own = fdime.Divergence(lambda u: u * np.log(u))
    custom = fdime.staircase(own, **SMALL).estimates[own.estimator]
    known = fdime.staircase("kl-dime", link="identity", **SMALL).estimates["kl-dime"]
    assert np.allclose(custom, known, atol=2e-2)


def test_diverged_runs_end_with_nan():
    result = fdime.staircase("nwj", **{**SMALL, "learning_rate": 1e6})
    assert result.failures and result.true_mi.shape == (400,)
    assert np.isnan(result.estimates["nwj"][0, -1]) and result.summary == []


def test_options_can_be_numpy_numbers():
    plan = fdime.staircase_plan(
        "kl-dime", dim=np.int64(2), hidden=np.array([8, 8]), batch=np.int32(16)
    )
    assert plan["scenario"]["dim"] == 2 and plan["critic"]["hidden"] == [8, 8]


def test_notices_become_warnings():
    with pytest.warns(fdime.FdimeWarning, match="instead of 0"):
        fdime.staircase("f:u*ln(u)+3", **{**SMALL, "iterations": 50})
    x = np.random.default_rng(0).normal(size=(2, 60))
    with pytest.warns(fdime.FdimeWarning, match="instead of 0"):
        fdime.mutual_information(
            x[0], x[1], estimator="f:u*ln(u)+3", effort="quick", permutations=19
        )


def test_staircase_plot(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    figure = fdime.staircase(["kl-dime", "nwj"], **SMALL).plot()
    figure.savefig(tmp_path / "staircase.png")
    assert (tmp_path / "staircase.png").stat().st_size > 5_000
    assert len(figure.axes) == 2
    chained = fdime.staircase(["kl-dime", "gan-dime"], **CHAINED).plot()
    assert len(chained.axes) == 4
    # Five terms at each of two levels.
    assert len(chained.axes[1].patches) == 10
