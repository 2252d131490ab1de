"""Compares the test of conditional independence with tigramite's CMIknn: rejections at 5%.

    python bench/peers/conditional_power.py --tables 40 --json bench/results/DATE-conditional-power.json

Needs the wheel and tigramite. In each table, x = f(z) + e/2 and y = g(z) + e'/2 with standard normal e and
e' of correlation rho. ``smooth`` is f = tanh 2u, g = u^2 with u the sum of all columns of z over the root
of their number; ``waves`` is f = sin 4z_1, g = cos 4z_1. With rho = 0 a valid test rejects 5%; with rho > 0
more is better. Both tests see the same tables. CMIknn has its default settings (k = 20% of the rows, 5
neighbours for the permutation) and 199 permutations.
"""

import argparse
import importlib.metadata
import json
import platform
import time

import fdime
import numpy as np
from tigramite.independence_tests.cmiknn import CMIknn

LEVEL = 0.05


def table(kind, columns, rows, rho, seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, columns))
    if kind == "smooth":
        u = z.sum(axis=1) / np.sqrt(columns)
        f, g = np.tanh(2 * u), u**2
    else:
        f, g = np.sin(4 * z[:, 0]), np.cos(4 * z[:, 0])
    e, other = rng.normal(size=(2, rows))
    return f + 0.5 * e, g + 0.5 * (rho * e + np.sqrt(1 - rho**2) * other), z


def by_fdime(x, y, z, seed):
    return fdime.mutual_information(x, y, given=z, effort="quick", seed=seed).p_value


def by_neighbours(x, y, z, seed):
    test = CMIknn(sig_samples=199, seed=seed)
    array = np.vstack([x, y, z.T])
    roles = np.array([0, 1] + [2] * z.shape[1])
    return test.get_shuffle_significance(array, roles, test.get_dependence_measure(array, roles))


TESTS = {"fdime": by_fdime, "CMIknn": by_neighbours}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=40, help="tables of each setting")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--kinds", default="smooth,waves", help="how x and y depend on z")
    parser.add_argument("--columns", default="1,5,20", help="the numbers of columns of z")
    parser.add_argument("--rho", default="0,0.2", help="the correlations of the noise")
    parser.add_argument("--first-seed", type=int, default=5000)
    parser.add_argument("--json", help="where to write all p-values")
    args = parser.parse_args()
    results = []
    for kind in args.kinds.split(","):
        for columns in map(int, args.columns.split(",")):
            for rho in map(float, args.rho.split(",")):
                for name, test in TESTS.items():
                    start, p_values = time.perf_counter(), []
                    for seed in range(args.first_seed, args.first_seed + args.tables):
                        p_values.append(test(*table(kind, columns, args.rows, rho, seed), seed))
                    rejected = float(np.mean(np.array(p_values) <= LEVEL))
                    seconds = (time.perf_counter() - start) / args.tables
                    print(f"{kind:7} d_z={columns:2} n={args.rows} rho={rho} {name:7} rejects {rejected:6.1%}"
                          f"  {seconds:.1f} s a table", flush=True)
                    results.append({"kind": kind, "columns": columns, "rows": args.rows, "rho": rho,
                                    "test": name, "rejected": rejected, "p_values": p_values,
                                    "seconds_a_table": seconds})
                    if args.json:
                        save(args.json, results)


def save(path, results):
    """Write all p-values; it is called after every row, so that an interruption loses at most one."""
    versions = {name: importlib.metadata.version(name) for name in ("fdime", "tigramite")}
    record = {"results": results, "versions": versions, "python": platform.python_version()}
    with open(path, "w") as file:
        json.dump(record, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
