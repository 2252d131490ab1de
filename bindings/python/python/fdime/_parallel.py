"""Independent jobs, on threads of this process or on a joblib backend."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from . import _native

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_jobs(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    n_jobs: int | None,
    concurrent: Callable[[], int] | None = None,
) -> Iterator[tuple[int, Result]]:
    """Yield the index and the result of each job when it finishes.

    Jobs run on the joblib backend that was chosen with ``joblib.parallel_config`` (loky, Dask, Ray,
    ...). Without one they run on threads of this process, in parallel, because the native part
    releases the interpreter's lock. ``n_jobs`` is as in joblib; None means all cores, or on threads
    the number that ``concurrent`` returns.
    """
    joblib = joblib_with_backend()
    if joblib is not None:
        yield from _run_on_backend(joblib, function, jobs, n_jobs)
    else:
        yield from _run_on_threads(function, jobs, n_jobs, concurrent)


def _run_on_backend(
    joblib: Any, function: Callable[[Job], Result], jobs: Sequence[Job], n_jobs: int | None
) -> Iterator[tuple[int, Result]]:
    backend, default = joblib.parallel.get_active_backend()
    if n_jobs is None and default in (None, 1) and _configured(joblib, "n_jobs") is None:
        n_jobs = -1
    # Some backends return all results at the end.
    yields = getattr(backend, "supports_return_generator", False)
    return_as = "generator_unordered" if yields else "list"
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as=return_as, batch_size=1)
    yield from parallel(
        joblib.delayed(_with_index)(function, index, job) for index, job in enumerate(jobs)
    )


def _with_index(function: Callable[[Job], Result], index: int, job: Job) -> tuple[int, Result]:
    return index, function(job)


def concurrent_jobs(where: dict[str, Any], rows: int) -> Callable[[], int]:
    """Return a function for the number of estimates on this many rows that keep the device busy."""
    return lambda: _native.concurrent_estimates({**where, "threads": 0}, rows)


def _run_on_threads(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    n_jobs: int | None,
    concurrent: Callable[[], int] | None,
) -> Iterator[tuple[int, Result]]:
    joblib = sys.modules.get("joblib")
    if n_jobs is None and joblib is not None:
        n_jobs = _configured(joblib, "n_jobs")
    if n_jobs is None and concurrent is not None and jobs:
        n_jobs = concurrent()
    workers = min(_worker_count(n_jobs), len(jobs)) or 1
    cancelled = threading.Event()
    with ThreadPoolExecutor(max_workers=workers) as pool:
        running: dict[Future[Result], int] = {
            pool.submit(_run_cancellable, cancelled, function, job): index
            for index, job in enumerate(jobs)
        }
        try:
            while running:
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield running.pop(future), future.result()
        finally:  # also if the caller stops iterating, or on Ctrl-C
            cancelled.set()
            for future in running:
                future.cancel()


_thread = threading.local()


def _run_cancellable(
    cancelled: threading.Event, function: Callable[[Job], Result], job: Job
) -> Result:
    _thread.cancelled = cancelled
    return function(job)


def raise_if_cancelled(_fraction: float) -> None:
    """Stop a job whose result is no longer needed. The native part calls it repeatedly."""
    cancelled = getattr(_thread, "cancelled", None)
    if cancelled is not None and cancelled.is_set():
        raise RuntimeError("the job was cancelled")


def _worker_count(n_jobs: int | None) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    if n_jobs is None:
        return cores
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int):
        raise TypeError(f"n_jobs={n_jobs!r}: give a whole number")
    if n_jobs == 0:
        raise ValueError("n_jobs=0: give the number of parallel jobs, or -1 for one on each core")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def joblib_with_backend() -> Any | None:
    """Return joblib if the user has chosen a backend, which takes importing joblib; else None."""
    joblib = sys.modules.get("joblib")
    if joblib is None or _configured(joblib, "backend") is None:
        return None
    backend, _ = joblib.parallel.get_active_backend()
    # Inside a worker, joblib does not start more processes, so threads are used there.
    return joblib if getattr(backend, "nesting_level", 0) == 0 else None


def _configured(joblib: Any, key: str) -> Any | None:
    """Return what ``joblib.parallel_config`` has set, if anything; None in versions without it."""
    default = getattr(joblib.parallel, "default_parallel_config", None)
    config = getattr(getattr(joblib.parallel, "_backend", None), "config", default)
    if default is None or config is None or config[key] is default[key]:
        return None
    return config[key]
