"""Many estimates, whose results may be kept in a journal."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Protocol, TypeVar

from . import _native
from ._arguments import check_folder
from ._parallel import run_jobs
from ._progress import ProgressCallback

Key = TypeVar("Key", bound=tuple[int, ...], contravariant=True)
Job = TypeVar("Job")


class Journal(Protocol[Key]):
    """A file of finished estimates, which are JSON."""

    def find(self, key: Key, /) -> str | None: ...
    def append(self, key: Key, estimate: str, /) -> None: ...
    def close(self) -> None: ...


OneJournal = TypeVar("OneJournal", bound=Journal[Any])


@contextmanager
def open_journal(
    kind: Callable[[str | os.PathLike[str], str], OneJournal],
    path: str | os.PathLike[str] | None,
    heading: Callable[[], str],
) -> Iterator[OneJournal | None]:
    """Open the journal of a request with this heading; without a path there is none."""
    if path is None:
        yield None
        return
    check_folder(path)
    with closing(kind(path, heading())) as journal:
        yield journal


def run_unfinished(
    keys: Sequence[Key],
    function: Callable[[Job], dict[str, Any]],
    jobs: Callable[[list[Key]], list[Job]],
    journal: Journal[Key] | None,
    n_jobs: int | None,
    concurrent: Callable[[], int],
    callback: ProgressCallback | None,
) -> list[dict[str, Any]]:
    """Run the jobs of the keys that are not in the journal. Return the estimates of all keys."""
    logged = {key: journal.find(key) for key in keys} if journal else {}
    estimates = {key: json.loads(text) for key, text in logged.items() if text is not None}
    remaining = [key for key in keys if key not in estimates]
    for index, estimate in run_jobs(function, jobs(remaining), n_jobs, concurrent):
        estimates[remaining[index]] = estimate
        if journal is not None:
            journal.append(remaining[index], json.dumps(estimate))
        if callback is not None:
            callback(len(estimates) / len(keys))
    return [estimates[key] for key in keys]


def series_heading(
    table: _native.Table,
    given: _native.Table | None,
    time: _native.Table | None,
    group: _native.Table | None,
    plan: dict[str, Any],
) -> str:
    """Return what identifies a request about series, as JSON: its journal continues no other one."""
    everything, places = table, []
    for side in (given, time, group):
        start = len(everything.names)
        everything = everything if side is None else everything.beside(side)
        places.append(list(range(start, len(everything.names))))
    return json.dumps(
        {
            "columns": everything.names,
            "given": places[0],
            "time": places[1][0] if time is not None else None,
            "group": places[2][0] if group is not None else None,
            "data": everything.fingerprint,
            "plan": plan,
            "version": _native.__version__,
        }
    )
