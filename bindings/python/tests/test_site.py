"""The documentation site: it builds, its links lead somewhere, and the commands and programs that it shows run.

Every fenced block `sh` and `python` of README.md and of the pages in docs/ is executed, in order, each page in a folder of
its own with `examples/` and the tables below. The python blocks of a page share their variables; those that start with
`>>>` are doctests. A block that cannot be executed here has a comment `<!-- not run: REASON -->` on the line before it, with
one of REASONS; its `fdime` commands must still name subcommands and flags that exist, and so must those in the text.

To save time, commands and functions run with other settings than they are shown with: see CHEAPER and
CHEAPER_IN_PYTHON.
"""

from __future__ import annotations

import contextlib
import doctest
import functools
import gzip
import html.parser
import importlib.util
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import fdime
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

REASONS = {
    "builds from source",
    "installs software",
    "needs a GPU",
    "needs PyTorch",
    "needs the images of MNIST",
    "takes long",
}

#: README.md has no comments: what its blocks contain decides.
UNMARKED = {
    "cargo run": "builds from source",
    "./test": "builds from source",
    "pip install": "installs software",
    "reproduce all": "takes long",
    "--device cuda": "needs a GPU",
}

#: Settings that estimates run with in this test, whatever the page shows.
QUICK = {"--effort": "quick", "--permutations": "99", "--folds": "2"}
#: All flags of a command that are replaced, or added if the page does not have them.
CHEAPER = {
    "estimate": {**QUICK, "--sample-rows": "300"},
    "matrix": {**QUICK, "--sample-rows": "300"},
    "select": {**QUICK, "--sample-rows": "200", "-k": "2"},
    "capacity": {**QUICK, "--sample-rows": "300"},
    "lag": {**QUICK, "--estimator": "copula"},
    "transfer": {**QUICK, "--estimator": "copula"},
    "suite": {**QUICK, "--rows": "300"},
    "staircase": {"--iterations": "8", "--last": "4", "--batch": "16", "--hidden": "16,16"},
    "bench": {"--seconds": "0.05"},
    "power": {"--estimator": "copula", "--tables": "200", "--permutations": "99"},
}

#: The same for functions of the package; k, the number of features to select, is at most 2.
QUICK_IN_PYTHON = {"effort": "quick", "permutations": 99, "folds": 2}
CHEAPER_IN_PYTHON = {
    "mutual_information": QUICK_IN_PYTHON,
    "mutual_information_matrix": QUICK_IN_PYTHON,
    "mutual_info_features": {"effort": "quick", "permutations": 99},
    "select_features": QUICK_IN_PYTHON,
    "channel_capacity": QUICK_IN_PYTHON,
    "lagged_information": {"estimator": "copula", "permutations": 99},
    "lagged_information_pairs": {"estimator": "copula", "permutations": 99},
    "transfer_entropy": {"estimator": "copula", "permutations": 99},
    "transfer_network": {"estimator": "copula", "permutations": 99},
    "power_analysis": {"estimator": "copula", "permutations": 99, "tables": 200},
    "staircase": {"iterations": 8, "last": 4, "batch": 16, "hidden": [16, 16]},
    "MutualInformation": QUICK_IN_PYTHON,
    "MutualInformationSelector": QUICK_IN_PYTHON,
}

#: A command that replaces these flags and calls the real one.
SHIM = """#!{python}
import os, sys
cheaper = {cheaper!r}
arguments = sys.argv[1:]
flags = cheaper.get(arguments[0] if arguments else "", {{}})
if any(word.startswith("--blocks") for word in arguments):
    flags = {{flag: value for flag, value in flags.items() if flag != "--sample-rows"}}
if "--help" not in arguments:
    for flag, value in flags.items():
        names = (flag, "-n") if flag == "--rows" else (flag,)
        for name in names:
            if name in arguments:
                arguments[arguments.index(name) + 1] = value
                break
        else:
            arguments += [flag, value]
os.execv({command!r}, [{command!r}, *arguments])
"""


def make_tables(folder: Path) -> None:
    """Write the files that pages use without making them: small tables with the columns that their commands name.

    | file | content |
    | --- | --- |
    | data.csv, old.csv, new.csv | numbers a to h, sensor_1, sensor_2, age, weight, dose, response, r1, r2, x1, x2, y; classes label, outcome, target |
    | data.parquet, big.csv.gz | the same |
    | series.csv | rows in the order of time: price, volume, x, y, r1, r2, rain, station_1, station_2 |
    | genes.parquet | gene_1 to gene_6 |
    | embeddings.npy, labels.npy | 5 numbers and a class for each row |
    | examples/ | the folder of the repository; of digits.csv.gz the first 800 rows |
    """
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n = 300
    table = pandas.DataFrame(rng.normal(size=(n, 8)), columns=list("abcdefgh"))
    table["sensor_1"], table["sensor_2"] = table["a"] + rng.normal(size=n), rng.normal(size=n)
    table["age"], table["weight"] = rng.normal(50, 9, n).round(1), rng.normal(70, 9, n).round(1)
    table["dose"] = rng.integers(0, 4, n)
    table["response"] = table["dose"] + rng.normal(size=n)
    table["r1"], table["r2"] = table["response"] + rng.normal(size=n), rng.normal(size=n)
    table["x1"], table["x2"] = rng.normal(size=(2, n))
    table["y"] = table["x1"] + rng.normal(size=n)
    table["temp"] = table["a"] + rng.normal(size=n)
    table["label"] = np.where(table["a"] > 0, "high", "low")
    table["target"] = np.where(table["b"] + table["c"] > 0, "yes", "no")
    table["outcome"] = np.where(table["a"] + rng.normal(size=n) > 0, "good", "bad")
    for name in ("data.csv", "old.csv", "new.csv"):
        table.to_csv(folder / name, index=False)
    table.to_parquet(folder / "data.parquet")
    with gzip.open(folder / "big.csv.gz", "wt") as file:
        table.to_csv(file, index=False)
    steps = rng.normal(size=(500, 9))
    for t in range(1, len(steps)):
        steps[t] += 0.5 * steps[t - 1]
    names = ["price", "volume", "x", "y", "r1", "r2", "rain", "station_1", "station_2"]
    pandas.DataFrame(steps, columns=names).to_csv(folder / "series.csv", index=False)
    genes = rng.normal(size=(n, 6))
    genes[:, 1] += genes[:, 0]
    columns = [f"gene_{i}" for i in range(1, 7)]
    pandas.DataFrame(genes, columns=columns).to_parquet(folder / "genes.parquet")
    np.save(folder / "embeddings.npy", table[list("abcde")].to_numpy())
    np.save(folder / "labels.npy", table["dose"].to_numpy())
    (folder / "docs").mkdir()
    shutil.copytree(ROOT / "examples", folder / "examples")
    digits = pandas.read_csv(folder / "examples/digits.csv.gz", nrows=800)
    digits.to_csv(folder / "examples/digits.csv.gz", index=False)


def starting_variables() -> dict[str, object]:
    """Return the variables that python blocks use without setting them: two series, features, a target, tables."""
    pandas = pytest.importorskip("pandas")
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 300))
    features = rng.normal(size=(300, 10))
    series = pandas.DataFrame(rng.normal(size=(300, 3)), columns=["r1", "r2", "r3"])
    return {
        "x": x,
        "y": x + z + rng.normal(size=300),
        "z": z,
        "X": features,
        "frame": series,
        "source": x,
        "target": np.roll(x, 1) + rng.normal(size=300),
        "classifier": linear_model.LinearRegression(),
        "dose": rng.integers(0, 3, 300),
        "responses": rng.normal(size=(300, 2)),
        "fdime": fdime,
    }


@dataclass
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str | None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page in a shell's language or in Python."""
    blocks: list[Block] = []
    before, opened = "", None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = re.match(r"(\s*)(`{3,})(\S*)\s*$", line)
        if opened is None and fence and fence[3]:
            opened = (number, fence[3], fence[1], [], before)
        elif opened and fence and not fence[3]:
            start, language, indent, lines, above = opened
            text = textwrap.dedent("\n".join(lines)) + "\n"
            if language in ("sh", "python"):
                mark = re.fullmatch(r"\s*<!-- not run: (.*) -->\s*", above)
                reason = mark[1] if mark else None
                if reason == "needs PyTorch" and importlib.util.find_spec("torch"):
                    reason = None
                if reason is None and page.name == "README.md":
                    found = (UNMARKED[part] for part in UNMARKED if part in text)
                    reason = next(found, None)
                blocks.append(Block(page, start, language, text, reason))
            opened = None
        elif opened:
            opened[3].append(line)
        before = line if line.strip() else before
    return blocks


BLOCKS = {page: blocks_of(page) for page in PAGES}


@pytest.fixture(scope="session")
def tables(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    make_tables(folder)
    return folder


@pytest.fixture
def shell(command, tmp_path):
    """Return a function that runs a block in the shell, with cheaper settings."""
    commands = tmp_path / "bin"
    commands.mkdir()
    shim = commands / "fdime"
    shim.write_text(SHIM.format(python=sys.executable, cheaper=CHEAPER, command=command))
    shim.chmod(0o755)
    paths = (str(commands), str(Path(sys.executable).parent), os.environ["PATH"])
    environment = {**os.environ, "PATH": os.pathsep.join(paths), "MPLBACKEND": "Agg"}

    def run(block: Block, folder: Path) -> None:
        program = ["bash", "-euo", "pipefail", "-c", block.text]
        done = subprocess.run(
            program, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{block.place}\n{block.text}\n{done.stdout}{done.stderr}"

    return run


def run_python(block: Block, variables: dict[str, object]) -> None:
    """Execute a block; one with `>>>` is a doctest."""
    if ">>>" in block.text:
        test = doctest.DocTestParser().get_doctest(
            block.text, variables, block.place, str(block.page), block.line
        )
        runner = doctest.DocTestRunner(verbose=False)
        runner.run(test, clear_globs=False)
        variables.update(test.globs)
        assert runner.failures == 0, block.place
        return
    try:
        exec(compile(block.text, block.place, "exec"), variables)
    except Exception as error:
        raise AssertionError(f"{block.place}: {error!r}\n{block.text}") from error


def with_settings(function, settings):
    @functools.wraps(function, updated=())
    def call(*arguments, **options):
        fewer = {"k": min(options["k"], 2)} if "k" in options else {}
        return function(*arguments, **{**options, **settings, **fewer})

    return call


RAN: Counter[str] = Counter()
SECONDS: dict[str, float] = {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run(page, shell, tables, tmp_path, monkeypatch):
    blocks = BLOCKS[page]
    for block in blocks:
        assert block.not_run in {None, *REASONS}, f"{block.place}: {block.not_run}"
        RAN[block.not_run or f"ran ({block.language})"] += 1
    runs = [block for block in blocks if block.not_run is None]
    if not runs:
        return
    folder = tmp_path / "page"
    shutil.copytree(tables, folder)
    monkeypatch.chdir(folder)
    for name, settings in CHEAPER_IN_PYTHON.items():
        monkeypatch.setattr(fdime, name, with_settings(getattr(fdime, name), settings))
    with contextlib.suppress(ImportError):
        import matplotlib

        matplotlib.use("Agg")
    started = time.monotonic()
    variables = starting_variables()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in runs:
            if block.language == "sh":
                shell(block, folder)
            else:
                run_python(block, variables)
    SECONDS[str(page.relative_to(ROOT))] = time.monotonic() - started


def test_blocks_are_counted(capsys):
    """Print what ran and what did not; it is part of the report of a release."""
    if not RAN:
        pytest.skip("the blocks were not run")
    slowest = sorted(SECONDS.items(), key=lambda entry: -entry[1])[:5]
    with capsys.disabled():
        print("\nblocks of the documentation: " + "; ".join(f"{n} {why}" for why, n in RAN.items()))
        print("slowest pages: " + ", ".join(f"{page} {seconds:.1f} s" for page, seconds in slowest))
    executed = sum(n for why, n in RAN.items() if why.startswith("ran"))
    assert executed > sum(RAN.values()) / 2


@functools.cache
def help_of(command: str, *words: str) -> str:
    done = subprocess.run([command, *words, "--help"], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def check_flags(command: str, line: str, place: str) -> None:
    """Check that a command line has a subcommand and flags that exist."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # a quotation of a part of a command
        return
    for end, word in enumerate(words):
        if word in ("|", ">", "&&", ";"):
            words = words[:end]
            break
    subcommands = re.findall(r"^  ([a-z-]+) ", help_of(command).split("Commands:\n")[1], re.M)
    if len(words) < 2 or words[1].startswith("-") or words[1].isupper() or words[1] == "...":
        return
    assert words[1] in subcommands, f"{place}: there is no 'fdime {words[1]}'"
    known = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", help_of(command, words[1])))
    used = {word.split("=")[0] for word in words[2:] if re.match(r"--?[a-zA-Z]", word)}
    assert used <= known, f"{place}: fdime {words[1]} has no {', '.join(sorted(used - known))}"


def test_commands_that_are_only_shown_exist(command):
    checked = 0
    for page, blocks in BLOCKS.items():
        for block in blocks:
            if block.language == "sh" and block.not_run:
                for line in block.text.replace("\\\n", " ").splitlines():
                    for found in re.findall(r"\bfdime (?!-)[a-z].*", line):
                        check_flags(command, found, block.place)
                        checked += 1
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for found in re.findall(r"(?<!`)`(fdime [a-z][^`]*)`", line):
                check_flags(command, found, f"{page.relative_to(ROOT)}:{number}")
                checked += 1
    assert checked > 20


# The built site


@pytest.fixture(scope="session")
def site(command, tmp_path_factory) -> Path:
    """The site, built without warnings; a link in the sources without a target is one."""
    for module in ("sphinx", "myst_parser", "furo", "latex2mathml"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("site")
    builder = (sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q")
    environment = {**os.environ, "FDIME_COMMAND": command}
    done = subprocess.run(
        [*builder, str(DOCS), str(folder)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Page(html.parser.HTMLParser):
    """The targets and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.resources: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attributes if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        elif "href" in values and values.get("rel") != "canonical":
            self.resources.add(values["href"])
        if "src" in values:
            self.resources.add(values["src"])


def is_elsewhere(target: str) -> bool:
    return re.match(r"[a-z]+:|//", target) is not None


def test_the_site_builds_with_every_name_and_command(site):
    page = (site / "python_reference.html").read_text()
    for name in ("mutual_information", "torch.MutualInformationLoss"):
        assert f'id="fdime.{name}"' in page
    commands = (site / "COMMANDS.html").read_text()
    assert 'id="estimate"' in commands and "Mutual information between all pairs" in commands


def test_the_reference_of_python_reads_docstrings_as_they_are_meant(site):
    """A colon is not read as a type, a sentence not as a parameter, and no private field is shown."""
    page = (site / "python_reference.html").read_text()
    text = html.unescape(re.sub(r"<[^>]*>", "", page))
    assert "Type:" not in text
    for private in ("_json", "_summaries", "_record", "_network", "_has_rows"):
        assert not re.search(rf"\b{private}\b", text), private
    for name in set(fdime.__all__) - {"__version__"}:
        function = getattr(fdime, name)
        if not inspect.isfunction(function):
            continue
        (section,) = re.findall(rf'id="fdime.{name}">(.*?)(?=<dl class="py|</section>)', page, re.S)
        listed = re.findall(r"<li><p><strong>(\**\w+)</strong>.*? – (.*?)</p>", section, re.S)
        listed = {name.lstrip("*"): description for name, description in listed}
        if len(inspect.signature(function).parameters) > 1:
            assert set(listed) == set(inspect.signature(function).parameters), name
        own = [one for one in listed.values() if not one.startswith("As for ")]
        assert len(set(own)) == len(own), f"{name}: two parameters have the same text"


def test_links_and_images_of_the_site_exist(site):
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    wrong = []
    for path, page in pages.items():
        for target in page.links | page.resources:
            if target.startswith("data:") or is_elsewhere(target):
                continue
            file, _, anchor = unquote(target.split("?")[0]).partition("#")
            goal = (path.parent / file).resolve() if file else path
            if not goal.is_file():
                wrong.append(f"{path.name}: {target}: no such file")
            elif anchor and goal in pages and anchor not in pages[goal].anchors:
                wrong.append(f"{path.name}: {target}: no such anchor")
    assert not wrong, "\n".join(sorted(wrong))
    assert len(pages) > 20


def test_the_site_needs_no_network(site):
    for path in site.rglob("*.html"):
        remote = {target for target in Page(path.read_text()).resources if is_elsewhere(target)}
        assert {target for target in remote if not target.startswith("data:")} == set(), path.name


def test_formulas_are_rendered(site):
    page = (site / "METHOD.html").read_text()
    assert page.count("<math") > 20
    assert "$" not in re.sub(r"<script.*?</script>|<(code|pre).*?</\1>", "", page, flags=re.S)
