"""Errors are Python exceptions with the messages of the command line."""

from __future__ import annotations

import subprocess

import fdime
import numpy as np
import pytest

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(100, 2)), RNG.normal(size=100)
WITH_NAN = X.copy()
WITH_NAN[6, 1] = np.nan
WITH_INFINITY = X.copy()
WITH_INFINITY[6, 1] = np.inf


#: An invalid call, the type of its exception, and a part of its message.
INVALID = [
    (
        lambda: fdime.mutual_information(X, Y[:50]),
        ValueError,
        "x has 100 rows, but y has 50; each row of x goes with the same row of y",
    ),
    (
        lambda: fdime.mutual_information(X.reshape(10, 10, 2), Y),
        ValueError,
        r"x has 3 dimensions; give rows and columns, e.g. x.reshape\(len\(x\), -1\)",
    ),
    (
        lambda: fdime.mutual_information(3.0, Y),
        TypeError,
        "x is a single value; give one row for each observation",
    ),
    (lambda: fdime.mutual_information(X[:, :0], Y), ValueError, "x has no columns"),
    (lambda: fdime.mutual_information([[1.0, 2.0], [3.0]], [1.0, 2.0]), ValueError, "^x: "),
    (
        lambda: fdime.mutual_information(X[:1], Y[:1]),
        ValueError,
        "it has 1 row; at least 20 are needed",
    ),
    (
        lambda: fdime.mutual_information(X[:0], Y[:0]),
        ValueError,
        "it has 0 rows; at least 20 are needed",
    ),
    (
        lambda: fdime.mutual_information(WITH_NAN, Y, missing="error"),
        ValueError,
        r"column 'x2' has no value \(NaN\) in row 7; fill it in, or leave such rows out with missing='drop'",
    ),
    (
        lambda: fdime.mutual_information(WITH_INFINITY, Y),
        ValueError,
        "column 'x2' has an infinite value in row 7; remove it",
    ),
    (
        lambda: fdime.mutual_information(np.array([{}] * 100), Y),
        TypeError,
        "column 'x' is of type object, with dict in it, which is neither number nor text; leave it out or convert it",
    ),
    (
        lambda: fdime.mutual_information(np.array([1.0, "a"] * 50, dtype=object), Y),
        TypeError,
        "with both numbers and text",
    ),
    (
        lambda: fdime.mutual_information(np.zeros(100, dtype="V8"), Y),
        TypeError,
        r"is of type \|V8, which is neither number nor text",
    ),
    (
        lambda: fdime.mutual_information(X, np.ones(100)),
        ValueError,
        "column 'y' has the same value in every row used; leave it out, or all such columns with constant='drop'",
    ),
    (
        lambda: fdime.mutual_information(np.arange(300.0), [f"row {k}" for k in range(300)]),
        ValueError,
        "column 'y' has 300 different values in 300 rows, such as 'row 0', too many for categories; leave it out",
    ),
    (
        lambda: fdime.mutual_information(X, Y, estimator="gan-dmie"),
        ValueError,
        r"estimator: unknown estimator 'gan-dmie'; did you mean 'gan-dime'\? \(fdime.names\(\) lists all names\)",
    ),
    (
        lambda: fdime.mutual_information(X, Y, estimator="njee"),
        ValueError,
        "estimator='njee': it needs fresh samples at every step",
    ),
    (
        lambda: fdime.mutual_information(X, Y, estimator="f:ln(u)"),
        ValueError,
        "does not generate an f-divergence: it is not convex",
    ),
    (
        lambda: fdime.mutual_information(X, Y, estimator=3),
        TypeError,
        "estimator=3: give a name, a Divergence, or a function of u",
    ),
    (
        lambda: fdime.mutual_information(X, Y, effort="huge"),
        ValueError,
        "effort='huge': write quick, default or max",
    ),
    (
        lambda: fdime.mutual_information(X, Y, folds=99),
        ValueError,
        "folds=99: must be between 2 and 20",
    ),
    (
        lambda: fdime.mutual_information(X, Y, folds=2.5),
        TypeError,
        "folds=2.5: give a whole number",
    ),
    (
        lambda: fdime.mutual_information(X, Y, seed=-1),
        ValueError,
        "seed=-1: must not be negative",
    ),
    (
        lambda: fdime.mutual_information(X, Y, permutations=3),
        ValueError,
        "permutations=3: must be between 19 and 100000",
    ),
    (
        lambda: fdime.mutual_information(X, Y, permutations=-1),
        ValueError,
        "permutations=-1: must not be negative",
    ),
    (
        lambda: fdime.mutual_information(X, Y, effort=1),
        TypeError,
        "effort=1: write 'quick', 'default' or 'max'",
    ),
    (
        lambda: fdime.mutual_information(X, Y, missing=True),
        TypeError,
        "missing=True: write 'drop' or 'error'",
    ),
    (
        lambda: fdime.mutual_information(X, Y, device=0),
        TypeError,
        "device=0: write 'auto', 'cpu' or 'cuda'",
    ),
    (
        lambda: fdime.select_features(X, Y, criterion=None),
        TypeError,
        "criterion=None: write 'forward', 'cmim', 'jmi' or 'mrmr'",
    ),
    (
        lambda: fdime.power_analysis(0.1, scenario=1),
        TypeError,
        r"scenario=1: give a name; fdime.names\(\) lists all names",
    ),
    (
        lambda: fdime.mutual_information(X, Y, progress=3),
        TypeError,
        "progress=3: give True, False or a function of the completed fraction",
    ),
    (
        lambda: fdime.mutual_information(X, Y, plan=fdime.estimate_plan(), seed=0, effort="max"),
        ValueError,
        "plan cannot be used with effort, seed, which it sets",
    ),
    (
        lambda: fdime.channel_capacity(Y > 0, X, plan=fdime.estimate_plan(), folds=4),
        ValueError,
        "plan cannot be used with folds, which it sets",
    ),
    (
        lambda: fdime.mutual_information(X, Y, n_jobs=2),
        TypeError,
        r"mutual_information\(\) has no argument 'n_jobs'; use threads, the number",
    ),
    (
        lambda: fdime.mutual_information_matrix(X, threads=1),
        TypeError,
        r"mutual_information_matrix\(\) has no argument 'threads'; use n_jobs, the number",
    ),
    (lambda: fdime.mutual_information(X, Y, blocks=99), ValueError, "blocks=99: must be at most"),
    (
        lambda: fdime.mutual_information(X, Y, chain=1),
        ValueError,
        "chain=1: write off, auto, or a number of blocks of at least 2",
    ),
    (
        lambda: fdime.mutual_information(X, Y, chain="many"),
        ValueError,
        "chain='many': write off, auto, or a number of blocks",
    ),
    (
        lambda: fdime.mutual_information(X, Y, chain=99),
        ValueError,
        "chain=99: must be at most 2 blocks, because neither x nor y has more columns",
    ),
    (
        lambda: fdime.mutual_information(Y, X[:, 0], chain=2),
        ValueError,
        "chain=2: x and y have one column each, which cannot be split",
    ),
    (
        lambda: fdime.mutual_information(X, Y, chain=2, estimator="ksg"),
        ValueError,
        "chain=2: ksg has no chain; use estimator='auto'",
    ),
    (
        lambda: fdime.mutual_information(X, Y, plan={**fdime.estimate_plan(), "chain": -1}),
        ValueError,
        "plan: not as expected: chain: write off, auto, or a number of blocks",
    ),
    (
        lambda: fdime.mutual_information(X, Y, missing="keep"),
        ValueError,
        "missing='keep': write 'drop' or 'error'",
    ),
    (
        lambda: fdime.mutual_information(X, Y, discrete="z"),
        ValueError,
        "discrete='z': there is no column 'z'; the columns are 'x1', 'x2', 'y'",
    ),
    (
        lambda: fdime.mutual_information(X, Y, discrete=[1]),
        TypeError,
        "discrete: give the names of columns",
    ),
    (
        lambda: fdime.mutual_information(X, Y, plan={"method": "auto"}),
        ValueError,
        "plan: not as expected: missing field",
    ),
    (lambda: fdime.mutual_info_features(X, Y[:50]), ValueError, "x has 100 rows, but y has 50"),
    (lambda: fdime.mutual_info_features(X, X), ValueError, "y has 2 columns; give one target"),
    (
        lambda: fdime.mutual_info_features(WITH_NAN, Y, missing="error"),
        ValueError,
        r"column 'x2' has no value \(NaN\) in row 7",
    ),
    (
        lambda: fdime.mutual_info_features(X, Y, discrete_features=[7]),
        ValueError,
        "positions from 0 to 1, or a mask of 2 booleans",
    ),
    (lambda: fdime.mutual_info_features(X, Y, n_jobs=0), ValueError, "n_jobs=0"),
    (
        lambda: fdime.mutual_info_features(X, np.ones(100)),
        ValueError,
        "y has the same value in every row",
    ),
    (
        lambda: fdime.mutual_info_features(X, Y, discrete_target="yes"),
        ValueError,
        "discrete_target='yes': write True, False or 'auto'",
    ),
    (
        lambda: fdime.mutual_info_features(X, Y, discrete_features=[-1]),
        ValueError,
        "positions from 0 to 1",
    ),
    (
        lambda: fdime.mutual_info_features(X, Y, estimator="ksg", p_values=True),
        ValueError,
        "no test of independence and so no p-values",
    ),
    (
        lambda: fdime.mutual_info_features(np.full((100, 2), np.nan), Y, missing="error"),
        ValueError,
        r"has no value \(NaN\) in row 1",
    ),
    (
        lambda: fdime.mutual_information(X, Y, seed=2**64),
        ValueError,
        r"seed=18446744073709551616: must be below 2\^63",
    ),
    (
        lambda: fdime.mutual_information(X, Y, plan={"a": object()}),
        ValueError,
        "plan: not plain data",
    ),
    (
        lambda: fdime.mutual_information(X, Y, plan="abc"),
        ValueError,
        "plan: not as expected: expected value",
    ),
    (
        lambda: fdime.mutual_information_matrix(X, folds=99),
        ValueError,
        "folds=99: must be between 2 and 20",
    ),
    (
        lambda: fdime.mutual_information_matrix(WITH_NAN, missing="error"),
        ValueError,
        r"column 'x2' has no value \(NaN\) in row 7",
    ),
    (lambda: fdime.Scenario("gaussian").sample(-1), ValueError, "n=-1: must not be negative"),
    (
        lambda: fdime.Scenario("gaussian").sample(10**15),
        MemoryError,
        "n=1000000000000000: not enough memory for so many rows",
    ),
    (lambda: fdime.Scenario("gaussian", dim=-1), ValueError, "dim=-1: must not be negative"),
    (lambda: fdime.Divergence("u^2^3"), ValueError, "put one of two powers in parentheses"),
    (
        lambda: fdime.Divergence(lambda u: u.log()),
        TypeError,
        "cannot be converted to an expression",
    ),
    (
        lambda: fdime.staircase("kl-dime", learning_rate=float("nan")),
        ValueError,
        "staircase: not plain data",
    ),
    (lambda: fdime.mutual_information_matrix(X, groups=[["x1"]]), TypeError, "give a dictionary"),
    (lambda: fdime.mutual_information_matrix(X, n_jobs=1.5), TypeError, "n_jobs=1.5: give a whole"),
    (lambda: fdime.mutual_information(X, Y, discrete=5), TypeError, "give the names of columns"),
    (lambda: fdime.Scenario("gaussian", level=None), TypeError, "level=None: give nats"),
    (lambda: fdime.staircase_plan("kl-dime", hidden="256"), TypeError, "give the widths of"),
    (lambda: fdime.staircase_plan("kl-dime", hidden=[3.5]), TypeError, "hidden=3.5: give a whole"),
    (lambda: fdime.staircase_plan("kl-dime", dim=-1), ValueError, "dim=-1: must not be negative"),
    (
        lambda: fdime.mutual_information_matrix(X[:, :1]),
        ValueError,
        "at least two are needed",
    ),
    (
        lambda: fdime.mutual_information_matrix(X, groups={"a": ["x1"], "b": ["q"]}),
        ValueError,
        "groups='q': there is no column 'q'; the columns are 'x1', 'x2'",
    ),
    (
        lambda: fdime.mutual_information_matrix(X, groups={"a": ["x1"], "b": ["x1"]}),
        ValueError,
        "column 'x1' is in both 'a' and 'b'",
    ),
    (
        lambda: fdime.mutual_information_matrix(X, groups={"a": [0], "b": ["x2"]}),
        ValueError,
        "groups: there is no column 0; the columns are 'x1', 'x2'",
    ),
    (
        lambda: fdime.Scenario("gausian"),
        ValueError,
        "scenario: unknown scenario 'gausian'; did you mean 'gaussian'",
    ),
    (
        lambda: fdime.benchmark("other"),
        ValueError,
        "suite='other': the suites are bmi and bmi2",
    ),
    (
        lambda: fdime.Scenario("gaussian", level="df=3"),
        ValueError,
        "levels='df=3' cannot be used with scenario",
    ),
    (
        lambda: fdime.Scenario("gaussian", dim=0),
        ValueError,
        "dim=0: the dimension must lie between 1 and 100000",
    ),
    (
        lambda: fdime.Divergence("jefreys"),
        ValueError,
        "unknown divergence 'jefreys'; did you mean 'jeffreys'",
    ),
    (lambda: fdime.Divergence("u*ln(v)"), ValueError, "the only variable is u"),
    (lambda: fdime.Divergence(3), TypeError, "give a name, an expression in u, or a function of u"),
    (lambda: fdime.Objective("njee"), ValueError, "an estimator that trains a critic"),
    (
        lambda: fdime.Objective("cpc").value_and_gradient([1.0, 2.0], [1.0, 2.0]),
        ValueError,
        "InfoNCE compares every x with every y",
    ),
    (
        lambda: fdime.Objective("mine").value_and_gradient(np.ones((2, 3))),
        ValueError,
        "square matrix",
    ),
    (
        lambda: fdime.staircase("kl-dime", pairing="shift", critic="joint"),
        ValueError,
        "pairing='shift' cannot be used with critic joint",
    ),
    (
        lambda: fdime.staircase("kl-dime", dim=3, chain=4),
        ValueError,
        "chain=4: must be between 1 and 3 blocks, because y has 3 columns",
    ),
    (
        lambda: fdime.staircase("kl-dime", chain=0),
        ValueError,
        "chain=0: must be between 1 and 20 blocks",
    ),
    (lambda: fdime.staircase("njee", chain=2), ValueError, "chain=2: njee has no critic"),
    (
        lambda: fdime.staircase("kl-dime", dim=3, chain=[[0, 1], [1]]),
        ValueError,
        "blocks hold each of the columns 0 to 2 once",
    ),
    (lambda: fdime.staircase("kl-dime", chain="4"), TypeError, "chain='4': give a whole number"),
    (lambda: fdime.staircase("kl-dime", chain=[1, 2]), TypeError, "give a number of blocks, or"),
    (
        lambda: fdime.staircase("kl-dime", learning_rate_schedule="cosine"),
        ValueError,
        "learning_rate_schedule: unknown",
    ),
    (lambda: fdime.staircase("kl-dime", iteratons=3), TypeError, "iteratons"),
    (lambda: fdime.staircase("kl-dime", batch=1), ValueError, "batch=1: at least 2 samples"),
    (
        lambda: fdime.staircase("kl-dime", device="tpu"),
        ValueError,
        "device='tpu': write auto, cpu or cuda",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), INVALID)
def test_invalid_arguments_raise_errors_with_advice(call, kind, message):
    with pytest.raises(kind, match=message) as raised:
        call()
    assert type(raised.value) is kind
    assert "--" not in str(raised.value), "flags belong to the command line"


def test_warnings_name_the_line_of_the_caller():
    lags = {"lags": [0], "effort": "quick", "permutations": 19}
    for call in (
        lambda f: fdime.Divergence(f),
        lambda f: fdime.mutual_information(X, Y, estimator=f, effort="quick", permutations=19),
        lambda f: fdime.lagged_information(X[:, 0], Y, estimator=f, **lags),
    ):
        with pytest.warns(fdime.FdimeWarning, match="constant is subtracted") as warned:
            call("f:u*ln(u)+3")
        assert {warning.filename for warning in warned} == {__file__}


def test_data_on_a_gpu_is_not_read():
    class OnDevice:
        def __dlpack__(self, **_):
            raise AssertionError("the data must not be read")

        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(
        ValueError, match=r"x is not in the CPU's memory; move it there, e.g. with x.cpu\(\)"
    ):
        fdime.mutual_information(OnDevice(), Y)


@pytest.mark.parametrize(
    ("table", "flags", "call"),
    [
        (
            np.column_stack([WITH_NAN, Y]),
            ["--missing", "error"],
            lambda t: fdime.mutual_information(t[:, :2], t[:, 2], missing="error"),
        ),
        (np.column_stack([X, Y])[:5], [], lambda t: fdime.mutual_information(t[:, :2], t[:, 2])),
        (
            np.column_stack([X, np.ones(100)]),
            ["--x", "x1,x2", "--y", "y"],
            lambda t: fdime.mutual_information(t[:, :2], t[:, 2]),
        ),
        (
            np.column_stack([X, Y]),
            ["--estimator", "kl-dmie"],
            lambda t: fdime.mutual_information(t[:, :2], t[:, 2], estimator="kl-dmie"),
        ),
        (
            np.column_stack([X, Y]),
            ["--folds", "30"],
            lambda t: fdime.mutual_information(t[:, :2], t[:, 2], folds=30),
        ),
    ],
    ids=["missing", "few rows", "constant", "unknown name", "folds"],
)
def test_messages_match_those_of_the_command_line(table, flags, call, command, tmp_path):
    file = tmp_path / "data.csv"
    np.savetxt(file, table, delimiter=",", header="x1,x2,y", comments="")
    done = subprocess.run([command, "estimate", file, *flags], capture_output=True, text=True)
    assert done.returncode == 2
    with pytest.raises(ValueError) as raised:
        call(table)

    def neutral(text: str) -> str:
        for theirs, ours in [
            ("error: ", ""),
            (f"{file}: ", ""),
            ("x and y: ", ""),
            (" (NaN)", ""),
            ("--missing drop", "missing='drop'"),
            ("--constant drop", "constant='drop'"),
            (" with '!y'", ""),
            ("--folds 30", "folds=30"),
            ("--estimator", "estimator"),
            (" (fdime.names() lists all names)", ""),
        ]:
            text = text.replace(theirs, ours)
        return text.splitlines()[0]

    assert neutral(str(raised.value)) == neutral(done.stderr)


def test_a_panic_becomes_a_runtime_error(capfd):
    with pytest.raises(RuntimeError, match="internal error, please report it: a panic on purpose"):
        fdime._native.panic_in_a_worker()
    assert fdime.mutual_information(X, Y, estimator="copula", permutations=19).n_rows == 100
