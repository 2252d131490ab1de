"""All kinds of arrays, tables and columns."""

from __future__ import annotations

import subprocess
import sys

import fdime
import numpy as np
import pytest
from fdime._inputs import as_table

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")


def estimate(x, y, **options):
    return fdime.mutual_information(x, y, estimator="copula", permutations=19, **options)


@pytest.fixture(scope="module")
def expected(gaussian):
    return estimate(*gaussian)


class Tensor:
    """Like a tensor of torch or jax: it offers DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x,
        lambda x: x.tolist(),
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2, axis=0)[::2],  # strides
        lambda x: x[::-1][::-1],  # negative strides
        lambda x: x.astype(">f8"),
        lambda x: x.astype(np.longdouble),
        lambda x: np.ma.masked_array(x, mask=False),
        lambda x: memoryview(np.ascontiguousarray(x)),
        Tensor,
        lambda x: pandas.DataFrame(x) if x.ndim == 2 else pandas.Series(x),
        lambda x: polars.DataFrame(x) if x.ndim == 2 else polars.Series(x),
        lambda x: polars.LazyFrame(x if x.ndim == 2 else x[:, None]),
        lambda x: pyarrow.table(
            [pyarrow.array(c) for c in np.atleast_2d(x.T)],
            [f"c{k}" for k in range(np.atleast_2d(x.T).shape[0])],
        ),
        lambda x: pyarrow.record_batch(
            [pyarrow.array(c) for c in np.atleast_2d(x.T)],
            [f"c{k}" for k in range(np.atleast_2d(x.T).shape[0])],
        ),
    ],
    ids=[
        "array",
        "list",
        "fortran",
        "strided",
        "reversed",
        "big-endian",
        "long double",
        "masked",
        "buffer",
        "dlpack",
        "pandas",
        "polars",
        "polars lazy",
        "pyarrow table",
        "record batch",
    ],
)
def test_all_containers_give_the_same_result_to_the_bit(convert, gaussian, expected):
    x, y = gaussian
    result = estimate(convert(x), convert(y))
    assert result.mi == expected.mi and np.array_equal(result.pointwise, expected.pointwise)


def test_memory_that_is_not_aligned(gaussian, expected):
    """As in parts of a byte buffer, or fields of a packed structure."""
    bytes_ = np.empty(gaussian[1].nbytes + 1, dtype=np.uint8)
    y = bytes_[1:].view(np.float64)
    y[:] = gaussian[1]
    assert not y.flags.aligned
    assert estimate(gaussian[0], y).mi == expected.mi
    packed = np.zeros(400, dtype=[("flag", "?"), ("y", "f8")])
    packed["y"] = gaussian[1]
    assert estimate(gaussian[0], packed["y"]).mi == expected.mi
    scores = np.zeros(17, dtype=np.uint8)[1:].view(np.float32)
    scores[:] = [1.0, -2.0, 3.0, 0.5]
    objective = fdime.Objective("kl-dime")
    assert not scores.flags.aligned
    odd, even = (objective.value_and_gradient(s, s)[0] for s in (scores, scores.copy()))
    assert odd == even


def test_arrow_arrays_and_chunks(gaussian, expected):
    x, y = gaussian
    chunks = pyarrow.chunked_array([y[:100], y[100:]])
    assert estimate(x, chunks).mi == expected.mi
    assert estimate(x, pyarrow.array(y)).y == ("y",)


def test_single_and_half_precision(gaussian):
    x, y = (side.astype(np.float32) for side in gaussian)
    single = estimate(x, y)
    double = estimate(x.astype(np.float64), y.astype(np.float64))
    assert single.mi == double.mi
    half = estimate(gaussian[0].astype(np.float16), y)
    assert half.mi == pytest.approx(single.mi, abs=0.01)


@pytest.mark.parametrize(
    "expression",
    [
        "pyarrow.table({'x': column})",
        "polars.DataFrame({'x': column})",
        "pandas.DataFrame({'x': column}, copy=False)",
        "column",
        "column.astype('f4')",
    ],
)
def test_columns_are_copied_only_once(expression):
    """Reading 160 MB takes 160 MB for the column of the native part and no more."""
    program = f"""
import resource, numpy as np, pandas, polars, pyarrow
from fdime._inputs import as_table
column = np.random.default_rng(0).normal(size=20_000_000)
table = {expression}
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
native = as_table(table, "x")
assert native.rows == 20_000_000
print(peak() - before)
"""
    used = int(
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
    )
    assert used < 1.25 * 160_000_000, used


def test_mixed_columns_are_equal_in_all_tables():
    rng = np.random.default_rng(5)
    n = 200
    number = rng.normal(size=n)
    text = rng.choice(["red", "green", "blue"], size=n)
    truth = rng.random(n) < 0.5
    day = np.datetime64("2024-01-01") + rng.integers(0, 500, size=n)
    frame = pandas.DataFrame({"number": number, "text": text, "truth": truth, "day": day})
    tables = {
        "pandas": as_table(frame, "x"),
        "categorical": as_table(frame.astype({"text": "category"}), "x"),
        "polars": as_table(polars.from_pandas(frame), "x"),
        "pyarrow": as_table(pyarrow.Table.from_pandas(frame, preserve_index=False), "x"),
        "structured": as_table(frame.to_records(index=False), "x"),
    }
    for name, table in tables.items():
        assert table.names == ["number", "text", "truth", "day"], name
        assert table.discrete == [False, True, True, False], name
    y = number + rng.normal(size=n)
    values = {name: estimate(table, y).mi for name, table in tables.items()}
    assert max(values.values()) - min(values.values()) < 1e-9, values


def test_all_kinds_of_missing_values():
    rng = np.random.default_rng(6)
    y = rng.normal(size=60)
    columns = [
        pandas.Series(pandas.array([None] + list(range(59)), dtype="Int64")),
        pandas.Series([None] + ["a", "b"] * 29 + ["a"]),
        pandas.Series([pandas.NaT] + list(pandas.date_range("2024", periods=59))),
        pandas.Series(pandas.array([None] + [True, False] * 29 + [True], dtype="boolean")),
        pandas.Series([None] + ["a", "b"] * 29 + ["a"], dtype="category"),
        polars.Series([None] + list(range(59))),
        np.array([None] + ["a", "b"] * 29 + ["a"], dtype=object),
        np.array(["NaT"] + [f"2024-01-{1 + k % 28:02d}" for k in range(59)], dtype="datetime64[D]"),
        np.ma.masked_equal(np.arange(60), 0),
    ]
    for column in columns:
        table = as_table(column, "x")
        assert table.rows == 60
        with pytest.raises(ValueError, match=r"has no value \(NaN\) in row 1;"):
            fdime.mutual_information(column, y, missing="error")
        # A Gaussian copula needs numbers on both sides.
        estimator = "auto" if table.discrete[0] else "copula"
        options = dict(effort="quick", permutations=19, missing="drop", estimator=estimator)
        assert fdime.mutual_information(column, y, **options).n_dropped == 1


def test_complex_samples_are_two_columns():
    rng = np.random.default_rng(7)
    x = rng.normal(size=300) + 1j * rng.normal(size=300)
    y = x + 0.5 * (rng.normal(size=300) + 1j * rng.normal(size=300))
    result = estimate(x, y)
    parts = estimate(np.column_stack([x.real, x.imag]), np.column_stack([y.real, y.imag]))
    assert result.mi == parts.mi
    assert result.x == ("x.re", "x.im")


def test_names_of_columns(gaussian):
    x, y = gaussian
    result = estimate(pandas.DataFrame(x, columns=["age", "dose"]), pandas.Series(y, name="pulse"))
    assert (result.x, result.y) == (("age", "dose"), ("pulse",))
    assert estimate(x, y).x == ("x1", "x2") and estimate(x[:, 0], y).x == ("x",)


def test_different_row_labels_are_refused(gaussian):
    x, y = pandas.DataFrame(gaussian[0]), pandas.Series(gaussian[1])
    with pytest.raises(ValueError, match="different pandas indices"):
        estimate(x, y.sort_values())
    assert estimate(x, y.sort_values().to_numpy()).mi < 0.05


def test_subclasses_of_pandas(gaussian):
    class Named(pandas.DataFrame):
        pass

    x, y = gaussian
    order = np.random.default_rng(0).permutation(len(x))
    table = as_table(Named(x, columns=["a", "b"], index=order), "x")
    assert table.names == ["a", "b"]
    with pytest.raises(ValueError, match="different pandas indices"):
        estimate(Named(x, index=order), pandas.Series(y))


def test_categories_of_any_type_are_discrete():
    for values in ([3, 1, 2, 3], [1.5, 2.5, 1.5, 2.5], [True, False, True, True]):
        table = as_table(pandas.Series(pandas.Categorical(values)), "x")
        assert table.discrete == [True]
    dates = pandas.Series(pandas.date_range("2024", periods=4)).astype("category")
    assert as_table(dates, "x").discrete == [True]


def test_numbers_beside_text_in_a_list_stay_numbers():
    table = as_table([[1.5, "a"], [2.5, "b"], [float("nan"), "a"]], "x")
    assert table.discrete == [False, True] and table.missing == [1, 0]
    assert as_table(["a", "b", None, float("nan")], "x").missing == [2]
    with pytest.raises(TypeError, match="both numbers and text"):
        as_table([1, "b", 2], "x")


def test_texts_that_mean_missing_values_elsewhere_are_named():
    """The command line reads them as missing; here they may be categories."""
    for column in (
        np.array(["a", np.nan] * 20),  # NumPy makes it text
        ["a", "nan"] * 20,
        pandas.Series(["a", "nan"] * 20),
        polars.Series(["a", "nan"] * 20),
        pyarrow.array(["a", "nan"] * 20),
        np.array([("nan",), ("a",)] * 20, dtype=[("x", "U3")]),
    ):
        with pytest.warns(fdime.FdimeWarning, match="'x' has the text 'nan' in 20 of 40 rows"):
            assert as_table(column, "x").missing == [0]
    with pytest.warns(fdime.FdimeWarning, match="the text '' in 10 .*replace it by None"):
        as_table(pandas.Series(["a", "b", "c", ""] * 10), "x")
    as_table(["a", "b", None, "banana"], "x")
    as_table(pandas.Series(["a", None], dtype="category"), "x")


def test_columns_of_lists_are_refused_with_advice():
    """Embeddings, for example. The advice works."""
    vectors = np.random.default_rng(0).normal(size=(30, 3))
    lists = vectors.tolist()
    for table in (pandas.DataFrame({"e": lists}), pandas.DataFrame({"e": list(vectors)})):
        for data in (table, table["e"]):
            with pytest.raises(TypeError, match=r"column 'e' has .* np.stack\(column\)"):
                as_table(data, "x")
        assert np.array_equal(np.stack(table["e"]), vectors)
    column = polars.Series("e", lists)
    for data in (column, column.to_frame(), pyarrow.table({"e": lists})):
        advice = r"'e' is of type .*List.*np.stack\(column.to_list\(\)\), or .* pl.Array"
        with pytest.raises(TypeError, match=advice):
            as_table(data, "x")
    assert np.array_equal(np.stack(column.to_list()), vectors)
    fixed = column.cast(polars.Array(polars.Float64, 3))
    assert as_table(fixed, "x").names == ["e1", "e2", "e3"]


def test_sparse_matrices_are_refused_with_advice():
    sparse = pytest.importorskip("scipy.sparse")
    for kind in (sparse.csr_matrix, sparse.coo_array):
        with pytest.raises(TypeError, match=r"x is sparse; .* e.g. x.toarray\(\)"):
            as_table(kind(np.eye(30)), "x")


def numbers(data):
    """Return the values of a table's only column."""
    return as_table(data, "x").__reduce__()[1][1][0]


def test_dates_are_numbers_in_their_unit():
    days = np.array(["2020-01-01", "9999-01-01", "NaT"], dtype="datetime64[D]")
    expected = [18262.0, 2932532.0, np.nan]
    assert np.array_equal(numbers(days), expected, equal_nan=True)
    assert np.array_equal(numbers(days.astype(">M8[D]")), expected, equal_nan=True)
    seconds = pandas.Series(days.astype("datetime64[s]"))
    assert np.array_equal(numbers(seconds), np.array(expected) * 86400, equal_nan=True)
    zoned = pandas.Series(pandas.date_range("2020-01-01", periods=2, tz="Europe/Vienna"))
    assert np.diff(numbers(zoned)) > 0
    assert as_table(pandas.date_range("2020", periods=3), "x").rows == 3


def test_integers_that_would_be_rounded_are_refused():
    large = np.array([2**62, 2**62 + 1, 3])
    for column in (
        large,
        large.astype(np.uint64),
        large.astype(">i8"),
        np.ma.masked_array(large, mask=[False, False, True]),
        large.astype(object),
        pandas.Series(large, name="x"),
        pandas.Series([2**62, 2**62 + 1, None], dtype="Int64", name="x"),
        pyarrow.array(large),
    ):
        with pytest.raises(
            ValueError, match=r"'x' has an integer above 2\^53.* in row 2; subtract"
        ):
            as_table(column, "x")
    with pytest.raises(ValueError, match="'x2' has an integer"):
        as_table(np.stack([np.arange(3), large], axis=1), "x")
    assert np.array_equal(numbers(np.array([2**62, -(2**53)])), [2.0**62, -(2.0**53)])


def test_bytes_are_text():
    listed = as_table([b"a", b"b", b"a"], "x")
    assert listed.discrete == [True] and as_table(np.array([b"a", b"b"]), "x").discrete == [True]


def test_masked_arrays_of_other_kinds():
    masked = np.ma.masked_array([True, False, True], mask=[False, True, False])
    table = as_table(masked, "x")
    assert table.discrete == [True] and table.missing == [1]
    assert as_table(np.ma.masked_array(["a", "b"], mask=[True, False]), "x").missing == [1]
    with pytest.raises(TypeError, match="fill them first"):
        as_table(np.ma.masked_array([1j, 2j]), "x")


def test_unusual_columns():
    assert len(numbers(np.array([b"\xff", b"\xfe"]))[1]) == 2, "different bytes stay different"
    if hasattr(np.dtypes, "StringDType"):
        assert as_table(np.array(["a", "b"], dtype=np.dtypes.StringDType()), "x").discrete == [True]
    reader = pyarrow.table({"a": [1.0, 2.0]}).to_reader()
    assert as_table(reader, "x").names == ["a"]
    assert as_table(np.array([np.float32("nan"), "a", "b"], dtype=object), "x").missing == [1]
    series = pandas.Series([1 + 2j, 3j])
    assert as_table(series, "x").names == ["x.re", "x.im"]
    for odd in ({"a": [1.0]}, (k for k in range(3)), {1, 2}):
        with pytest.raises(TypeError, match="give an array or a table"):
            as_table(odd, "x")
    for odd in ([10**400, 1.0], np.zeros(3, dtype=[("a", "f8", (2,))])):
        with pytest.raises(ValueError):
            as_table(odd, "x")


def test_jax_arrays(gaussian, expected):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        x, y = (jax.numpy.asarray(side) for side in gaussian)
    assert estimate(x, y).mi == pytest.approx(expected.mi, abs=1e-6)


def test_the_input_is_not_changed(gaussian):
    x, y = (side.copy() for side in gaussian)
    x.flags.writeable = y.flags.writeable = False
    estimate(x, y)
    assert np.array_equal(x, gaussian[0])


def test_text_of_dates_is_time_and_other_text_is_categories():
    """As on the command line, which reads the same columns from a file."""
    days = np.arange("2024-01-01", "2024-07-19", dtype="datetime64[D]")
    trend = np.arange(len(days)) + np.random.default_rng(0).normal(size=len(days))
    options = {"estimator": "copula", "permutations": 99}
    expected = fdime.mutual_information(days, trend, **options).mi
    texts = days.astype(str)
    for dates in (texts, texts.astype(object), [f"{day} 10:30" for day in texts]):
        assert fdime.mutual_information(dates, trend, **options).mi == pytest.approx(expected)
    with pytest.raises(ValueError, match="different values"):
        fdime.mutual_information(["2024-13-45", *texts[1:]], trend, **options)


def test_a_side_is_discrete_by_its_role_whatever_its_columns_are_called():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    region = pandas.Series(rng.integers(0, 4, 300), name="region")
    price = pandas.Series(region % 2 + rng.normal(size=300), name="price")
    options = {"effort": "quick", "permutations": 99}
    named = fdime.mutual_information(region, price, discrete="region", **options)
    assert fdime.mutual_information(region, price, discrete="x", **options).mi == named.mi
    codes = fdime.mutual_information(region, price, **options)
    assert codes.verdict.reliability != "good"
    assert "far too low" in str(codes).replace("\n    ", " ")
