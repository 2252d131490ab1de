"""Makes the first estimate of a new user, and checks it.

    python .github/scripts/try_wheel.py

Needs the wheel.
"""

import platform
import time

start = time.perf_counter()
import fdime  # noqa: E402

imported = time.perf_counter()
x, y = fdime.Scenario("gaussian", dim=2, level=1.0).sample(2000, seed=1)
result = fdime.mutual_information(x, y)
low, high = result.interval
seconds = time.perf_counter() - imported
print(
    f"{platform.platform()}, Python {platform.python_version()}: import {imported - start:.3f} s, "
    f"estimate {seconds:.1f} s, {result.mi:.4f} nats, {low:.4f} to {high:.4f}, truth 1"
)
assert low < 1 < high and abs(result.mi - 1) < 0.1
