"""Compares fdime with PyTorch on one NVIDIA GPU: four staircases of 20,000 steps, interleaved.

fdime's seconds are those of a whole staircase, run for real: five levels, data generation included.
PyTorch's are extrapolated: 20,000 times the measured step (and times the runs, one after the
other), with everything in the step, drawing the batch too, eager or captured in a CUDA graph.

Needs a release build with the feature `cuda` and a Python with a CUDA torch.

    python bench/compare_cuda.py --rounds 3 --json bench/results/today-cuda.json
"""

import argparse
import datetime
import gc
import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from compare import ROOT
from torch_step import Deranged, Joint, all_pairs_loss, mlp

ITERATIONS = 4000  # at each of fdime's five default levels
STEPS = 5 * ITERATIONS
BLOCKS = 5
VARIANTS = ["eager tf32", "graph fp32", "graph tf32", "graph bf16"]


class Work(NamedTuple):
    critic: str
    d: int
    n: int
    runs: int
    asked: float
    aim: float

    def __str__(self):
        runs = f", {self.runs} runs" if self.runs > 1 else ""
        return f"{self.critic}, d = {self.d}, N = {self.n:,}{runs}"


WORKS = {
    1: Work("deranged", d=20, n=30_000, runs=1, asked=12, aim=4),
    2: Work("deranged", d=20, n=64, runs=1, asked=2.5, aim=0.8),
    3: Work("joint", d=5, n=64, runs=64, asked=100, aim=40),
    4: Work("joint", d=20, n=1024, runs=1, asked=145, aim=60),
}


class SplitJoint(torch.nn.Module):
    """The joint critic with a split first layer: one product for each x and for each y."""

    def __init__(self, d):
        super().__init__()
        first, *rest = mlp(2 * d, 1)
        of_x, of_y = first.weight.detach().split(d, dim=1)
        self.of_x = torch.nn.Parameter(of_x.contiguous())
        self.of_y = torch.nn.Parameter(of_y.contiguous())
        self.bias = first.bias
        self.rest = torch.nn.Sequential(*rest)

    def forward(self, x, y, partner):
        n = x.shape[0]
        sums = F.linear(x, self.of_x, self.bias)[:, None] + F.linear(y, self.of_y)
        return all_pairs_loss(self.rest(sums.view(n * n, -1)).view(n, n))


FORMULATIONS = {
    "deranged": {"shift": Deranged},
    "joint": {"all pairs concatenated": Joint, "first layer split": SplitJoint},
}


def training_step(work, formulation, precision, capturable, device):
    """Returns a function that draws a batch of 2 nats, makes one step of Adam and returns the loss."""
    torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
    torch.manual_seed(0)
    model = FORMULATIONS[work.critic][formulation](work.d).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, fused=True, capturable=capturable)
    rho = math.sqrt(1 - math.exp(-4 / work.d))
    noise = math.sqrt(1 - rho**2)
    partner = torch.arange(work.n, device=device).roll(-1)

    def step():
        x, independent = torch.randn(2, work.n, work.d, device=device).unbind()
        y = torch.add(rho * x, independent, alpha=noise)
        with torch.autocast(device, torch.bfloat16, precision == "bf16", cache_enabled=False):
            loss = model(x, y, partner)
        loss.backward()
        optimizer.step()
        # At the end, so that a capture starts without gradients and allocates them in its own memory.
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def captured(step):
    """Captures the step as a CUDA graph; returns a function that replays it and returns the loss."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay():
        graph.replay()
        return loss

    return replay


def block_milliseconds(step, seconds, device):
    """Returns milliseconds per step, for each of a few blocks that together take about `seconds`."""

    def block(count):
        synchronize()
        start = time.perf_counter()
        for _ in range(count):
            step()
        synchronize()
        return (time.perf_counter() - start) / count * 1e3

    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    block(5)
    count = math.ceil(seconds * 1e3 / BLOCKS / block(5))
    block(count)
    return [block(count) for _ in range(BLOCKS)]


def measure_torch(work, formulation, variant, seconds, device="cuda"):
    """Returns the time of a step, and of a staircase of such steps."""
    gc.collect()
    torch.cuda.empty_cache()
    mode, precision = variant.split()
    step = training_step(work, formulation, precision, mode == "graph", device)
    if mode == "graph":
        step = captured(step)
    first_loss = step().item()
    blocks = block_milliseconds(step, seconds, device)
    milliseconds = statistics.median(blocks)
    return {
        "seconds": milliseconds / 1e3 * STEPS * work.runs,
        "step_milliseconds": milliseconds,
        "block_milliseconds": blocks,
        "first_loss": first_loss,
        "last_loss": step().item(),
    }


def measure_fdime(work, precision):
    """Runs a whole staircase; returns its time, that of the process, and the mean estimate at each level."""
    command = [ROOT / "target/release/fdime", "staircase", "--scenario", "gaussian"]
    command += ["--dim", work.d, "--critic", work.critic, "--batch", work.n]
    command += ["--pairing", "shift"] if work.critic == "deranged" else []
    command += ["--estimator", "gan-dime", "--iterations", ITERATIONS, "--runs", work.runs]
    command += ["--device", "cuda", "--precision", precision, "--json"]
    command = [str(part) for part in command]
    start = time.perf_counter()
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    process_seconds = time.perf_counter() - start
    if run.returncode != 0:
        raise RuntimeError(f"exit status {run.returncode}: {run.stderr[-2000:]}")
    result = json.loads(run.stdout)
    return {
        "seconds": result["seconds"],
        "process_seconds": process_seconds,
        "true_mi": [row["true_mi"] for row in result["results"]],
        "estimates": [row["mean"] for row in result["results"]],
        "diverged_runs": len(result["failures"]),
    }


def attempt(measure, *arguments):
    """Returns the measurement, or the error."""
    try:
        return measure(*arguments)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def gpu():
    """Returns the GPU's name and driver, as reported by nvidia-smi."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        run = subprocess.run(query, capture_output=True, text=True, check=True)
        return run.stdout.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "no NVIDIA GPU"


def seconds_cell(measurements):
    seconds = [m["seconds"] for m in measurements if "error" not in m]
    if not seconds:
        return "failed" if measurements else "-"
    median = statistics.median(seconds)
    return f"{median:.2f}" if median < 10 else f"{median:.1f}"


def print_table(works, precisions):
    """Prints one row for each PyTorch version, with medians over the rounds."""
    heads = ["work", *(f"fdime {p}" for p in precisions), *(f"PyTorch {v}" for v in VARIANTS)]
    heads += ["requirement", "goal"]
    print("| " + " | ".join(heads) + " |")
    print("|" + " --- |" * len(heads))
    for work, (fdime, pytorch) in works.items():
        for formulation, variants in pytorch.items():
            cells = [f"{work} (PyTorch: {formulation})"]
            cells += [seconds_cell(fdime[precision]) for precision in precisions]
            cells += [seconds_cell(variants[variant]) for variant in VARIANTS]
            print("| " + " | ".join([*cells, str(work.asked), str(work.aim)]) + " |")


def print_details(works):
    """Prints fdime's estimates and process times in the last round, and all errors."""
    for work, (fdime, pytorch) in works.items():
        for precision, measurements in fdime.items():
            last = measurements[-1]
            if "error" in last:
                continue
            pairs = zip(last["true_mi"], last["estimates"])
            # A mean that is not finite is null in JSON.
            levels = ", ".join(f"{mi:g}: {math.nan if e is None else e:.2f}" for mi, e in pairs)
            print(
                f"{work}, fdime {precision}: process {last['process_seconds']:.2f} s, "
                f"{last['diverged_runs']} runs diverged, estimates {levels}"
            )
        columns = {f"fdime {precision}": m for precision, m in fdime.items()}
        for formulation, variants in pytorch.items():
            columns |= {f"PyTorch {v}, {formulation}": m for v, m in variants.items()}
        for name, measurements in columns.items():
            for error in {m["error"] for m in measurements if "error" in m}:
                print(f"{work}, {name}: {error}")


def write_report(path, arguments, works):
    report = {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "gpu": gpu(),
        "torch": torch.__version__,
        "rounds": arguments.rounds,
        "seconds_a_measurement": arguments.seconds,
        "note": "fdime: whole staircases. PyTorch: extrapolated from the measured step.",
        "works": [
            {"work": str(work), **work._asdict(), "fdime": fdime, "pytorch": pytorch}
            for work, (fdime, pytorch) in works.items()
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")


def parse_works(text):
    numbers = [int(number) for number in text.split(",")]
    if not set(numbers) <= set(WORKS):
        raise argparse.ArgumentTypeError(f"{text}: numbers out of {list(WORKS)}")
    return [WORKS[number] for number in numbers]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--works", type=parse_works, default="1,2,3,4")
    parser.add_argument(
        "--precisions",
        type=lambda text: text.split(","),
        default="tf32",
        help="of fdime; PyTorch is measured in all",
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each PyTorch measurement")
    parser.add_argument("--skip-torch", action="store_true", help="time fdime alone")
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    arguments = parser.parse_args()

    works = {
        work: (
            {precision: [] for precision in arguments.precisions},
            {formulation: {v: [] for v in VARIANTS} for formulation in FORMULATIONS[work.critic]},
        )
        for work in arguments.works
    }
    for round_number in range(arguments.rounds):
        for work, (fdime, pytorch) in works.items():
            print(f"round {round_number + 1}/{arguments.rounds} {work}, seconds:", file=sys.stderr)
            for precision, measurements in fdime.items():
                measurements.append(attempt(measure_fdime, work, precision))
                print(f"  fdime {precision}: {seconds_cell(measurements)}", file=sys.stderr)
            for formulation, variants in pytorch.items() if not arguments.skip_torch else []:
                for variant, measurements in variants.items():
                    settings = (work, formulation, variant, arguments.seconds)
                    measurements.append(attempt(measure_torch, *settings))
                    cell = seconds_cell(measurements)
                    print(f"  PyTorch {variant}, {formulation}: {cell}", file=sys.stderr)
            if arguments.json:
                write_report(arguments.json, arguments, works)

    print(f"{gpu()}, torch {torch.__version__}, medians of {arguments.rounds} rounds, seconds")
    print(f"fdime: a whole staircase of {STEPS:,} steps, run for real.")
    print(f"PyTorch: EXTRAPOLATED, {STEPS:,} x the measured step (x runs, one after the other).\n")
    print_table(works, arguments.precisions)
    print()
    print_details(works)


if __name__ == "__main__":
    main()
