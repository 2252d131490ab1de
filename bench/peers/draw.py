"""Draws the tables that all methods see: one .npz for each task, with x, y, the truth and perhaps z.

    python bench/peers/draw.py FOLDER bmi --rows 2000 --seed 4000

Needs the Python package fdime.
"""

import argparse
import pathlib

import fdime
import numpy as np


def draws(suite, rows, seed):
    """Yields the name and the arrays of each task."""
    if suite == "conditional":
        for name, task in fdime.conditional_benchmark(suite).items():
            x, y, z = task.sample(rows, seed=seed)
            yield name, {"x": x, "y": y, "z": z, "truth": task.conditional_mutual_information}
    else:
        for name, task in fdime.benchmark(suite).items():
            x, y = task.sample(rows, seed=seed)
            yield name, {"x": x, "y": y, "truth": task.mutual_information}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("suite", choices=["bmi", "bmi2", "conditional"])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=4000)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, table in draws(args.suite, args.rows, args.seed):
        np.savez(args.folder / f"{name}.npz", **table)
        x, y = table["x"].shape[1], table["y"].shape[1]
        print(name, float(table["truth"]), "one column each" if x == y == 1 else "", sep="\t")


if __name__ == "__main__":
    main()
