"""Many independent jobs: on threads here, or on whatever backend joblib is told to use."""

from __future__ import annotations

import os
import sys
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
        parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
        yield from parallel(
            joblib.delayed(_placed)(work, place, job) for place, job in enumerate(jobs)
        )
        return
    workers = _count(n_jobs)
    with ThreadPoolExecutor(max_workers=min(workers, len(jobs)) or 1) as pool:
        running: dict[Future[Result], int] = {
            pool.submit(work, job): place for place, job in enumerate(jobs)
        }
        try:
            while running:
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield running.pop(future), future.result()
        finally:
            for future in running:
                future.cancel()


def _placed(work: Callable[[Job], Result], place: int, job: Job) -> tuple[int, Result]:
    return place, work(job)


def _count(n_jobs: int | None) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    if n_jobs is None:
        return cores
    if n_jobs == 0:
        raise ValueError("n_jobs=0: write the number of jobs at once, or -1 for one on every core")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def _chosen_joblib() -> Any | None:
    """joblib, if a backend was chosen: without it imported, nobody can have done so."""
    joblib = sys.modules.get("joblib")
    if joblib is None:
        return None
    from joblib.parallel import default_parallel_config, get_active_backend

    config = getattr(joblib.parallel._backend, "config", default_parallel_config)
    if config["backend"] is default_parallel_config["backend"]:
        return None
    backend, _ = get_active_backend()
    # Inside a worker, joblib forbids more processes: threads do no harm there.
    return joblib if getattr(backend, "nesting_level", 0) == 0 else None
