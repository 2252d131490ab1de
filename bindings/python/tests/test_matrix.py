"""Matrices of all pairs, on one machine and on clusters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time

import fdime
import numpy as np
import pytest
from fdime import _matrix

joblib = pytest.importorskip("joblib")


@pytest.fixture(scope="module")
def table():
    """a, b and d depend on each other; c is independent; e is constant."""
    rng = np.random.default_rng(0)
    a, c = rng.normal(size=(2, 300))
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(
        {"a": a, "b": a + 0.3 * rng.normal(size=300), "c": c, "d": a > 0, "e": 1.0}
    )


@pytest.fixture(scope="module")
def expected(table):
    return fdime.mutual_information_matrix(table)


def test_dependent_pairs_and_problems(table, expected):
    assert expected.names == ("a", "b", "c", "d", "e") and len(expected.pairs) == 10
    dependent = np.argwhere(
        np.triu(np.nan_to_num(expected.p_adjusted, nan=1.0) < 0.05) & ~np.eye(5, dtype=bool)
    )
    assert [tuple(pair) for pair in dependent] == [(0, 1), (0, 3), (1, 3)]
    assert np.array_equal(expected.mi, expected.mi.T, equal_nan=True)
    assert np.isnan(expected.mi[4]).all()
    problems = [pair["problem"] for pair in expected.pairs if pair["y"] == "e"]
    assert len(problems) == 4 and all("same value in every row" in text for text in problems)
    lines = str(expected).splitlines()
    assert lines[0] == "10 pairs, 3 dependent at a false discovery rate of 5%"
    assert lines[1].startswith("4 without an estimate: ") and "'e' has the same value" in lines[1]
    assert lines[3].split()[-1] == "reliability" and len(lines[4:10]) == 6
    assert all(line.split()[-1] in ("good", "fair", "doubtful") for line in lines[4:10])
    assert len(expected.to_pandas()) == 10
    assert json.loads(json.dumps(expected.to_dict()))["names"] == list(expected.names)


def test_a_pair_equals_a_single_estimate(table, expected):
    one = fdime.mutual_information(table["a"], table["b"], effort="quick")
    assert expected.mi[0, 1] == one.mi


def test_long_and_short_summaries(table):
    many = np.random.default_rng(0).normal(size=(40, 8))
    lines = str(fdime.mutual_information_matrix(many, estimator="copula")).splitlines()
    assert lines[0].startswith("28 pairs, ") and "… and 8 more" in lines
    pair = fdime.mutual_information_matrix(table[["a", "b"]], estimator="copula")
    assert str(pair).startswith("1 pair, 1 dependent")
    pair = fdime.mutual_information_matrix(table[["a", "b"]], estimator="ksg")
    assert str(pair).startswith("1 pair, ksg has no test of independence")


def test_groups(table):
    matrix = fdime.mutual_information_matrix(
        table, groups={"left": ["a", "c"], "right": ["b"]}, estimator="copula"
    )
    assert matrix.names == ("left", "right") and matrix.mi[0, 1] > 0.8


def test_plot(expected, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    expected.plot().savefig(tmp_path / "matrix.png")
    assert (tmp_path / "matrix.png").stat().st_size > 5_000


def test_plots_in_given_axes(expected, table):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2)
    assert expected.plot(right) is figure
    assert not left.images and len(right.images) == 1
    a, b = table["a"], table["b"]
    fdime.mutual_information(a, b, estimator="ksg").plot(left)
    assert left.get_title().startswith("I(x; y) = ") and len(left.patches) == 50
    with pytest.raises(ValueError, match="this plot has 2 panels; give a figure instead of axes"):
        fdime.mutual_information(a, b, estimator="copula").plot(left)
    with pytest.raises(TypeError, match="'left' is neither a figure nor axes of matplotlib"):
        expected.plot("left")
    upper, _ = plt.figure().subfigures(2)
    assert expected.plot(upper) is upper


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing", "sequential"])
def test_joblib_backends_give_the_same_result(table, expected, backend):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert fdime.mutual_information_matrix(table).pairs == expected.pairs


@pytest.mark.skipif(joblib.cpu_count() < 2, reason="there is one core")
def test_a_backend_uses_all_cores_by_default(table, monkeypatch):
    threads = set()
    monkeypatch.setattr(
        _matrix, "estimate_pair", lambda job: threads.add(threading.get_ident()) or estimate(job)
    )
    with joblib.parallel_config(backend="threading"):
        fdime.mutual_information_matrix(table)
    assert len(threads) > 1


def test_staircases_run_on_backends():
    options = dict(dim=1, levels=[1], iterations=60, hidden=[16, 16], runs=3, last=20, device="cpu")
    here = fdime.staircase(["kl-dime", "mine"], **options)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        there = fdime.staircase(["kl-dime", "mine"], **options)
    assert there.summary == here.summary
    pandas = pytest.importorskip("pandas")
    assert isinstance(here.to_pandas(), pandas.DataFrame)
    assert list(here.to_pandas()["estimator"]) == ["kl-dime", "mine"]
    assert repr(here).startswith(
        "3 runs of 2 estimators, 60 iterations for each level; the last 20"
    )
    assert [line.split()[0] for line in str(here).splitlines()[-2:]] == ["kl-dime", "mine"]
    for name in here.estimators:
        assert np.array_equal(there.estimates[name], here.estimates[name])


def test_a_journal_continues_after_a_kill(table, expected, tmp_path, monkeypatch):
    journal = tmp_path / "pairs.jsonl"
    whole = fdime.mutual_information_matrix(table, journal=journal)
    assert whole.pairs == expected.pairs
    lines = journal.read_text().splitlines()
    assert len(lines) == 11
    # A kill leaves some lines, and half of one.
    journal.write_text("\n".join(lines[:5]) + "\n" + lines[5][:20])
    done = []
    monkeypatch.setattr(_matrix, "estimate_pair", lambda job: done.append(job) or estimate(job))
    assert fdime.mutual_information_matrix(table, journal=journal, n_jobs=1).pairs == expected.pairs
    assert len(done) == 6
    assert len(journal.read_text().splitlines()) == 11
    with pytest.raises(ValueError, match="other data, other settings or another version"):
        fdime.mutual_information_matrix(table, journal=journal, seed=1)
    with pytest.raises(ValueError, match="other data, other settings or another version"):
        fdime.mutual_information_matrix(table.assign(a=table["b"]), journal=journal)
    # A kill in the first write leaves half a heading.
    journal.write_text(lines[0][:30])
    assert fdime.mutual_information_matrix(table, journal=journal).pairs == expected.pairs


def test_damaged_lines_of_a_journal_are_skipped_and_not_removed(table, tmp_path):
    journal = tmp_path / "pairs.jsonl"
    expected = fdime.mutual_information_matrix(table, journal=journal, estimator="copula")
    lines = journal.read_bytes().splitlines(keepends=True)
    for damage in (b"{}\n", b"3\n", b"\xff\xfe\n"):
        content = b"".join(lines[:9]) + damage
        journal.write_bytes(content)
        again = fdime.mutual_information_matrix(table, journal=journal, estimator="copula")
        assert again.pairs == expected.pairs
        assert journal.read_bytes().startswith(content)


def test_other_files_are_refused_and_not_changed(table, tmp_path):
    for content in (b'{"a": 1}', b"a,b\n1,2\n", b"notes\n", b"\xff"):
        file = tmp_path / "mine"
        file.write_bytes(content)
        with pytest.raises(ValueError, match="mine: it (belongs|is not)"):
            fdime.mutual_information_matrix(table, journal=file)
        assert file.read_bytes() == content


def test_the_command_line_continues_a_journal_of_python(table, command, tmp_path):
    """Both front ends read and write the same file, and give the same pairs."""
    numbers = table[["a", "b", "c"]]
    numbers.to_csv(tmp_path / "table.csv", index=False)
    journal = tmp_path / "mi.json.unfinished"
    options = dict(estimator="copula", missing="drop")
    matrix = fdime.mutual_information_matrix(numbers, journal=journal, **options)
    content = journal.read_bytes()
    line = [command, "matrix", tmp_path / "table.csv", "-o", tmp_path / "mi.json", "--resume"]
    subprocess.run([*line, "--estimator", "copula"], check=True, capture_output=True)
    assert json.loads((tmp_path / "mi.json").read_text())["results"] == matrix.pairs
    # It accepts the journal's heading, and refuses it with other settings.
    journal.write_bytes(content)
    refused = subprocess.run([*line, "--estimator", "cca"], capture_output=True, text=True)
    assert refused.returncode != 0 and "other settings" in refused.stderr


def test_columns_and_constant_as_on_the_command_line(table, expected):
    chosen = fdime.mutual_information_matrix(table, columns="a:c", estimator="copula")
    assert chosen.names == ("a", "b", "c")
    chosen = fdime.mutual_information_matrix(table, columns=["!c", "c"], constant="drop")
    assert sorted(chosen.names) == ["a", "b", "c", "d"]
    dropped = fdime.mutual_information_matrix(table, constant="drop")
    assert dropped.names == expected.names[:4] and np.array_equal(
        dropped.mi, expected.mi[:4, :4], equal_nan=True
    )
    groups = {"left": "a,c", "right": ["b", "e"]}
    grouped = fdime.mutual_information_matrix(table, groups=groups, constant="drop")
    assert grouped.mi[0, 1] > 0.8
    with pytest.raises(ValueError, match="'right' has no column that varies"):
        fdime.mutual_information_matrix(
            table, groups={"left": ["a"], "right": ["e"]}, constant="drop"
        )
    with pytest.raises(ValueError, match="columns cannot be used with groups"):
        fdime.mutual_information_matrix(table, columns="a", groups=groups)


def test_rows_and_a_target_as_on_the_command_line(table, command, tmp_path):
    numbers = table[["a", "b", "c"]]
    numbers.to_csv(tmp_path / "table.csv", index=False)
    line = [command, "matrix", tmp_path / "table.csv", "-o", tmp_path / "mi.json", "--json"]
    for options in [
        {"rows": "a"},
        {"columns": "b,c", "rows": "a,b"},
        {"columns": "a,b", "rows": "a,b"},
        {"y": "c"},
    ]:
        matrix = fdime.mutual_information_matrix(numbers, estimator="copula", **options)
        flags = [f"--{name}={value}" for name, value in options.items()]
        done = subprocess.run(
            [*line, "--estimator=copula", *flags], check=True, capture_output=True
        )
        theirs = json.loads(done.stdout)
        assert theirs["results"] == matrix.pairs
        assert theirs["names"] == list(matrix.names) and theirs["rows"] == list(matrix.rows)
        assert matrix.mi.shape == (len(matrix.rows), len(matrix.names))
    for options, message in [
        ({"rows": "a", "y": "b"}, "rows cannot be used with groups or y"),
        ({"columns": "a", "rows": "a"}, "at least two"),
        ({"columns": "a,b", "rows": []}, "no two different columns"),
        ({"y": "nothing"}, "y: there is no column or group 'nothing'"),
    ]:
        with pytest.raises(ValueError, match=message):
            fdime.mutual_information_matrix(numbers, **options)


def test_a_journal_needs_its_folder(table, tmp_path):
    """And no journal is left behind if another argument is invalid."""
    numbers, missing = table[["a", "b"]].to_numpy(), tmp_path / "nowhere" / "pairs.jsonl"
    for call in (
        lambda: fdime.mutual_information_matrix(numbers, journal=missing),
        lambda: fdime.transfer_network(numbers, journal=missing),
        lambda: fdime.lagged_information_pairs(numbers, numbers, journal=missing),
        lambda: fdime.staircase("kl-dime", log=missing),
    ):
        with pytest.raises(FileNotFoundError, match="there is no folder .*nowhere"):
            call()
    journal = tmp_path / "pairs.jsonl"
    with pytest.raises(TypeError, match="progress=3"):
        fdime.mutual_information_matrix(numbers, journal=journal, progress=3)
    assert not journal.exists()


def test_a_journal_has_one_writer(table, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    journal = tmp_path / "pairs.jsonl"
    with journal.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="another process is writing to it"):
            fdime.mutual_information_matrix(table, journal=journal)


def test_columns_with_equal_names_are_refused(gaussian):
    pandas = pytest.importorskip("pandas")
    twice = pandas.DataFrame(np.column_stack([gaussian[0], gaussian[1]]), columns=["a", "a", "b"])
    with pytest.raises(ValueError, match="2 columns are called 'a'"):
        fdime.mutual_information_matrix(twice, groups={"p": ["a"], "q": ["b"]})
    numbered = pandas.DataFrame(gaussian[0]).assign(y=gaussian[1])
    matrix = fdime.mutual_information_matrix(
        numbered, groups={"p": [0, 1], "q": ["y"]}, estimator="copula"
    )
    assert matrix.mi[0, 1] > 0.1


estimate = _matrix.estimate_pair


def _slow_pair(job, folder):
    """Estimate a pair slowly, and leave files that name the process."""
    name = f"{job.x[0]}-{job.y[0]}"
    (folder / f"{name}.{os.getpid()}.begun").touch()
    time.sleep(0.4)
    found = estimate(job)
    (folder / f"{name}.{os.getpid()}.done").touch()
    return found


def test_a_dask_cluster_that_loses_a_worker(tmp_path, monkeypatch):
    """One of two worker processes is killed while it estimates a pair: the result is the same, and
    the journal has each pair once."""
    distributed = pytest.importorskip("distributed")
    import functools

    rng = np.random.default_rng(1)
    data = rng.normal(size=(200, 7))
    data[:, 1] += data[:, 0]
    expected = fdime.mutual_information_matrix(data, estimator="copula")
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setattr(_matrix, "estimate_pair", functools.partial(_slow_pair, folder=notes))
    journal = tmp_path / "pairs.jsonl"
    killed = []

    def kill_one(pids):
        """Kill a busy worker once both have begun and two pairs are done."""
        while True:
            begun = {f.name.rsplit(".", 1)[0] for f in notes.glob("*.begun")}
            done = {f.name.rsplit(".", 1)[0] for f in notes.glob("*.done")}
            at_work = [int(name.rsplit(".", 1)[1]) for name in begun - done]
            if len(done) >= 2 and at_work and len({n.rsplit(".", 1)[1] for n in begun}) == 2:
                os.kill(at_work[0], signal.SIGKILL)
                killed.append(at_work[0])
                return
            time.sleep(0.02)

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = set(client.run(os.getpid).values())
        assert len(pids) == 2 and os.getpid() not in pids
        killer = threading.Thread(target=kill_one, args=(pids,))
        killer.start()
        with joblib.parallel_config(backend="dask"):
            matrix = fdime.mutual_information_matrix(data, estimator="copula", journal=journal)
        killer.join(timeout=5)
    assert killed and killed[0] in pids
    assert matrix.pairs == expected.pairs and len(matrix.pairs) == 21
    entries = [tuple(json.loads(line)["pair"]) for line in journal.read_text().splitlines()[1:]]
    assert len(entries) == len(set(entries)) == 21
    workers = {f.name.split(".")[1] for f in notes.glob("*.done")}
    assert len(workers) >= 2, "both workers estimated pairs"
    # Another worker estimated the pair that the killed one had not finished.
    begun = {f.name.split(".")[0] for f in notes.glob(f"*.{killed[0]}.begun")}
    finished = {f.name.split(".")[0] for f in notes.glob(f"*.{killed[0]}.done")}
    lost = begun - finished
    assert lost
    for name in lost:
        assert [f for f in notes.glob(f"{name}.*.done") if str(killed[0]) not in f.name]
