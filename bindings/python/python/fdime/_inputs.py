"""Conversion of arrays, tables and columns to the tables of the native part.

Numbers are copied once, from arrays of any strides to the columns of the native part. pandas,
polars, pyarrow, torch and jax need not be installed.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._blocks import warn
from ._native import Table, parse_times

#: A column for ``Table``: numbers, or codes (-1 for a missing value) and labels.
Column = NDArray[Any] | tuple[NDArray[np.int64], list[str]]

_CPU = 1  # the number of the device in DLPack

#: Texts, in lower case, that the command line reads as missing values.
_MISSING_WORDS = {"", "na", "n/a", "nan", "-nan", "null", "none", "nat", "<na>"}


def as_table(data: Any, role: str, first: int = 1) -> Table:
    """Return the columns of ``data``. Those without names are called ``role`` and a number from ``first``."""
    if isinstance(data, Table):
        return data
    if _is_from("pandas", data):
        return _from_pandas(data, role)
    if _is_from("polars", data) and hasattr(data, "to_frame"):
        return _from_arrow(data.to_frame(data.name or role))
    if _is_from("polars", data) and hasattr(data, "collect"):
        return _from_arrow(data.collect())
    if _is_from("pyarrow", data) and hasattr(data, "to_numpy") and not hasattr(data, "schema"):
        import pyarrow

        return _from_arrow(pyarrow.table({role: data}))
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return _from_arrow(data)
    if hasattr(data, "toarray"):
        raise TypeError(f"{role} is sparse; give it as a dense array, e.g. {role}.toarray()")
    if hasattr(data, "__dlpack__") and not isinstance(data, np.ndarray):
        return _from_array(_from_dlpack(data, role), role, first)
    if isinstance(data, np.ma.MaskedArray):
        return _from_array(_unmasked(data, role), role, first)
    try:
        array = np.asarray(data)
        if array.dtype.kind == "U" and not isinstance(data, np.ndarray):
            # NumPy would convert numbers and missing values beside a text to text.
            array = np.asarray(data, dtype=object)
    except (ValueError, OverflowError) as error:  # rows of different lengths, huge numbers
        raise ValueError(f"{role}: {error}") from None
    return _from_array(array, role, first)


def has_names(data: Any) -> bool:
    """Return whether columns of ``data`` have names of their own."""
    return (
        isinstance(data, Table)
        or _is_from("pandas", data)
        or _is_from("polars", data)
        or hasattr(data, "__arrow_c_stream__")
        or hasattr(data, "__arrow_c_array__")
        or bool(getattr(getattr(data, "dtype", None), "names", None))
    )


def _from_arrow(source: Any) -> Table:
    try:
        table = Table.from_arrow(source)
    except ValueError as error:
        if "List(" not in str(error):
            raise
        advice = "np.stack(column.to_list()), or in polars as a column of type pl.Array"
        raise TypeError(f"{error}; lists of equal length are read as {advice}") from None
    texts: Any = table.select([k for k, discrete in enumerate(table.discrete) if discrete])
    _warn_of_missing_words(*texts.__reduce__()[1])
    return table


def _new_table(names: list[str], columns: list[Column]) -> Table:
    _warn_of_missing_words(names, columns)
    return Table(names, columns)


def _warn_of_missing_words(names: list[str], columns: list[Column]) -> None:
    """Warn if a category may be meant as a missing value."""
    for name, column in zip(names, columns):
        codes, labels = column if isinstance(column, tuple) else (column, [])
        for code, label in enumerate(labels):
            if label.strip().lower() in _MISSING_WORDS:
                warn(
                    f"column '{name}' has the text '{label}' in {np.count_nonzero(codes == code)} of "
                    f"{len(codes)} rows, a category here; replace it by None if it means a missing "
                    "value"
                )


def _is_from(library: str, data: Any) -> bool:
    """Return whether an object's class, or one of its bases, is from a library."""
    return any(c.__module__.partition(".")[0] == library for c in type(data).__mro__)


def _unmasked(data: Any, role: str) -> NDArray[Any]:
    """Return a masked array as an array in which masked values are missing."""
    if data.dtype.kind in "fiu":
        floats: NDArray[Any] = np.ma.filled(data.astype(np.float64), np.nan)
        if data.dtype.kind in "iu":
            _check_exact(data.data, floats, _names(data, role))
        return floats
    if data.dtype.kind in "bUO":
        array: NDArray[Any] = data.data.astype(object)
        array[np.ma.getmaskarray(data)] = None
        return array
    raise TypeError(
        f"{role}: masked arrays of type {data.dtype} are not supported; fill them first"
    )


def check_index(x: Any, y: Any, roles: tuple[str, str] = ("x", "y")) -> None:
    """Raise an error if two pandas objects have different row labels."""
    if not (_is_pandas(x) and _is_pandas(y)) or x.index.equals(y.index) or len(x) != len(y):
        return
    first, second = roles
    raise ValueError(
        f"{first} and {second} have different pandas indices; align them first, e.g. with "
        f"{first}, {second} = {first}.align({second}, axis=0, join='inner'), or pass .to_numpy() to "
        "pair rows by position"
    )


def check_indices(**arguments: Any) -> None:
    """Raise an error if pandas objects have different row labels than the first argument."""
    (role, first), *others = arguments.items()
    for name, other in others:
        if other is not None:
            check_index(first, other, (role, name))


def single_column(values: Any, name: str) -> Table:
    """Return a table of one column."""
    table = as_table(values, name)
    if len(table.names) != 1:
        raise ValueError(f"{name} has {len(table.names)} columns; give one value for each row")
    return table


def _is_pandas(data: Any) -> bool:
    return _is_from("pandas", data) and hasattr(data, "to_numpy") and hasattr(data, "index")


def _from_dlpack(data: Any, role: str) -> NDArray[Any]:
    for step in ("detach", "resolve_conj", "resolve_neg"):  # views that torch applies lazily
        data = getattr(data, step)() if hasattr(data, step) else data
    try:
        if data.__dlpack_device__()[0] == _CPU:
            return np.from_dlpack(data)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        problem = f"{role} cannot be read as an array: {error}; give a dense array of float32"
        raise TypeError(problem) from None
    raise ValueError(f"{role} is not in the CPU's memory; move it there, e.g. with {role}.cpu()")


def _from_array(array: NDArray[Any], role: str, first: int = 1) -> Table:
    if array.dtype.names:
        names = list(array.dtype.names)
        if array.ndim != 1 or any(array[name].ndim != 1 for name in names):
            raise ValueError(f"{role}: the fields of a structured array must be single values")
        return _new_table(names, [_column(array[name], name) for name in names])
    if array.ndim == 0 and array.dtype.kind == "O":
        kind = type(array.item()).__name__
        raise TypeError(
            f"{role} is a {kind}; give an array or a table with one row for each observation"
        )
    if array.ndim == 0:
        raise TypeError(f"{role} is a single value; give one row for each observation")
    if array.ndim > 2:
        raise ValueError(
            f"{role} has {array.ndim} dimensions; give rows and columns, e.g. "
            f"{role}.reshape(len({role}), -1)"
        )
    if array.ndim == 2 and array.shape[1] == 0:
        raise ValueError(f"{role} has no columns")
    if array.dtype.kind == "c":  # a complex number is a pair of numbers
        names = _names(array, f"{role}.re", first) + _names(array, f"{role}.im", first)
        parts = [np.atleast_2d(part.T).T for part in (array.real, array.imag)]
        return Table.from_matrix(names, _floats(np.hstack(parts), names))
    names = _names(array, role, first)
    if array.dtype.kind in "fiu":
        matrix = array[:, np.newaxis] if array.ndim == 1 else array
        return Table.from_matrix(names, _floats(matrix, names))
    columns = [array] if array.ndim == 1 else list(array.T)
    return _new_table(names, [_column(column, name) for column, name in zip(columns, names)])


def _names(array: NDArray[Any], role: str, first: int = 1) -> list[str]:
    if array.ndim == 1:
        return [role]
    return [f"{role}{first + k}" for k in range(array.shape[1])]


def _floats(array: NDArray[Any], names: list[str]) -> NDArray[Any]:
    """Return float32 and float64 as they are, float16 as float32, other numbers as float64."""
    if array.dtype in (np.float32, np.float64) and array.dtype.isnative:
        return array
    floats = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        _check_exact(array, floats, names)
    return floats


def _check_exact(integers: Any, floats: NDArray[Any], names: list[str]) -> None:
    """Raise an error if integers of one column, or of a matrix, were rounded to float64."""
    large = np.argwhere(np.abs(floats) >= 2.0**53)
    if len(large) == 0:
        return
    integers = np.asarray(integers, dtype=object)
    for place in map(tuple, large):
        if int(integers[place]) != int(floats[place]):
            raise _rounded(names[place[1] if len(place) > 1 else 0], int(place[0]))


def _rounded(name: str, row: int) -> ValueError:
    return ValueError(
        f"column '{name}' has an integer above 2^53, which would be rounded, in row {row + 1}; "
        "subtract the same number from all rows, or leave it out if it identifies something"
    )


def _column(array: NDArray[Any], name: str) -> Column:
    kind = array.dtype.kind
    if kind in "fiu":
        return _floats(array, [name])
    if kind == "b":
        return categories(np.where(array, "true", "false"))
    if kind == "U":
        return _text(array)
    if kind == "S":
        return _text(np.char.decode(array, "utf-8", "backslashreplace"))
    if kind in "mM":  # dates and times are numbers in their unit, from their epoch
        counts = array.astype(np.int64).astype(np.float64)
        counts[np.isnat(array)] = np.nan
        return counts
    if kind in "TO":  # text of variable length, and objects
        return _objects(array.astype(object), name)
    raise _wrong_type(name, str(array.dtype))


def _wrong_type(name: str, kind: str) -> TypeError:
    return TypeError(
        f"column '{name}' is of type {kind}, which is neither number nor text; leave it out or "
        "convert it"
    )


def _is_missing(value: object) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return isinstance(value, (float, np.floating)) and bool(value != value)


def _objects(array: NDArray[Any], name: str) -> Column:
    """Read a column of Python objects, which must be all numbers, or all text and booleans."""
    missing = np.array([_is_missing(value) for value in array], dtype=bool)
    present = array[~missing]
    if all(isinstance(value, (str, bool, np.bool_)) for value in present):
        labels = np.array([_label(value) for value in present], dtype=np.str_)
        read = _text(labels)
        if not isinstance(read, tuple):
            times = np.full(len(array), np.nan)
            times[~missing] = read
            return times
        full = np.full(len(array), -1, dtype=np.int64)
        full[~missing] = read[0]
        return full, read[1]
    if all(isinstance(value, numbers.Real) or hasattr(value, "as_tuple") for value in present):
        values = np.full(len(array), np.nan)
        try:
            values[~missing] = [float(value) for value in present]
        except (OverflowError, ValueError) as error:
            raise ValueError(f"column '{name}' has an invalid number: {error}") from None
        for row in np.flatnonzero(np.abs(values) >= 2.0**53):
            if isinstance(array[row], numbers.Integral) and int(array[row]) != int(values[row]):
                raise _rounded(name, int(row))
        return values
    other = next((value for value in present if not isinstance(value, (numbers.Real, str))), None)
    if other is None:
        raise _wrong_type(name, "object, with both numbers and text")
    if isinstance(other, (list, tuple, np.ndarray)):
        raise TypeError(
            f"column '{name}' has values of type {type(other).__name__}; those of equal length are read "
            "as np.stack(column)"
        )
    raise _wrong_type(name, f"object, with {type(other).__name__} in it")


def _text(labels: NDArray[np.str_]) -> Column:
    """Read text: categories, or times if all of it is dates such as 2024-01-31, as the command line does."""
    codes, names = categories(labels)
    times = parse_times(names)
    return (codes, names) if times is None else times[codes]


def _label(value: object) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    return str(value)


def categories(labels: NDArray[np.str_]) -> tuple[NDArray[np.int64], list[str]]:
    """Return codes and labels, numbered in the order in which they first appear."""
    distinct, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[codes.reshape(-1)], [str(label) for label in distinct[order]]


def _from_pandas(data: Any, role: str) -> Table:
    if hasattr(data, "columns"):
        if data.shape[1] == 0:
            raise ValueError(f"{role} has no columns")
        columns = [data.iloc[:, k] for k in range(data.shape[1])]
        names = [str(name) for name in data.columns]
        if any(getattr(column.dtype, "kind", "") == "c" for column in columns):
            raise TypeError(f"{role} has complex columns; give them as an array, x.to_numpy()")
    elif hasattr(data, "to_series"):  # an Index
        columns, names = [data.to_series()], [role if data.name is None else str(data.name)]
    elif hasattr(data, "to_frame"):  # a Series
        if getattr(data.dtype, "kind", "") == "c":
            return _from_array(data.to_numpy(), role)
        columns, names = [data], [role if data.name is None else str(data.name)]
    else:
        return _from_array(np.asarray(data), role)
    return _new_table(names, [_pandas_column(c, n) for c, n in zip(columns, names)])


def _pandas_column(column: Any, name: str) -> Column:
    try:
        return _convert_pandas_column(column, name)
    except (AttributeError, NotImplementedError):  # pandas types without a NumPy equivalent
        raise _wrong_type(name, str(column.dtype)) from None


def _convert_pandas_column(column: Any, name: str) -> Column:
    if str(column.dtype) == "category":
        labels = [_label(label) for label in column.cat.categories]
        return column.cat.codes.to_numpy().astype(np.int64), labels
    kind = getattr(column.dtype, "kind", "O")
    if kind in "fiu":
        if isinstance(column.dtype, np.dtype):
            return _floats(column.to_numpy(), [name])
        values: NDArray[Any] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        if kind in "iu":
            _check_exact(column, values, [name])
        return values
    if kind in "mM":
        if getattr(column.dt, "tz", None) is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        return _column(column.to_numpy(), name)
    if kind == "b" and isinstance(column.dtype, np.dtype):
        return _column(column.to_numpy(), name)
    return _objects(np.asarray(column, dtype=object), name)
