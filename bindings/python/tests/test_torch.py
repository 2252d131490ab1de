"""The loss for PyTorch: values and gradients are those of the Rust objectives."""

from __future__ import annotations

import math

import fdime
import numpy as np
import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed; ./test --torch installs it")

from fdime.torch import MutualInformationLoss, partners

DIVERGENCES = sorted(set(fdime.names()["divergences"]) - {"alpha-A"})
ESTIMATORS = [f"{name}-dime" for name in DIVERGENCES] + [
    "alpha-0.3-dime",
    "alpha-0-dime",
    "alpha-1-dime",
    "mine",
    "nwj",
    "smile-1",
    "smile-inf",
    "smile-own-0.7",
    "smile-own-inf",
    "f:u*ln(u)",
    "f:(u-1)^2/(u+1)",
    "f:-ln(u)",
    "f:(sqrt(u)-1)^2",
]
LINKS = sorted(fdime.names()["links"])


def scores(seed, *shape):
    return np.random.default_rng(seed).normal(scale=1.5, size=shape).astype(np.float32)


def value_and_gradients(loss, *parts):
    leaves = [torch.tensor(part, requires_grad=True) for part in parts]
    value = loss.from_scores(*leaves)
    value.backward()
    return -value.item(), [-leaf.grad.numpy() for leaf in leaves]


def assert_close(theirs, ours):
    assert ours[0] == pytest.approx(theirs[0], rel=2e-5, abs=2e-5)
    for left, right in zip(theirs[1], ours[1], strict=True):
        assert np.allclose(left, right, rtol=5e-4, atol=2e-5 * max(1.0, np.abs(left).max()))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_paired_scores(estimator, link):
    joint, marginal = scores(0, 32), scores(1, 32)
    objective = fdime.Objective(estimator, link=link)
    loss = MutualInformationLoss(estimator, link=link)
    assert_close(
        objective.value_and_gradient(joint, marginal), value_and_gradients(loss, joint, marginal)
    )
    with torch.no_grad():
        read = loss.read(torch.tensor(joint), torch.tensor(marginal)).item()
    assert read == pytest.approx(objective.mutual_information(joint, marginal), rel=2e-5, abs=2e-5)


@pytest.mark.parametrize("estimator", [*ESTIMATORS, "cpc", "symmetric-cpc"])
def test_all_pairs(estimator):
    matrix = scores(2, 12, 12)
    objective, loss = (
        fdime.Objective(estimator),
        MutualInformationLoss(estimator, pairing="all-pairs"),
    )
    assert_close(objective.value_and_gradient(matrix), value_and_gradients(loss, matrix))
    read = loss.read(torch.tensor(matrix)).item()
    assert read == pytest.approx(objective.mutual_information(matrix), rel=2e-5, abs=2e-5)


@pytest.mark.parametrize("readout", ["plain", "nwj", "dv", "clipped-0.5", "info-nce"])
def test_readouts(readout):
    matrix = scores(3, 10, 10)
    loss = MutualInformationLoss("gan-dime", readout=readout, pairing="all-pairs")
    expected = fdime.Objective("gan-dime", readout=readout).mutual_information(matrix)
    assert loss.read(torch.tensor(matrix)).item() == pytest.approx(expected, abs=2e-5)


def test_mine_remembers_batches_of_training_only():
    objective, loss = fdime.Objective("mine"), MutualInformationLoss("mine")
    for seed in range(5):
        batch = scores(seed, 16), scores(seed + 100, 16)
        assert_close(objective.value_and_gradient(*batch), value_and_gradients(loss, *batch))
    before = loss.log_average.clone()
    loss.eval()
    loss.from_scores(*(torch.tensor(part) for part in batch))
    assert torch.equal(before, loss.log_average)
    assert "log_average" in loss.state_dict()


def test_far_scores_have_finite_gradients():
    for estimator in ["kl-dime", "gan-dime", "hd-dime", "js-dime"]:
        far = np.array([-200.0, -40.0, 40.0], dtype=np.float32)
        _, gradients = value_and_gradients(
            MutualInformationLoss(estimator), far, -far if "kl" not in estimator else far
        )
        assert all(np.isfinite(part).all() for part in gradients), estimator


def test_a_custom_f_has_the_range_of_the_native_one():
    """e^50 squared overflows float32, but f' must be finite there."""
    far, near = (np.array(values, dtype=np.float32) for values in ([50.0, 3.0], [5.0, -40.0]))
    for estimator in ["f:(u-1)^2/(u+1)", "f:(sqrt(u)-1)^2"]:
        objective = fdime.Objective(estimator)
        loss = MutualInformationLoss(estimator)
        assert_close(objective.value_and_gradient(far, near), value_and_gradients(loss, far, near))
    with torch.inference_mode():
        assert (
            MutualInformationLoss("f:u*ln(u)")
            .from_scores(torch.zeros(4), torch.zeros(4))
            .isfinite()
        )
    with pytest.raises(ValueError, match="cannot evaluate"):
        MutualInformationLoss("f:u*log(u)")


def test_saving(tmp_path):
    loss = MutualInformationLoss("kl-dime", torch.nn.Bilinear(2, 2, 1))
    torch.save(loss, tmp_path / "loss.pt")
    again = torch.load(tmp_path / "loss.pt", weights_only=False)
    x = torch.ones(4, 2)
    torch.manual_seed(0)
    expected = loss(x, x)
    torch.manual_seed(0)
    assert torch.equal(again(x, x), expected)


def test_conjugated_tensors():
    from fdime._inputs import as_table

    z = torch.tensor([1 + 2j, 3j]).conj()
    assert as_table(z.imag, "x").__reduce__()[1][1][0].tolist() == [-2.0, -3.0]
    assert as_table(z, "x").names == ["x.re", "x.im"]


def test_pairings():
    for n in (2, 3, 50):
        for pairing in ("derangement", "shift"):
            drawn = partners(n, pairing)
            assert sorted(drawn.tolist()) == list(range(n))
            assert not bool((drawn == torch.arange(n)).any())
    assert partners(4, "shift").tolist() == [1, 2, 3, 0]
    assert sorted(partners(9, "permutation").tolist()) == list(range(9))
    generator = torch.Generator().manual_seed(3)
    assert torch.equal(
        partners(20, generator=generator), partners(20, generator=torch.Generator().manual_seed(3))
    )


def test_invalid_arguments_raise_errors_with_advice():
    x = torch.zeros(8, 2)
    for call, message in [
        (lambda: MutualInformationLoss("gan-dmie"), "did you mean 'gan-dime'"),
        (lambda: MutualInformationLoss("njee"), "an estimator that trains a critic"),
        (
            lambda: MutualInformationLoss("cpc", pairing="shift"),
            "InfoNCE compares every x with every y",
        ),
        (
            lambda: MutualInformationLoss(pairing="random"),
            "write all-pairs, derangement, shift or permutation",
        ),
        (lambda: MutualInformationLoss()(x, x), "give the loss a critic"),
        (
            lambda: MutualInformationLoss(critic=torch.nn.Bilinear(2, 2, 1))(x, x[:5]),
            "x has 8 rows, but y has 5",
        ),
        (
            lambda: MutualInformationLoss(critic=torch.nn.Bilinear(2, 2, 3))(x, x),
            "one score for each of 16",
        ),
        (
            lambda: MutualInformationLoss("cpc", torch.nn.Bilinear(2, 2, 3))(x, x),
            "one score for each of 64",
        ),
        (
            lambda: MutualInformationLoss(critic=torch.nn.Bilinear(2, 2, 1))(x[:1], x[:1]),
            "at least 2 rows",
        ),
        (lambda: MutualInformationLoss("cpc").from_scores(x, x), "square matrix"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


class Critic(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2 * dim, 64),
            torch.nn.ReLU(),
            torch.nn.Linear(64, 64),
            torch.nn.ReLU(),
            torch.nn.Linear(64, 1),
        )

    def forward(self, x, y):
        return self.net(torch.cat([x, y], dim=1))


@pytest.mark.parametrize(
    ("estimator", "pairing"),
    [("gan-dime", "derangement"), ("kl-dime", "shift"), ("cpc", None), ("mine", "all-pairs")],
)
def test_a_trained_critic_estimates_the_mutual_information(estimator, pairing):
    """1 nat between two Gaussians: within 0.3 nats after 800 steps of 128 rows, fixed seed."""
    torch.manual_seed(0)
    scenario = fdime.Scenario("gaussian", dim=2, level=1.0)
    x, y = (torch.tensor(side, dtype=torch.float32) for side in scenario.sample(800 * 128, seed=0))
    loss = MutualInformationLoss(estimator, Critic(2), pairing=pairing)
    optimizer = torch.optim.Adam(loss.parameters(), lr=2e-3)
    read = []
    for step in range(800):
        batch = slice(128 * step, 128 * (step + 1))
        value = loss(x[batch], y[batch])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        if step >= 700:
            read.append(loss.mutual_information(x[batch], y[batch]).item())
    assert abs(np.mean(read) - 1.0) < 0.3, np.mean(read)


def test_an_encoder_learns_the_informative_direction():
    """InfoMax: y depends on one direction of x, which the encoder must find."""
    torch.manual_seed(1)
    encoder = torch.nn.Linear(8, 1, bias=False)
    loss = MutualInformationLoss("gan-dime", Critic(1))
    optimizer = torch.optim.Adam([*encoder.parameters(), *loss.parameters()], lr=5e-3)
    for _ in range(600):
        x = torch.randn(256, 8)
        y = x[:, 3:4] + 0.5 * torch.randn(256, 1)
        value = loss(encoder(x), y)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    weights = encoder.weight.detach().abs()[0]
    assert weights[3] / weights.norm() > 0.9


def test_estimates_from_tensors(gaussian):
    x, y = gaussian
    expected = fdime.mutual_information(x, y, estimator="copula").mi
    tensors = torch.tensor(x, requires_grad=True), torch.tensor(y)
    assert fdime.mutual_information(*tensors, estimator="copula").mi == expected
    with pytest.raises(TypeError, match="give a dense array of float32"):
        fdime.mutual_information(tensors[0].detach().bfloat16(), y)


def test_importing_fdime_does_not_import_torch():
    import subprocess
    import sys

    program = "import sys, fdime; assert 'torch' not in sys.modules; import fdime.torch; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_custom_divergences_from_a_function():
    own = fdime.Divergence(lambda u: (u - 1) ** 2 / (u + 1))
    joint, marginal = scores(0, 16), scores(1, 16)
    assert_close(
        fdime.Objective(own).value_and_gradient(joint, marginal),
        value_and_gradients(MutualInformationLoss(own), joint, marginal),
    )
    assert math.isfinite(own.f(2.0))
