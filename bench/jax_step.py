"""Times the same training step as `fdime bench`, written in JAX and compiled by jit.

See torch_step.py for what a step is. Prints one JSON object: median milliseconds of a step.
"""

import argparse
import json
import statistics
import time

import jax
import jax.numpy as jnp


def initialise(key, widths):
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        key, weights, bias = jax.random.split(key, 3)
        bound = inputs**-0.5
        layers.append(
            (
                jax.random.uniform(weights, (inputs, outputs), minval=-bound, maxval=bound),
                jax.random.uniform(bias, (outputs,), minval=-bound, maxval=bound),
            )
        )
    return layers


def network(layers, rows):
    for weights, bias in layers[:-1]:
        rows = jax.nn.relu(rows @ weights + bias)
    weights, bias = layers[-1]
    return rows @ weights + bias


def all_pairs_loss(scores):
    n = scores.shape[0]
    joint = jnp.diagonal(scores)
    marginal = (jax.nn.softplus(scores).sum() - jax.nn.softplus(joint).sum()) / (n * (n - 1))
    return jax.nn.softplus(-joint).mean() + marginal


def random_derangement(key, n):
    """Shuffles until no point is fixed."""

    def again(state):
        return jnp.any(state[1] == jnp.arange(n))

    def shuffle(state):
        key, shuffle_key = jax.random.split(state[0])
        return key, jax.random.permutation(shuffle_key, n)

    return jax.lax.while_loop(again, shuffle, (key, jnp.arange(n)))[1]


def loss(parameters, critic, x, y, partner):
    n = x.shape[0]
    if critic == "deranged":
        pairs = jnp.concatenate(
            [jnp.concatenate([x, x]), jnp.concatenate([y, y[partner]])], axis=1
        )
        scores = network(parameters, pairs)[:, 0]
        return jax.nn.softplus(-scores[:n]).mean() + jax.nn.softplus(scores[n:]).mean()
    if critic == "joint":
        pairs = jnp.concatenate([jnp.repeat(x, n, axis=0), jnp.tile(y, (n, 1))], axis=1)
        return all_pairs_loss(network(parameters, pairs).reshape(n, n))
    return all_pairs_loss(network(parameters[0], x) @ network(parameters[1], y).T)


def adam(parameters, gradient, first, second, step):
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
    rate = 5e-4 / (1 - 0.9**step)
    correction = (1 - 0.999**step) ** -0.5
    parameters = jax.tree.map(
        lambda p, m, v: p - rate * m / (jnp.sqrt(v) * correction + 1e-8), parameters, first, second
    )
    return parameters, first, second


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("configuration", help="CRITIC-dDIM-nBATCH, e.g. deranged-d20-n64")
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    critic, d, n = arguments.configuration.split("-")[:3]
    d, n = int(d[1:]), int(n[1:])
    key = jax.random.key(0)
    if critic == "separable":
        parameters = [initialise(k, [d, 256, 256, 32]) for k in jax.random.split(key)]
    else:
        parameters = initialise(key, [2 * d, 256, 256, 1])
    rho = (1 - jnp.exp(-4.0 / d)) ** 0.5  # 2 nats

    @jax.jit
    def step(state):
        parameters, first, second, count, key = state
        key, x_key, noise_key, pair_key = jax.random.split(key, 4)
        x = jax.random.normal(x_key, (n, d))
        y = rho * x + (1 - rho**2) ** 0.5 * jax.random.normal(noise_key, (n, d))
        partner = random_derangement(pair_key, n) if critic == "deranged" else None
        gradient = jax.grad(loss)(parameters, critic, x, y, partner)
        count = count + 1
        return (*adam(parameters, gradient, first, second, count), count, key)

    zeros = jax.tree.map(jnp.zeros_like, parameters)
    state = (parameters, zeros, zeros, jnp.float32(0), key)
    state = jax.block_until_ready(step(state))
    warm_up = time.perf_counter()
    while time.perf_counter() - warm_up < 0.2 * arguments.seconds:
        state = jax.block_until_ready(step(state))
    times = []
    begin = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < arguments.seconds:
        start = time.perf_counter()
        state = jax.block_until_ready(step(state))
        times.append((time.perf_counter() - start) * 1e3)
    print(json.dumps({"median_ms": statistics.median(times), "steps": len(times)}))


if __name__ == "__main__":
    main()
