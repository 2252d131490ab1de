"""Many independent jobs: on threads here, or on whatever backend joblib is told to use."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def in_parallel(
    work: Callable[[Job], Result], jobs: Sequence[Job], n_jobs: int | None
) -> Iterator[tuple[int, Result]]:
    """The place and the result of each job, as they are finished.

    With a joblib backend chosen by ``joblib.parallel_config`` (loky, Dask, Ray, ...) jobs go there.
    Otherwise they run on threads of this process, which do not hold each other up: the native part
    works without the interpreter's lock. ``n_jobs`` is as in joblib; None means all cores.
    """
    joblib = _chosen_joblib()
    if joblib is not None:
        backend, chosen = joblib.parallel.get_active_backend()
        if n_jobs is None and chosen in (None, 1) and _config(joblib, "n_jobs") is None:
            n_jobs = -1
        # Some backends give all results at the end only.
        streams = getattr(backend, "supports_return_generator", False)
        way = "generator_unordered" if streams else "list"
        parallel = joblib.Parallel(n_jobs=n_jobs, return_as=way, batch_size=1)
        yield from parallel(
            joblib.delayed(_placed)(work, place, job) for place, job in enumerate(jobs)
        )
        return
    workers = _count(_told_count() if n_jobs is None else n_jobs)
    end = threading.Event()
    with ThreadPoolExecutor(max_workers=min(workers, len(jobs)) or 1) as pool:
        running: dict[Future[Result], int] = {
            pool.submit(_until, end, work, job): place for place, job in enumerate(jobs)
        }
        try:
            while running:
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield running.pop(future), future.result()
        finally:  # also when the caller has had enough, or Ctrl-C was pressed
            end.set()
            for future in running:
                future.cancel()


_here = threading.local()


def _until(end: threading.Event, work: Callable[[Job], Result], job: Job) -> Result:
    _here.end = end
    return work(job)


def end_if_asked(_share: float) -> None:
    """Ends a job whose result nobody waits for any more: the native part calls it now and then."""
    end = getattr(_here, "end", None)
    if end is not None and end.is_set():
        raise RuntimeError("nobody waits for this job any more")


def _placed(work: Callable[[Job], Result], place: int, job: Job) -> tuple[int, Result]:
    return place, work(job)


def _told_count() -> int | None:
    """The number that ``joblib.parallel_config`` was told."""
    joblib = sys.modules.get("joblib")
    return None if joblib is None else _config(joblib, "n_jobs")


def _count(n_jobs: int | None) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    if n_jobs is None:
        return cores
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int):
        raise TypeError(f"n_jobs={n_jobs!r}: give a whole number")
    if n_jobs == 0:
        raise ValueError("n_jobs=0: write the number of jobs at once, or -1 for one on every core")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def _chosen_joblib() -> Any | None:
    """joblib, if a backend was chosen: without it imported, nobody can have done so."""
    joblib = sys.modules.get("joblib")
    if joblib is None:
        return None
    if _config(joblib, "backend") is None:
        return None
    backend, _ = joblib.parallel.get_active_backend()
    # Inside a worker, joblib forbids more processes: threads do no harm there.
    return joblib if getattr(backend, "nesting_level", 0) == 0 else None


def _config(joblib: Any, key: str) -> Any | None:
    """What ``joblib.parallel_config`` was told, if it was; nothing in versions without it."""
    usual = getattr(joblib.parallel, "default_parallel_config", None)
    told = getattr(getattr(joblib.parallel, "_backend", None), "config", usual)
    if usual is None or told is None or told[key] is usual[key]:
        return None
    return told[key]
