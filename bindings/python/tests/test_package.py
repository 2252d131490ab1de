"""The installed package: its size, types, dependencies and documentation."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import fdime
import pytest

PROJECT = Path(__file__).resolve().parents[1]


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=PROJECT, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_numpy_is_the_only_dependency():
    required = [r for r in importlib.metadata.requires("fdime") or [] if "extra ==" not in r]
    assert [re.split("[<>=]", requirement)[0] for requirement in required] == ["numpy"]
    program = (
        "import sys; known = set(sys.modules); import fdime;"
        "new = {name.partition('.')[0] for name in set(sys.modules) - known};"
        "print(sorted(name for name in new if name not in sys.stdlib_module_names))"
    )
    assert run(sys.executable, "-c", program).strip() == "['fdime', 'numpy']"


def test_the_wheel_is_small_and_fits_all_python_versions():
    wheel = os.environ.get("FDIME_WHEEL")
    if wheel is None:
        pytest.skip("FDIME_WHEEL does not name the wheel that is installed; ./test sets it")
    assert "cp310-abi3" in wheel
    assert Path(wheel).stat().st_size < 15_000_000


def test_the_package_and_its_stubs_pass_mypy(tmp_path):
    """The stubs of the native part match the compiled module."""
    pytest.importorskip("mypy")
    run(
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "pyproject.toml",
        "--cache-dir",
        tmp_path,
        "-p",
        "fdime",
    )
    run(sys.executable, "-m", "mypy.stubtest", "fdime._native", "--ignore-disjoint-bases")
    assert (Path(fdime.__file__).parent / "py.typed").exists()


def test_mypy_finds_wrong_calls(tmp_path):
    pytest.importorskip("mypy")
    right = tmp_path / "right.py"
    right.write_text(
        "import fdime, numpy as np\n"
        "result = fdime.mutual_information(np.ones(30), [1.0] * 30, effort='quick')\n"
        "low: float = result.interval[0]\n"
        "scores = fdime.mutual_info_features([[1.0]], [1.0])\n"
        "both = fdime.mutual_info_features([[1.0]], [1.0], p_values=True)[1]\n"
    )
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import fdime\nfdime.mutual_information([1.0], [2.0], effort='huge').m\n")
    options = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    run(*options, right)
    refused = subprocess.run([*options, wrong], capture_output=True, text=True, cwd=PROJECT)
    assert refused.returncode == 1
    assert "incompatible type \"Literal['huge']\"" in refused.stdout
    assert 'has no attribute "m"' in refused.stdout


def test_all_public_names_are_documented():
    reference = (PROJECT / "docs/api.rst").read_text()
    for name in set(fdime.__all__) - {"__version__"}:
        assert getattr(fdime, name).__doc__, name
        assert f"fdime.{name}\n" in reference, name


def test_notebooks_show_figures_once_and_keep_finished_bars():
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    cells = [
        "import fdime, numpy as np\n"
        "fdime._progress._ProgressBar._DELAY = 0.0\n"
        "data = np.random.default_rng(0).normal(size=(100, 3))\n"
        "matrix = fdime.mutual_information_matrix(data, estimator='copula')",
        "figure = matrix.plot()\nfigure",
        "figure",
        "matrix.plot();",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown = [
        [output["data"] for output in cell["outputs"] if "data" in output]
        for cell in notebook.cells
    ]
    assert [sum("image/png" in data for data in outputs) for outputs in shown] == [0, 1, 1, 1]
    (bar,) = shown[0]
    assert bar["text/plain"].startswith("█" * 24 + " 100%") and "left" not in bar["text/plain"]


def test_the_notebook_runs():
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(PROJECT / "docs/tour.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown = [str(cell.get("outputs")) for cell in notebook.cells if cell.cell_type == "code"]
    assert any("text/html" in outputs and " nats</b>" in outputs for outputs in shown)
    assert sum("image/png" in outputs for outputs in shown) == 3
    if importlib.util.find_spec("torch") is None:
        assert "PyTorch is not installed" in shown[-1]
    else:  # the truth is 0.80 nats; the critic trains for a few seconds
        kept = re.search(r"information kept: (\S+) nats", shown[-1])
        assert kept and 0.5 < float(kept[1]) < 1.1, shown[-1]
