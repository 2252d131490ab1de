"""Compares fdime with PyTorch (eager and compiled) and JAX: the same step, interleaved, as ratios.

Needs a release build (`cargo build --release`) and a Python with torch and, for the JAX column,
jax. Every round runs each contender once on each configuration; the table shows medians over the
rounds. PyTorch eager runs with each thread count, and its best one counts.

    python bench/compare.py --rounds 5 --json bench/results/today.json
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Configuration and the required ratio to PyTorch eager.
CONFIGURATIONS = {
    "deranged-d20-n64": 3.5,
    "deranged-d20-n1024": 2.4,
    "joint-d5-n64": 1.7,
    "deranged-d20-n30000": 2.4,
    "separable-d20-n1024": 1.6,
}


def contenders(threads, seconds, wanted):
    """Returns the commands for a configuration, by name."""

    def fdime(configuration):
        command = [ROOT / "target/release/fdime", "bench", configuration, "--device", "cpu", "--json"]
        return command + ["--threads", str(threads), "--seconds", str(seconds)]

    def python(script, *options):
        def command(configuration):
            path = ROOT / "bench" / script
            return [sys.executable, path, configuration, "--seconds", str(seconds), *options]

        return command

    every = {"fdime": fdime}
    for count in sorted({1, threads}):
        every[f"torch eager, {count} threads"] = python("torch_step.py", "--threads", str(count))
    every["torch compile"] = python(
        "torch_step.py", "--mode", "compile", "--threads", str(threads)
    )
    every["jax jit"] = python("jax_step.py")
    return {name: command for name, command in every.items() if name.split(",")[0] in wanted}


def milliseconds(command):
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{command}: {run.stderr[-2000:]}")
    result = json.loads(run.stdout)
    return (result[0] if isinstance(result, list) else result)["median_ms"]


def cpu_name():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def versions():
    found = {"python": platform.python_version()}
    for package in ["torch", "jax"]:
        try:
            found[package] = __import__("importlib.metadata", fromlist=["version"]).version(package)
        except Exception:
            found[package] = None
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each measurement")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="*", default=list(CONFIGURATIONS))
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    parser.add_argument(
        "--contenders", nargs="*", default=["fdime", "torch eager", "torch compile", "jax jit"]
    )
    arguments = parser.parse_args()
    every = contenders(arguments.threads, arguments.seconds, arguments.contenders)
    times = {c: {name: [] for name in every} for c in arguments.only}
    for round_number in range(arguments.rounds):
        for configuration in arguments.only:
            for name, command in every.items():
                times[configuration][name].append(milliseconds(command(configuration)))
                print(
                    f"round {round_number + 1}/{arguments.rounds} {configuration} {name}",
                    file=sys.stderr,
                )

    medians = {c: {n: statistics.median(t) for n, t in row.items()} for c, row in times.items()}
    print(f"{cpu_name()}, {arguments.threads} threads, medians of {arguments.rounds} rounds, ms")
    columns = ["fdime", "torch eager", "torch compile", "jax jit"]
    print(f"{'step':22}" + "".join(f"{name:>15}" for name in columns) + f"{'ratio':>8}{'asked':>7}")
    summary = {}
    for configuration, row in medians.items():
        eager = [value for name, value in row.items() if name.startswith("torch eager")]
        best = {**row, "torch eager": min(eager)} if eager else row
        ratio = best["torch eager"] / best["fdime"] if eager else float("nan")
        summary[configuration] = {"milliseconds": best, "ratio_to_torch_eager": ratio}
        cells = "".join(f"{best[n]:>15.3f}" if n in best else f"{'-':>15}" for n in columns)
        print(f"{configuration:22}{cells}{ratio:>8.2f}{CONFIGURATIONS.get(configuration, 0):>7}")
    if arguments.json:
        report = {
            "date": datetime.date.today().isoformat(),
            "cpu": cpu_name(),
            "threads": arguments.threads,
            "rounds": arguments.rounds,
            "seconds": arguments.seconds,
            "versions": versions(),
            "summary": summary,
            "all_milliseconds": times,
        }
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
