"""Times the trainings of fdime's estimates in PyTorch on a GPU: many critics side by side, as one batched network
whose step is captured in a CUDA graph.

    python bench/torch_tables.py --json results.json

For each work: the critics, batches, steps and numbers of trainings of `fdime matrix` (see
crates/fdime/src/estimate/recipe.rs), all with the deranged critic. Drawing rows, dropout, the objective of GAN-DIME and
AdamW are part of the step. Features, checks on held-out rows, scores, intervals and tests are not, unlike in fdime.
"""

import argparse
import json
import time
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F


class Work(NamedTuple):
    """A table, its critics, and the number of their trainings and steps for one pair of columns."""

    rows: int
    inputs: int
    hidden: list
    batch: int
    steps: int
    trainings: int


WORKS = {
    "matrix, 2,000 rows, quick": Work(1_400, 6, [96, 96], 256, 171, 10),
    "matrix, 10,000 rows, default": Work(7_000, 6, [128, 128, 128], 512, 600, 13),
}
GRAPH_STEPS = 10


def measure(work, critics, compiled, seconds=2.0):
    """Returns the milliseconds of a step of all critics."""
    device = torch.device("cuda")
    sizes = [work.inputs, *work.hidden, 1]
    shapes = list(zip(sizes, sizes[1:]))
    weights = [torch.randn(critics, a, b, device=device) / a**0.5 for a, b in shapes]
    biases = [torch.zeros(critics, 1, b, device=device) for _, b in shapes]
    parameters = [parameter.requires_grad_() for parameter in weights + biases]
    optimizer = torch.optim.AdamW(
        parameters, lr=2e-3, betas=(0.9, 0.99), weight_decay=0.05, fused=True, capturable=True
    )
    x = torch.randn(critics, work.rows, work.inputs // 2, device=device)
    y = 0.5 * x + torch.randn_like(x)

    def loss():
        rows = torch.randint(work.rows, (critics, work.batch, 1), device=device)
        rows = rows.expand(-1, -1, work.inputs // 2)
        a, b = x.gather(1, rows), y.gather(1, rows)
        h = torch.cat([torch.cat([a, b], 2), torch.cat([a, b.roll(1, 1)], 2)], 1)
        for weight, bias in zip(weights[:-1], biases):
            h = F.dropout(F.elu(torch.baddbmm(bias, h, weight)), 0.1)
        score = torch.baddbmm(biases[-1], h, weights[-1])
        joint, marginal = score.chunk(2, 1)
        return (F.softplus(-joint) + F.softplus(marginal)).mean((1, 2)).sum()

    if compiled:
        loss = torch.compile(loss)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(GRAPH_STEPS):
            step()
    graph.replay()
    torch.cuda.synchronize()
    start, replays = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        graph.replay()
        torch.cuda.synchronize()
        replays += 1
    return 1e3 * (time.perf_counter() - start) / (replays * GRAPH_STEPS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--critics", type=int, default=1024, help="critics trained side by side")
    parser.add_argument("--json", type=Path, help="where to write the measurements")
    args = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    results = []
    for name, work in WORKS.items():
        for compiled in [False, True]:
            try:
                milliseconds = measure(work, args.critics, compiled)
            except Exception as error:  # torch.compile needs a C compiler, which may be missing
                print(f"{name}, compiled={compiled}: {str(error)[:300]}", flush=True)
                continue
            pair = milliseconds * work.steps * work.trainings / args.critics
            found = {"work": name, "torch": torch.__version__, "compiled": compiled, "critics": args.critics}
            found |= {"step_ms": milliseconds, "pair_ms": pair}
            print(json.dumps(found), flush=True)
            results.append(found)
            if args.json:
                args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
