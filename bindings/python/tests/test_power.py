"""Studies of power: the same as on the command line, and refusals in Python's words."""

from __future__ import annotations

import json
import subprocess

import fdime
import numpy as np
import pytest

QUICK = {"estimator": "copula", "tables": 60, "permutations": 99}


def test_the_numbers_are_those_of_the_command_line(command):
    study = fdime.power_analysis("rho=0.4", dim=(2, 1), **QUICK)
    line = "power --mi rho=0.4 --dim 2+1 --estimator copula --tables 60 --permutations 99 --json"
    printed = subprocess.run([command, *line.split()], capture_output=True, check=True).stdout
    record = json.loads(printed)
    assert record.pop("command") == "power"
    for key in ("needed", "sizes", "plan", "columns"):
        assert record[key] == study.to_dict()[key], key
    assert study.rows == record["needed"]["rows"]
    low, high = study.rows_interval
    assert low < study.rows < high
    assert sum(size.tables for size in study.sizes) == 60
    assert str(study).startswith(f"about {study.rows} rows")
    assert "bits" in study.summary(bits=True)


def test_given_rows_have_no_answer_but_a_power():
    study = fdime.power_analysis(0.2, rows=np.int64(200).item(), **QUICK)
    assert study.rows is None and study.typical is None
    assert [size.rows for size in study.sizes] == [200]
    assert study.sizes[0].power > 0.9
    again = fdime.power_analysis(0.2, rows=[200, 50], **QUICK)
    assert again.sizes[1] == study.sizes[0]


def test_dimensions_are_written_as_on_the_command_line():
    options = {**QUICK, "rows": 100, "tables": 20}
    expected = fdime.power_analysis(0.2, dim=(2, 1), **options)
    assert fdime.power_analysis(0.2, dim="2+1", **options).sizes == expected.sizes
    assert fdime.power_analysis(0.2, dim="2", **options).dim == (2, 2)
    for dim in ("1+2+3", (1, 2, 3)):
        with pytest.raises(ValueError, match=r"dim=.*: give one number, or two such as \(5, 2\)"):
            fdime.power_analysis(0.2, dim=dim, **options)


def test_a_figure_is_drawn():
    pytest.importorskip("matplotlib").use("Agg")
    for options in ({}, {"rows": [60, 200]}):
        figure = fdime.power_analysis("rho=0.4", **QUICK, **options).plot()
        assert [axes.get_xlabel() for axes in figure.axes] == ["rows", "rows"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mi": 0.0}, "mi=0.*there is no dependence to detect; use rows"),
        ({"mi": 0.1, "power": 1.0}, "power=1: must be above alpha"),
        ({"mi": 0.1, "alpha": 0.0}, "alpha=0: must be above 0"),
        ({"mi": 0.1, "rows": 5}, "rows=5: must be at least 20"),
        ({"mi": 0.1, "pairs": 3, "dim": 2}, "at least 3[+]3, the columns that share information"),
        ({"mi": 0.1, "scenario": "gausian"}, "did you mean 'gaussian'"),
        ({"mi": 0.1, "estimator": "ksg"}, "cannot be used with a study of power"),
        ({"mi": "much"}, "much"),
    ],
)
def test_bad_input_is_refused_in_the_words_of_python(options, message):
    with pytest.raises(ValueError, match=message):
        fdime.power_analysis(**options)
    with pytest.raises(TypeError, match="tables='many': give a whole number"):
        fdime.power_analysis(0.1, tables="many")
