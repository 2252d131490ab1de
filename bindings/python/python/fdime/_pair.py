"""One pair of many, as a job that can be sent anywhere: it carries its own columns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from . import _native
from ._parallel import end_if_asked


@dataclass(frozen=True)
class Pair:
    """Two named groups of columns, and how to compare them."""

    x: tuple[str, _native.Table]
    y: tuple[str, _native.Table]
    plan: str
    options: dict[str, Any]


def estimate_pair(job: Pair) -> dict[str, Any]:
    """What is found, or the ``problem`` with it, on one thread."""
    text = _native.pair(job.x, job.y, job.plan, job.options, 1, end_if_asked)
    found: dict[str, Any] = json.loads(text)
    return found
