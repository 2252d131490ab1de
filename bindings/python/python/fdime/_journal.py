"""Many estimates, whose results may be kept in a journal."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from ._parallel import run_jobs
from ._progress import ProgressCallback

Key = TypeVar("Key", bound=tuple[int, ...], contravariant=True)
Job = TypeVar("Job")


class Journal(Protocol[Key]):
    """A file of finished estimates, which are JSON."""

    def find(self, key: Key, /) -> str | None: ...
    def append(self, key: Key, estimate: str, /) -> None: ...


def run_unfinished(
    keys: Sequence[Key],
    function: Callable[[Job], dict[str, Any]],
    jobs: Callable[[list[Key]], list[Job]],
    journal: Journal[Key] | None,
    n_jobs: int | None,
    callback: ProgressCallback | None,
) -> list[dict[str, Any]]:
    """Run the jobs of the keys that are not in the journal. Return the estimates of all keys."""
    logged = {key: journal.find(key) for key in keys} if journal else {}
    estimates = {key: json.loads(text) for key, text in logged.items() if text is not None}
    remaining = [key for key in keys if key not in estimates]
    for index, estimate in run_jobs(function, jobs(remaining), n_jobs):
        estimates[remaining[index]] = estimate
        if journal is not None:
            journal.append(remaining[index], json.dumps(estimate))
        if callback is not None:
            callback(len(estimates) / len(keys))
    return [estimates[key] for key in keys]
