"""The JSON of commands and of results agrees with the schemas that the command prints."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import fdime
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
QUICK = "--permutations 99 --estimator copula"
REQUESTS = {
    "estimate": f"estimate pairs.csv {QUICK}",
    "estimate with critics": "estimate pairs.csv --effort quick --permutations 99",
    "estimate with categories": "estimate doses.csv --x dose --y r1 --discrete dose --effort quick",
    "conditional estimate": f"estimate common_cause.csv --x x --y y --given z {QUICK}",
    "chain": f"estimate pairs.csv --chain 2 {QUICK}",
    "matrix": f"matrix pairs.csv {QUICK} -o /dev/null",
    "select": f"select pairs.csv --y y1 -k 2 {QUICK}",
    "lag": f"lag series.csv --x news --y change --time hour --lags 6..8 {QUICK}",
    "transfer": f"transfer regions.csv --columns r* --time second --history 1 {QUICK}",
    "capacity": "capacity doses.csv --input dose --output r1 --effort quick",
    "power": f"power --mi rho=0.4 --tables 40 {QUICK}",
    "suite": f"suite bmi --tasks normal-1x1 -n 200 {QUICK}",
}


def schema(command: str, name: str) -> dict:
    printed = subprocess.run([command, "schema", name], capture_output=True, check=True).stdout
    return json.loads(printed)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_json_of_commands_is_valid(command, name):
    jsonschema = pytest.importorskip("jsonschema")
    words = REQUESTS[name].split()
    done = subprocess.run(
        [command, *words, "--json"], capture_output=True, cwd=ROOT / "examples", text=True
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["command"] == words[0]
    validator = jsonschema.Draft202012Validator(schema(command, words[0]))
    validator.validate(record)
    # A schema that everything satisfies would be useless.
    for broken in ({}, {**record, "version": 3}):
        assert not validator.is_valid(broken)


def test_the_plain_data_of_results_is_valid_and_can_be_reported(command, tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    result = fdime.mutual_information(x, x + rng.normal(size=300), estimator="copula")
    record = result.to_dict()
    jsonschema.validate({**record, "command": "estimate"}, schema(command, "estimate"))
    path = tmp_path / "run.json"
    path.write_text(json.dumps(record))
    reported = subprocess.run([command, "report", path], capture_output=True, check=True).stdout
    assert reported.decode().split() == str(result).split()
