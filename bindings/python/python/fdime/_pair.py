"""One pair of many, as a job that can run in another process: it holds its own columns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from . import _native
from ._parallel import raise_if_cancelled


@dataclass(frozen=True)
class Pair:
    """Two named groups of columns, and how to compare them."""

    x: tuple[str, _native.Table]
    y: tuple[str, _native.Table]
    plan: str
    options: dict[str, Any]
    where: dict[str, Any]


def estimate_pair(job: Pair) -> dict[str, Any]:
    """Return the estimate of a pair, or its ``problem``. It uses one thread."""
    text = _native.estimate_pair(job.x, job.y, job.plan, job.options, job.where, raise_if_cancelled)
    estimate: dict[str, Any] = json.loads(text)
    return estimate
