"""Data for several tests, and the command line tool to compare with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def gaussian() -> tuple[np.ndarray, np.ndarray]:
    """400 rows, 2 + 1 columns, 0.5 ln 2 nats."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    return x, x[:, 0] + rng.normal(size=400)


@pytest.fixture(scope="session")
def command() -> str:
    """Return the command line tool: FDIME_COMMAND, or a build of this checkout."""
    builds = [ROOT / "target" / profile / "fdime" for profile in ("debug", "release")]
    candidates = [os.environ.get("FDIME_COMMAND"), *builds]
    for candidate in candidates:
        if candidate and shutil.which(str(candidate)):
            return str(candidate)
    pytest.skip("the command line tool is not built: set FDIME_COMMAND to compare with it")


@pytest.fixture
def apply_command(command, tmp_path):
    """Return a function that runs `fdime apply` with a folder of critics on new rows."""

    def apply(folder: Path, x: np.ndarray, y: np.ndarray, names=("x1", "x2", "y")) -> dict:
        table, header = np.column_stack([x, y]), ",".join(names)
        np.savetxt(tmp_path / "new.csv", table, delimiter=",", header=header, comments="")
        line = [command, "apply", folder, tmp_path / "new.csv", "--json"]
        return json.loads(subprocess.run(line, capture_output=True, check=True).stdout)

    return apply
