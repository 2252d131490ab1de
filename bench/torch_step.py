"""Times the same training step as `fdime bench`, written in PyTorch.

One step: draw a Gaussian batch, pair it, score the pairs, GAN-DIME's objective, backward, Adam.
Two hidden layers of 256. Prints one JSON object: median milliseconds of a step.
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F


def mlp(inputs, outputs):
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, outputs),
    )


def random_derangement(n):
    identity = torch.arange(n)
    while True:
        permutation = torch.randperm(n)
        if not torch.any(permutation == identity):
            return permutation


class Deranged(torch.nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = mlp(2 * d, 1)

    def forward(self, x, y, partner):
        n = x.shape[0]
        pairs = torch.cat([torch.cat([x, x]), torch.cat([y, y[partner]])], dim=1)
        scores = self.net(pairs)[:, 0]
        return F.softplus(-scores[:n]).mean() + F.softplus(scores[n:]).mean()


def all_pairs_loss(scores):
    """The diagonal has the joint pairs, all other elements are marginal pairs."""
    n = scores.shape[0]
    joint = scores.diagonal()
    marginal = (F.softplus(scores).sum() - F.softplus(joint).sum()) / (n * (n - 1))
    return F.softplus(-joint).mean() + marginal


class Joint(torch.nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = mlp(2 * d, 1)

    def forward(self, x, y, partner):
        n = x.shape[0]
        pairs = torch.cat([x.repeat_interleave(n, 0), y.repeat(n, 1)], dim=1)
        return all_pairs_loss(self.net(pairs).view(n, n))


class Separable(torch.nn.Module):
    def __init__(self, d):
        super().__init__()
        self.g = mlp(d, 32)
        self.h = mlp(d, 32)

    def forward(self, x, y, partner):
        return all_pairs_loss(self.g(x) @ self.h(y).T)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("configuration", help="CRITIC-dDIM-nBATCH, e.g. deranged-d20-n64")
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)

    critic, d, n = arguments.configuration.split("-")[:3]
    d, n = int(d[1:]), int(n[1:])
    model = {"deranged": Deranged, "joint": Joint, "separable": Separable}[critic](d)
    loss_of = torch.compile(model) if arguments.mode == "compile" else model
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    rho = (1 - torch.exp(torch.tensor(-4.0 / d))).sqrt()  # 2 nats
    noise = (1 - rho**2).sqrt()

    def step():
        x = torch.randn(n, d)
        y = rho * x + noise * torch.randn(n, d)
        partner = random_derangement(n) if critic == "deranged" else None
        loss = loss_of(x, y, partner)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    warm_up = time.perf_counter()
    step()
    while time.perf_counter() - warm_up < 0.2 * arguments.seconds:
        step()
    times = []
    begin = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < arguments.seconds:
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e3)
    print(json.dumps({"median_ms": statistics.median(times), "steps": len(times)}))


if __name__ == "__main__":
    main()
