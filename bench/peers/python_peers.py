"""Compares the Python package's speed with PyTorch and its accuracy with classical estimators.

    python bench/peers/python_peers.py speed --rounds 5 --json bench/results/DATE-python-speed.json
    python bench/peers/python_peers.py accuracy --json bench/results/DATE-python-accuracy.json

Needs the wheel in a release build, torch for `speed`, and scikit-learn for `accuracy`.

`speed` estimates the mutual information of one table, 10,000 rows of 5 + 5 columns, by cross-fitting: five
critics, each trained on 7,000 rows, stopped by 1,000 and read off the 2,000 it never saw. PyTorch trains
the same network with the same batches, steps, optimiser and checks, and reads the same rows; fdime
makes its interval, its test of independence and its verdict besides. Contenders take turns, and the
table has medians over the rounds.

`accuracy` runs the 40 tasks of the benchmark by Czyz et al., 10,000 rows each.
"""

import argparse
import datetime
import json
import math
import os
import platform
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import fdime
import numpy as np

ROWS, DIM, FOLDS = 10_000, 5, 5

#: Networks to compare: the recipe that `auto` uses for unknown dependence, and the paper's critic.
RECIPES = {
    "3 x 128, ELU, dropout": dict(
        hidden=[128, 128, 128], activation="elu", dropout=0.1, decay=0.05
    ),
    "2 x 256, ReLU": dict(hidden=[256, 256], activation="relu", dropout=0.0, decay=0.0),
}


def plan_of(recipe):
    """Returns a plan that trains this recipe on every fold."""
    plan = fdime.estimate_plan(estimator="gan-dime", folds=FOLDS)
    free = next(r for r in plan["portfolio"]["recipes"] if r["name"] == "free")
    free = {**free, **recipe, "features": {**free["features"], "radial": False}}
    plan["portfolio"] = {"recipes": [free], "race_folds": 0, "finalists": 1}
    return plan


def torch_fold(work):
    """Trains a critic in PyTorch as fdime does, and returns the estimate on its fold."""
    x, y, order, fold, recipe, threads = work
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(fold)
    size = len(x) // FOLDS
    test = order[fold * size : (fold + 1) * size]
    rest = np.concatenate([order[: fold * size], order[(fold + 1) * size :]])
    validation, train = rest[: len(x) // 10], rest[len(x) // 10 :]
    layers, width = [], 2 * DIM
    for hidden in recipe["hidden"]:
        layers += [torch.nn.Linear(width, hidden)]
        layers += [torch.nn.ELU() if recipe["activation"] == "elu" else torch.nn.ReLU()]
        if recipe["dropout"]:
            layers += [torch.nn.Dropout(recipe["dropout"])]
        width = hidden
    net = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))
    torch.nn.init.zeros_(net[-1].weight)
    torch.nn.init.zeros_(net[-1].bias)
    rate, decay = recipe["learning_rate"], recipe["decay"]
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=decay, betas=(0.9, 0.99))
    steps, batch, warm_up = recipe["steps"], recipe["batch"], 0.05

    def share(step):
        progress = (step + 1) / steps
        if progress < warm_up:
            return progress / warm_up
        return 0.5 * (1 + math.cos(math.pi * (progress - warm_up) / (1 - warm_up)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)

    def rows(indices):
        return torch.from_numpy(x[indices]), torch.from_numpy(y[indices])

    x_train, y_train = rows(train)
    x_check, y_check = rows(validation)
    shifts = [len(validation) * k // 9 for k in range(1, 9)]
    x_marginal = x_check.repeat(len(shifts), 1)
    y_marginal = torch.cat([y_check.roll(-shift, 0) for shift in shifts])

    def objective(joint, marginal):
        return -F.softplus(-joint).mean() - F.softplus(marginal).mean()

    def validate():
        net.eval()
        with torch.no_grad():
            joint = net(torch.cat([x_check, y_check], 1))
            value = objective(joint, net(torch.cat([x_marginal, y_marginal], 1))).item()
        net.train()
        return value

    identity = torch.arange(batch)
    best, kept = validate(), [p.detach().clone() for p in net.parameters()]
    at, shuffled = len(train), None
    for step in range(1, steps + 1):
        if at + batch > len(train):
            shuffled, at = torch.randperm(len(train)), 0
        chosen = shuffled[at : at + batch]
        at += batch
        while True:
            partner = torch.randperm(batch)
            if not bool((partner == identity).any()):
                break
        left, right = x_train[chosen], y_train[chosen]
        pairs = torch.cat([torch.cat([left, left]), torch.cat([right, right[partner]])], 1)
        scores = net(pairs)
        loss = -objective(scores[:batch], scores[batch:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step * 12 // steps > (step - 1) * 12 // steps:
            value = validate()
            if value > best:
                best, kept = value, [p.detach().clone() for p in net.parameters()]
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), kept):
            parameter.copy_(value)
    net.eval()
    with torch.no_grad():
        return net(torch.cat(rows(test), 1)).sum().item()


def speed(arguments):
    import torch

    cores = len(os.sched_getaffinity(0))
    scenario = fdime.Scenario("gaussian", dim=DIM, level=1.0)
    x, y = (side.astype(np.float32) for side in scenario.sample(ROWS, seed=0))
    order = np.random.default_rng(0).permutation(ROWS)
    pool = ProcessPoolExecutor(cores, mp_context=get_context("spawn"))
    results = []
    for name, settings in RECIPES.items():
        plan = plan_of(settings)
        recipe = plan["portfolio"]["recipes"][0]

        def ours():
            return fdime.mutual_information(x, y, plan=plan, threads=cores, progress=False).mi

        def work(threads):
            return [(x, y, order, fold, recipe, threads) for fold in range(FOLDS)]

        contenders = {"fdime": ours}
        for threads in sorted({1, cores}):
            contenders[f"PyTorch, {threads} threads"] = lambda threads=threads: (
                sum(map(torch_fold, work(threads))) / ROWS
            )
        contenders[f"PyTorch, {cores} processes"] = lambda: (
            sum(pool.map(torch_fold, work(1))) / ROWS
        )
        seconds = {contender: [] for contender in contenders}
        estimates = {}
        for (
            run
        ) in contenders.values():  # imports, processes and caches are warm before any clock runs
            run()
        for _ in range(arguments.rounds):
            for contender, run in contenders.items():
                start = time.perf_counter()
                estimates[contender] = run()
                seconds[contender].append(time.perf_counter() - start)
        medians = {contender: statistics.median(times) for contender, times in seconds.items()}
        print(f"\n{name}: {recipe['steps']} steps of {recipe['batch']} rows, {FOLDS} folds")
        for contender, median in medians.items():
            ratio = median / medians["fdime"]
            print(
                f"  {contender:24} {median:7.2f} s   {ratio:5.2f}   I = {estimates[contender]:.3f}"
            )
        results.append(
            {
                "recipe": name,
                "settings": recipe,
                "seconds": seconds,
                "medians": medians,
                "estimates": estimates,
            }
        )
    return {
        "rows": ROWS,
        "dims": [DIM, DIM],
        "true_mi": scenario.mutual_information,
        "torch": torch.__version__,
        "cores": cores,
        "results": results,
    }


def accuracy(arguments):
    import sklearn
    from sklearn.feature_selection import mutual_info_regression

    methods = {
        "fdime": lambda x, y: fdime.mutual_information(x, y, progress=False).mi,
        "KSG (k = 3)": lambda x, y: fdime.mutual_information(x, y, estimator="ksg").mi,
        "Gaussian CCA": lambda x, y: (
            fdime.mutual_information(x, y, estimator="cca", permutations=19).mi
        ),
        "Gaussian copula": lambda x, y: (
            fdime.mutual_information(x, y, estimator="copula", permutations=19).mi
        ),
        "mutual_info_regression": lambda x, y: (
            mutual_info_regression(x, y[:, 0], random_state=0)[0]
            if x.shape[1] == y.shape[1] == 1
            else None
        ),
    }
    rows = []
    for name, scenario in fdime.benchmark().items():
        x, y = scenario.sample(ROWS, seed=arguments.seed)
        truth = scenario.mutual_information
        row = {"task": name, "true_mi": truth, "dims": scenario.dims}
        for method, estimate in methods.items():
            start = time.perf_counter()
            value = estimate(x, y)
            row[method] = None if value is None else float(value)
            row[f"{method} seconds"] = time.perf_counter() - start
        rows.append(row)
        shown = "  ".join("      -" if row[m] is None else f"{row[m]:7.3f}" for m in methods)
        print(f"{name:36} {truth:6.3f}  {shown}", flush=True)
    summary = []
    for method in methods:
        for group, members in {
            "all": rows,
            "1-D": [row for row in rows if row["mutual_info_regression"] is not None],
        }.items():
            answered = [row for row in members if row[method] is not None]
            if len(answered) < len(members):
                continue
            errors = [abs(row[method] - row["true_mi"]) for row in answered]
            solved = sum(r["true_mi"] / 1.5 <= r[method] <= r["true_mi"] * 1.5 for r in answered)
            seconds = sum(row[f"{method} seconds"] for row in answered)
            summary.append(
                {
                    "method": method,
                    "tasks": group,
                    "count": len(answered),
                    "solved": solved,
                    "mean_absolute_error": sum(errors) / len(errors),
                    "seconds": seconds,
                }
            )
            print(
                f"{method:24} {group:4} {solved:3} of {len(answered)} solved, mean error "
                f"{sum(errors) / len(errors):.4f}, {seconds:.0f} s"
            )
    return {
        "rows": ROWS,
        "seed": arguments.seed,
        "sklearn": sklearn.__version__,
        "summary": summary,
        "results": rows,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["speed", "accuracy"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", help="where to write every measurement")
    arguments = parser.parse_args()
    result = speed(arguments) if arguments.what == "speed" else accuracy(arguments)
    result |= {
        "date": datetime.date.today().isoformat(),
        "fdime": fdime.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
