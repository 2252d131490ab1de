"""Times estimates, suites and matrices on a GPU (or, with --device cpu, on all cores).

    cargo build --release
    python bench/tables_cuda.py --json bench/results/DATE-tables-GPU.json
    python bench/tables_cuda.py suite matrix-500=60

A work is ended after its limit in seconds, which may follow its name. Of a matrix, the finished pairs are counted then.
"""

import argparse
import json
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

FDIME = Path(__file__).resolve().parent.parent / "target/release/fdime"


def write_columns(path, rows, columns):
    """Writes a table of columns that share five factors, in groups of increasing strength."""
    draw = random.Random(1).gauss
    with open(path, "w") as file:
        file.write(",".join(f"c{column}" for column in range(columns)) + "\n")
        for _ in range(rows):
            factors = [draw(0, 1) for _ in range(5)]
            values = (factors[c % 5] * c / columns + draw(0, 1) for c in range(columns))
            file.write(",".join(f"{value:.6g}" for value in values) + "\n")


def sampled(dim, rows):
    def draw(folder):
        path = folder / f"{rows}.npz"
        options = ["--dim", str(dim), "-n", str(rows), "-o", path]
        subprocess.run([FDIME, "sample", "gaussian", *options], check=True)
        return path

    return draw


def drawn(columns, rows):
    def draw(folder):
        path = folder / f"{columns}.csv"
        write_columns(path, rows, columns)
        return path

    return draw


def estimate(dim, rows):
    return sampled(dim, rows), lambda path: ["estimate", path, "--json"]


def matrix(columns, rows, effort):
    def command(path):
        return ["matrix", path, "--effort", effort, "-o", path.with_suffix(".pairs.csv")]

    return drawn(columns, rows), command


# How the data are drawn, the command, and the limit in seconds.
WORKS = {
    "estimate-10000": (*estimate(5, 10_000), 60),
    "estimate-1000000": (*estimate(10, 1_000_000), 600),
    "suite": (None, lambda _: ["suite", "bmi", "--json"], 600),
    "matrix-50": (*matrix(50, 10_000, "default"), 1200),
    "matrix-500": (*matrix(500, 2_000, "quick"), 3600),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("works", nargs="*", default=list(WORKS), help=f"of {', '.join(WORKS)}")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path, help="where to write the measurements")
    args = parser.parse_args()
    results = []
    for work in args.works:
        name, _, limit = work.partition("=")
        draw, command, default_limit = WORKS[name]
        with tempfile.TemporaryDirectory() as folder:
            path = draw(Path(folder)) if draw else None
            found = measure(command(path), args.device, float(limit or default_limit), Path(folder))
        found = {"work": name, "device": args.device, **found}
        results.append(found)
        print(json.dumps({key: value for key, value in found.items() if key != "output"}), flush=True)
        if args.json:
            args.json.write_text(json.dumps(results, indent=1) + "\n")


def measure(command, device, limit, folder):
    start = time.perf_counter()
    process = subprocess.Popen(
        [FDIME, *command, "--device", device], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        out, notes = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        out, notes = process.communicate()
    found = {"seconds": round(time.perf_counter() - start, 2), "status": process.returncode}
    for journal in folder.glob("*.unfinished"):
        with open(journal) as lines:
            found["pairs"] = sum(1 for _ in lines) - 1
    return {**found, "notes": notes, "output": out}


if __name__ == "__main__":
    main()
