"""Checks of arguments, which explain what is expected."""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: The argument that a function has instead of another one.
_INSTEAD = {
    "threads": "n_jobs, the number of estimates at the same time, each on one thread",
    "n_jobs": "threads, the number of threads of its one estimate",
}


def explain_names(
    *, set_by_plan: Sequence[str] = ()
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Return a decorator that explains arguments that a function does not take.

    ``set_by_plan`` are the names of those that it does not take together with a ``plan``, which has
    these settings already.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        known = inspect.signature(function).parameters
        name = getattr(function, "__name__", "")

        @functools.wraps(function)
        def call(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
            for given, other in _INSTEAD.items():
                if given in options and given not in known:
                    raise TypeError(f"{name}() has no argument '{given}'; use {other}")
            twice = [setting for setting in set_by_plan if setting in options]
            if twice and options.get("plan") is not None:
                raise ValueError(
                    f"plan cannot be used with {', '.join(twice)}, which it sets; leave out the "
                    f"plan, or make another one with estimate_plan({', '.join(twice)}, ...)"
                )
            return function(*arguments, **options)

        return call

    return decorate


def check_count(value: object, argument: str) -> int:
    """Return a whole number; raise an error if the native part cannot hold it."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{argument}={value!r}: give a whole number")
    if value < 0:
        raise ValueError(f"{argument}={value}: must not be negative")
    if value >= 2**63:
        raise ValueError(f"{argument}={value}: must be below 2^63")
    return int(value)


def sorted_lags(lags: Iterable[int], example: str, minimum: int | None = None) -> list[int]:
    """Return the lags in ascending order, each once."""
    if isinstance(lags, (int, np.integer)) and not isinstance(lags, bool):
        raise TypeError(f"lags={lags}: give a list of whole numbers, such as [{lags}] or {example}")
    if isinstance(lags, (str, bytes)) or not isinstance(lags, Iterable):
        raise TypeError(f"lags={lags!r}: give whole numbers, such as {example}")
    chosen = set()
    for lag in lags:
        if isinstance(lag, (bool, np.bool_)) or not isinstance(lag, (int, np.integer)):
            raise TypeError(f"lags: {lag!r} is not a whole number; use {example}")
        if minimum is not None and lag < minimum:
            raise ValueError(f"lags={lag}: lags must be at least {minimum}")
        chosen.add(int(lag))
    if not chosen:
        raise ValueError(f"lags={lags!r}: there is no lag in it; use {example}")
    return sorted(chosen)


def as_text(value: object, argument: str, choices: Sequence[str] = ()) -> str:
    """Return a text; raise an error with the ``choices`` if the value is not one."""
    if isinstance(value, str):
        return value
    if not choices:
        raise TypeError(f"{argument}={value!r}: give a name; fdime.names() lists all names")
    *others, last = map(repr, choices)
    raise TypeError(f"{argument}={value!r}: write {', '.join(others)} or {last}")


def as_json(value: Any, argument: str) -> str:
    """Return plain data, which may contain NumPy's numbers, as JSON. JSON is returned as it is."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=lambda other: other.tolist(), allow_nan=False)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{argument}: not plain data: {error}") from None


def selector_list(columns: str | list[str] | None, argument: str) -> list[str]:
    """Return one selector or several as a list."""
    if columns is None:
        return []
    if isinstance(columns, str):
        return [columns]
    if isinstance(columns, (list, tuple)) and all(isinstance(c, str) for c in columns):
        return list(columns)
    raise TypeError(f"{argument}: give the names of columns, as a text or a list of texts")


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raise an error if a file cannot be created because there is no such folder."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot write {os.fspath(path)}: there is no folder {folder}")
