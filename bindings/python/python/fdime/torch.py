"""Mutual information as a training loss for PyTorch.

``import fdime`` does not import torch; ``import fdime.torch`` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from . import _native
from ._blocks import Divergence, estimator_name
from ._expression import evaluate

try:
    import torch
    from torch import Tensor
    from torch.nn import functional as F
except ImportError:
    raise ImportError("fdime.torch needs PyTorch: pip install torch") from None

#: a(l) and b(l) of the f-DIME value function E_joint[a(l)] - E_marginal[b(l)].
_Parts = tuple[Tensor, Tensor]

_LN2 = math.log(2.0)

_ROWS: dict[str, Callable[[Tensor, Tensor], _Parts]] = {
    "kl": lambda j, m: (j + 1.0, m.exp()),
    "gan": lambda j, m: (-F.softplus(-j), F.softplus(m) - 2.0 * _LN2),
    "hd": lambda j, m: (-torch.expm1(-0.5 * j), torch.expm1(0.5 * m)),
    "reverse-kl": lambda j, m: (-torch.exp(-j), m - 1.0),
    "js": lambda j, m: (0.5 * (_LN2 - F.softplus(-j)), 0.5 * (F.softplus(m) - _LN2)),
    "pearson": lambda j, m: (2.0 * torch.expm1(j), torch.expm1(2.0 * m)),
    "neyman": lambda j, m: (-torch.expm1(-2.0 * j), -2.0 * torch.expm1(-m)),
    "jeffreys": lambda j, m: (j - torch.expm1(-j), m + torch.expm1(m)),
    "shifted-log": lambda j, m: (-torch.sigmoid(-j), F.softplus(m) - torch.sigmoid(m) - _LN2),
}

#: The weight of a new batch in MINE's moving average.
_RATE = 0.01

_FUNCTIONS = {
    "ln": torch.log,
    "exp": torch.exp,
    "sqrt": torch.sqrt,
    "log2": torch.log2,
    "log10": torch.log10,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
}


def _alpha(alpha: float, joint: Tensor, marginal: Tensor) -> _Parts:
    a = joint if alpha == 1.0 else torch.expm1((alpha - 1.0) * joint) / (alpha - 1.0)
    b = marginal if alpha == 0.0 else torch.expm1(alpha * marginal) / alpha
    return a, b


def _custom(expression: str, joint: Tensor, marginal: Tensor) -> _Parts:
    """a = f'(u) and b = u f'(u) - f(u) + f(1), with u = e^l and f' by torch.

    It is computed in double precision, because u overflows float32 long before l does.
    """

    def generator(log_ratio: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.inference_mode(False), torch.enable_grad():
            u = (log_ratio.clone() if log_ratio.is_inference() else log_ratio).double().exp()
            u = u if u.requires_grad else u.requires_grad_()
            f = evaluate(expression, u, _FUNCTIONS)
            (slope,) = torch.autograd.grad(f.sum(), u, create_graph=True)
        return u, f, slope

    at_one = evaluate(expression, torch.ones((), dtype=torch.float64), _FUNCTIONS).item()
    u, f, slope = generator(marginal)
    return generator(joint)[2].to(joint.dtype), (u * slope - f + at_one).to(marginal.dtype)


def _parts(divergence: str, joint: Tensor, marginal: Tensor) -> _Parts:
    if divergence in _ROWS:
        return _ROWS[divergence](joint, marginal)
    if divergence.startswith("alpha-"):
        return _alpha(float(divergence.removeprefix("alpha-")), joint, marginal)
    return _custom(divergence.removeprefix("f:"), joint, marginal)


def _log_softplus(scores: Tensor) -> Tensor:
    """ln softplus(s), which is s - e^s/2 far below 0, where softplus itself underflows."""
    low = scores.clamp(max=-15.0)
    high = F.softplus(scores.clamp(min=-15.0)).log()
    return torch.where(scores < -15.0, low - 0.5 * low.exp(), high)


_LINKS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda scores: scores,
    "log-softplus": _log_softplus,
    "inverse-square-softplus": lambda scores: -2.0 * _log_softplus(scores),
}


def _log_mean_exp(values: Tensor) -> Tensor:
    return torch.logsumexp(values, 0) - math.log(values.numel())


def _one_each(scores: Tensor, pairs: int) -> Tensor:
    if scores.numel() != pairs:
        raise ValueError(
            f"the critic must give one score for each of {pairs} pairs; it gave the shape "
            f"{tuple(scores.shape)}"
        )
    return scores.reshape(-1)


def _split(log_ratios: Tensor) -> tuple[Tensor, Tensor]:
    """The joint pairs, on the diagonal, and all others."""
    off = ~torch.eye(len(log_ratios), dtype=torch.bool, device=log_ratios.device)
    return log_ratios.diagonal(), log_ratios[off]


def partners(
    n: int,
    pairing: str = "derangement",
    *,
    generator: torch.Generator | None = None,
    device: torch.device | None = None,
) -> Tensor:
    """Return the index of a marginal partner for each row: pair ``x`` with ``y[partners(len(y))]``.

    >>> bool((partners(100) == torch.arange(100)).any())
    False
    """
    if n < 2:
        raise ValueError(f"batch={n}: at least 2 rows are needed to pair x with another y")
    rows = torch.arange(n)
    if pairing == "shift":
        return rows.roll(-1).to(device)
    if pairing == "permutation":
        return torch.randperm(n, generator=generator).to(device)
    if pairing != "derangement":
        raise ValueError(f"pairing='{pairing}': write derangement, shift or permutation")
    while True:  # e attempts on average; rejection keeps derangements uniform
        drawn = torch.randperm(n, generator=generator)
        if not bool((drawn == rows).any()):
            return drawn.to(device)


class MutualInformationLoss(torch.nn.Module):
    """The negative objective of an estimator: minimising it maximises mutual information.

    With a critic, call it with a batch: ``loss(x, y)``. A critic is a module that takes rows of x and
    the same number of rows of y and returns a score for each pair. Without a critic, compute the
    scores and call :meth:`from_scores`.

    Parameters
    ----------
    estimator
        The name of an estimator with a critic, such as ``gan-dime``, ``kl-dime``, ``mine``, ``cpc`` or
        ``smile-1``, or a :class:`fdime.Divergence`.
    critic
        The module that scores pairs; its parameters become parameters of the loss.
    pairing
        The way to make marginal pairs: ``derangement``, ``shift``, ``all-pairs`` or ``permutation``
        (which caps every estimate at ln N). By default ``derangement``, and ``all-pairs`` for CPC.
    link
        The function from scores to log density ratios; None means the estimator's.
    readout
        The function from log density ratios to the estimate; None means the estimator's.

    Examples
    --------
    >>> critic = torch.nn.Bilinear(3, 3, 1)
    >>> loss = MutualInformationLoss("gan-dime", critic)
    >>> x = torch.randn(64, 3)
    >>> loss(x, x).backward()
    >>> critic.weight.grad.shape
    torch.Size([1, 3, 3])
    >>> loss.mutual_information(x, x).shape
    torch.Size([])
    """

    log_average: Tensor

    def __init__(
        self,
        estimator: str | Divergence = "gan-dime",
        critic: torch.nn.Module | None = None,
        *,
        pairing: str | None = None,
        link: str | None = None,
        readout: str | None = None,
    ) -> None:
        super().__init__()
        native = _native.Objective(estimator_name(estimator), link, readout)
        self.estimator, self.readout, self._cost = native.name, native.readout, native.cost
        self.link = native.link
        all_pairs = any(name.endswith("info-nce") for name in (self._cost, self.readout))
        self.pairing = pairing or ("all-pairs" if all_pairs else "derangement")
        if self.pairing not in _native.names()["pairings"]:
            raise ValueError(
                f"pairing='{self.pairing}': write all-pairs, derangement, shift or permutation"
            )
        if all_pairs and self.pairing != "all-pairs":
            raise ValueError(
                f"estimator='{self.estimator}' cannot be used with pairing='{self.pairing}': InfoNCE "
                "compares every x with every y; use pairing='all-pairs'"
            )
        self.critic = critic
        if self._cost.startswith("f:"):  # raises an error if torch cannot evaluate it
            _parts(self._cost.removeprefix("f:"), torch.zeros(1), torch.zeros(1))
        # The logarithm of MINE's moving average of the partition function; NaN before the first batch.
        self.register_buffer("log_average", torch.tensor(math.nan))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the loss of a batch; row i of x is paired with row i of y."""
        return self.from_scores(*self.scores(x, y))

    def scores(self, x: Tensor, y: Tensor) -> tuple[Tensor] | tuple[Tensor, Tensor]:
        """Return the critic's scores: a square matrix of all pairs, or joint and marginal scores."""
        if self.critic is None:
            raise ValueError("critic=None: give the loss a critic, or call from_scores")
        n = len(x)
        if len(y) != n:
            raise ValueError(
                f"x has {n} rows, but y has {len(y)}; each row of x goes with the same row of y"
            )
        if self.pairing == "all-pairs":
            rows = torch.arange(n, device=x.device)
            left, right = rows.repeat_interleave(n), rows.repeat(n)
            return (_one_each(self.critic(x[left], y[right]), n * n).reshape(n, n),)
        other = y[partners(n, self.pairing, device=y.device)]
        scores = _one_each(self.critic(torch.cat([x, x]), torch.cat([y, other])), 2 * n)
        return scores[:n], scores[n:]

    def from_scores(self, joint: Tensor, marginal: Tensor | None = None) -> Tensor:
        """Return the loss of scores: of all pairs (a square matrix), or of joint and marginal pairs."""
        if self._cost == "info-nce":
            return -self._info_nce(_LINKS[self.link](self._square(joint, marginal)))
        if self._cost == "symmetric-info-nce":
            log_ratios = _LINKS[self.link](self._square(joint, marginal))
            return -0.5 * (self._info_nce(log_ratios) + self._info_nce(log_ratios.T))
        j, m = self._log_ratios(joint, marginal)
        if self._cost == "moving-average":
            return -self._moving_average(j, m)
        if self._cost.startswith("clipped-"):
            tau = float(self._cost.removeprefix("clipped-"))
            return -(j.mean() - _log_mean_exp(m.clamp(-tau, tau)))
        a, b = _parts(self._cost.removeprefix("f:"), j, m)
        return -(a.mean() - b.mean())

    def mutual_information(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the estimate on a batch in nats, without a gradient."""
        with torch.no_grad():
            return self.read(*self.scores(x, y))

    def read(self, joint: Tensor, marginal: Tensor | None = None) -> Tensor:
        """Return the mutual information that the readout computes from scores, in nats."""
        if self.readout == "info-nce":
            return self._info_nce(_LINKS[self.link](self._square(joint, marginal)))
        j, m = self._log_ratios(joint, marginal)
        if self.readout == "plain":
            return j.mean()
        if self.readout == "nwj":
            return j.mean() - m.exp().mean() + 1.0
        clipped = self.readout.startswith("clipped-")
        tau = float(self.readout.removeprefix("clipped-")) if clipped else math.inf
        return j.mean() - _log_mean_exp(m.clamp(-tau, tau))

    def _square(self, joint: Tensor, marginal: Tensor | None) -> Tensor:
        if marginal is not None or joint.ndim != 2 or joint.shape[0] != joint.shape[1]:
            raise ValueError(f"estimator='{self.estimator}': give a square matrix of scores")
        return joint

    def _log_ratios(self, joint: Tensor, marginal: Tensor | None) -> tuple[Tensor, Tensor]:
        link = _LINKS[self.link]
        if marginal is None:
            return _split(link(self._square(joint, None)))
        return link(joint.reshape(-1)), link(marginal.reshape(-1))

    @staticmethod
    def _info_nce(log_ratios: Tensor) -> Tensor:
        own = log_ratios.diagonal() - torch.logsumexp(log_ratios, 1)
        return own.mean() + math.log(len(log_ratios))

    def _moving_average(self, joint: Tensor, marginal: Tensor) -> Tensor:
        """Return the Donsker-Varadhan value; its gradient E[e^l dl] / Z uses the moving average of Z."""
        log_partition = _log_mean_exp(marginal).detach()
        average = log_partition
        if not bool(self.log_average.isnan()):
            kept = self.log_average.to(log_partition) + math.log1p(-_RATE)
            average = torch.logaddexp(kept, log_partition + math.log(_RATE))
        if self.training:
            self.log_average = average
        gradient = (marginal - average).exp().mean()
        return joint.mean() - (log_partition + gradient - gradient.detach())
