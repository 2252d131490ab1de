"""Threads, signals and forks while the native part works."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import fdime
import numpy as np
import pytest

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2))
Y = X[:, 0] + RNG.normal(size=400)


def test_estimates_in_parallel_threads_equal_those_in_one_thread():
    alone = [fdime.mutual_information(X, Y, effort="quick", seed=seed).mi for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(
            pool.map(
                lambda seed: fdime.mutual_information(X, Y, effort="quick", seed=seed).mi, range(4)
            )
        )
    assert together == alone


def test_other_python_threads_run_during_an_estimate():
    counted = 0
    finished = threading.Event()

    def count():
        nonlocal counted
        while not finished.is_set():
            counted += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    try:
        fdime.mutual_information(X, Y, effort="quick")
    finally:
        finished.set()
        counter.join()
    assert counted > 20


@pytest.mark.parametrize(
    "call",
    [
        "fdime.mutual_information(x, y, effort='max')",
        "fdime.mutual_information_matrix(np.hstack([x, y]), effort='max')",
        "fdime.mutual_info_features(x, y[:, 0], effort='max')",
        "fdime.staircase('kl-dime', device='cpu', iterations=100_000)",
    ],
)
def test_ctrl_c_stops_the_work(call):
    """A SIGINT in the middle of minutes of work raises KeyboardInterrupt within seconds."""
    program = f"""
        import fdime, numpy as np, sys, threading
        rng = np.random.default_rng(0)
        x = rng.normal(size=(20000, 20))
        y = x + rng.normal(size=x.shape)
        threading.Timer(1.5, lambda: print("working", flush=True)).start()
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            sys.exit(130)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "working\n"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert (process.returncode, output) == (130, "interrupted\n")


def test_an_exception_in_progress_stops_the_work():
    class Enough(Exception):
        pass

    def enough(fraction):
        raise Enough(fraction)

    with pytest.raises(Enough):
        fdime.mutual_information(X, Y, effort="max", progress=enough)
    with pytest.raises(Enough):
        fdime.staircase("kl-dime", device="cpu", progress=enough)


def _after_fork(queue):
    queue.put(fdime.mutual_information(X, Y, effort="quick").mi)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_can_estimate():
    """Threads do not survive a fork: with a global pool the child would wait for ever."""
    expected = fdime.mutual_information(X, Y, effort="quick").mi
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_after_fork, args=(queue,))
    child.start()
    assert queue.get(timeout=120) == expected
    child.join()
