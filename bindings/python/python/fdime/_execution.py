"""Where a call computes."""

from __future__ import annotations

from typing import Any, Literal, get_args

from ._arguments import as_text, check_count

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["tf32", "fp32", "bf16"]


def execution(device: str, precision: str | None, threads: int = 1) -> dict[str, Any]:
    """Return the device, its precision and the number of threads, for the native part."""
    return {
        "device": as_text(device, "device", get_args(Device)),
        "precision": (
            None if precision is None else as_text(precision, "precision", get_args(Precision))
        ),
        "threads": check_count(threads, "threads"),
    }
