"""All pairs of columns or groups of columns."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._blocks import Divergence, as_json, estimator_name, tell_notice
from ._estimate import Drop, Effort, estimate_plan, reading
from ._inputs import as_table, selectors
from ._pair import Pair, estimate_pair
from ._parallel import in_parallel
from ._progress import Watch, watching

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Matrix:
    """Mutual information between all pairs, in nats."""

    #: The columns or groups, in the order of the rows and columns of the arrays.
    names: tuple[str, ...]
    #: One entry for each pair, with ``x, y, mi_nats, ci_low, ci_high, p_value, p_adjusted, n_rows,
    #: reliability, problem``.
    pairs: list[dict[str, Any]] = field(repr=False)
    #: The plan of every estimate.
    plan: dict[str, Any] = field(repr=False)

    def _square(self, key: str) -> NDArray[np.float64]:
        square = np.full((len(self.names), len(self.names)), np.nan)
        place = {name: k for k, name in enumerate(self.names)}
        for pair in self.pairs:
            i, j = place[pair["x"]], place[pair["y"]]
            value = pair[key]
            square[i, j] = square[j, i] = np.nan if value is None else value
        return square

    @property
    def mi(self) -> NDArray[np.float64]:
        """The estimates as a symmetric array; NaN on the diagonal and where there is none."""
        return self._square("mi_nats")

    @property
    def p_value(self) -> NDArray[np.float64]:
        """The p-values of the tests of independence."""
        return self._square("p_value")

    @property
    def p_adjusted(self) -> NDArray[np.float64]:
        """The same, adjusted for the number of pairs (Benjamini-Hochberg)."""
        return self._square("p_adjusted")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {"names": list(self.names), "results": self.pairs, "plan": self.plan}

    def to_pandas(self) -> Any:
        """The pairs as a pandas DataFrame, the strongest first."""
        import pandas

        return pandas.DataFrame(self._sorted())

    def _sorted(self) -> list[dict[str, Any]]:
        def strength(pair: dict[str, Any]) -> float:
            return -1.0 if pair["mi_nats"] is None else float(pair["mi_nats"])

        return sorted(self.pairs, key=strength, reverse=True)

    def __str__(self) -> str:
        dependent = sum(1 for p in self.pairs if (p["p_adjusted"] or 1.0) <= 0.05)
        lines = [
            f"{len(self.pairs)} pairs, {dependent} dependent at a false discovery rate of 5%",
            f"{'x':20} {'y':20} {'nats':>7} {'95% interval':>16} {'p adj':>7}",
        ]
        for pair in self._sorted()[:10]:
            if pair["mi_nats"] is None:
                lines.append(f"{pair['x']:20.20} {pair['y']:20.20} {pair['problem']}")
                continue
            interval = f"{pair['ci_low']:.3f} to {pair['ci_high']:.3f}"
            adjusted = "" if pair["p_adjusted"] is None else f"{pair['p_adjusted']:.3f}"
            line = f"{pair['x']:20.20} {pair['y']:20.20} {pair['mi_nats']:7.3f} {interval:>16}"
            lines.append(f"{line} {adjusted:>7}")
        return "\n".join(lines)

    __repr__ = __str__

    def plot(self, figure: Figure | None = None) -> Figure:
        """A heat map, with matplotlib."""
        from ._plot import matrix

        return matrix(self, figure)


def mutual_information_matrix(
    data: Any,
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    estimator: str | Divergence = "auto",
    effort: Effort = "quick",
    discrete: str | list[str] | None = None,
    numeric: str | list[str] | None = None,
    missing: Drop = "error",
    folds: int = 5,
    permutations: int = 999,
    seed: int = 0,
    n_jobs: int | None = None,
    journal: str | os.PathLike[str] | None = None,
    progress: bool | Watch | None = None,
) -> Matrix:
    """The mutual information between all pairs of columns, with p-values adjusted for their number.

    A pair without an answer (a column that never changes, say) has its ``problem`` in the result, and
    costs the others nothing.

    Parameters
    ----------
    data
        A table: pandas, polars, pyarrow, or a NumPy array.
    groups
        Names of groups and the columns in each, to compare groups in place of columns.
    estimator, effort, discrete, numeric, missing, folds, permutations, seed
        As for :func:`mutual_information`; ``missing='drop'`` leaves out, for each pair, the rows in
        which one of its own values is missing.
    n_jobs
        How many pairs at once; None means all cores. A backend chosen with
        ``joblib.parallel_config`` is used, so pairs can run on a Dask or Ray cluster.
    journal
        A file that finished pairs are added to, a line each, by one run at a time. The same call
        after a kill does not run them again.
    progress
        As for :func:`mutual_information`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> a, c = rng.normal(size=(2, 400))
    >>> table = np.column_stack([a, a + 0.5 * rng.normal(size=400), c])
    >>> matrix = mutual_information_matrix(table, estimator="copula")
    >>> matrix.names
    ('x1', 'x2', 'x3')
    >>> bool(matrix.mi[0, 1] > 0.5 > matrix.mi[0, 2])
    True
    """
    table = as_table(data, "x").typed(
        selectors(discrete, "discrete"), selectors(numeric, "numeric")
    )
    members = _members(table, groups)
    names = [name for name, _ in members]
    plan = estimate_plan(
        estimator=estimator, effort=effort, folds=folds, permutations=permutations, seed=seed
    )
    text = as_json(plan, "plan")
    _native.check_plan(text, table.rows)
    tell_notice(estimator_name(estimator))
    options = reading(None, None, missing, "error")
    if missing == "error":
        table.check_complete()
    sides = [(name, table.select(columns)) for name, columns in members]
    heading = {
        "data": table.fingerprint,
        "groups": [[name, columns] for name, columns in members],
        "plan": plan,
        "missing": missing,
        "version": _native.__version__,
    }
    places = list(combinations(range(len(sides)), 2))
    found: dict[tuple[int, int], dict[str, Any]] = {}
    with _Journal(journal, heading) as log, watching(progress) as watch:
        found.update(log.known(places))
        missing_places = [place for place in places if place not in found]
        jobs = [Pair(sides[i], sides[j], text, options) for i, j in missing_places]
        for index, pair in in_parallel(estimate_pair, jobs, n_jobs):
            found[missing_places[index]] = pair
            log.add(missing_places[index], pair)
            if watch is not None:
                watch(len(found) / len(places))
    pairs = json.loads(_native.adjust(json.dumps([found[place] for place in places])))
    return Matrix(tuple(names), pairs, plan)


def _members(
    table: _native.Table, groups: Mapping[str, Sequence[str]] | None
) -> list[tuple[str, list[int]]]:
    """Names and columns of what is compared."""
    if groups is None:
        members = [(name, [k]) for k, name in enumerate(table.names)]
    else:
        if not isinstance(groups, Mapping):
            raise TypeError("groups: give a dictionary of names and lists of columns")
        members = []
        for name, columns in groups.items():
            if isinstance(columns, str):
                raise TypeError(f"groups: '{name}' is a text; give a list of columns")
            members.append((str(name), [_place(table, str(column)) for column in columns]))
    if len(members) < 2:
        raise ValueError("there is one column or group; at least two are needed to compare")
    seen: dict[int, str] = {}
    for k, (name, positions) in enumerate(members):
        if any(name == other for other, _ in members[:k]):
            raise ValueError(f"two columns or groups are called '{name}'; names must differ")
        if not positions:
            raise ValueError(f"groups: '{name}' has no columns")
        for column in positions:
            if column in seen:
                both = f"'{seen[column]}' and '{name}'"
                raise ValueError(f"groups: column '{table.names[column]}' is in both {both}")
            seen[column] = name
    return members


def _place(table: _native.Table, column: str) -> int:
    """Where a column is."""
    found = table.names.count(column)
    if found == 1:
        return table.names.index(column)
    if found > 1:
        raise ValueError(f"groups: {found} columns are called '{column}'; names must differ")
    known = ", ".join(f"'{name}'" for name in table.names[:12])
    raise ValueError(f"groups: there is no column '{column}'; the columns are {known}")


class _Journal:
    """Finished pairs on disk, one line each behind a heading."""

    def __init__(self, path: str | os.PathLike[str] | None, heading: dict[str, Any]) -> None:
        self._path = None if path is None else Path(path)
        self._heading = json.loads(json.dumps(heading))
        self._known: dict[tuple[int, int], dict[str, Any]] = {}
        self._file: BinaryIO | None = None

    def __enter__(self) -> _Journal:
        if self._path is None:
            return self
        file = self._path.open("a+b")
        try:
            self._begin(file)
        except BaseException:
            file.close()
            raise
        self._file = file
        return self

    def _begin(self, file: BinaryIO) -> None:
        """Takes in what is whole, and cuts off the line that a kill has left behind it."""
        name = f"journal={str(self._path)!r}"
        _lock(file, f"{name}: another run is writing to it; name another file")
        file.seek(0)
        heading = json.dumps(self._heading).encode() + b"\n"
        whole = 0
        for number, line in enumerate(file.readlines()):
            entry = _parsed(line) if line.endswith(b"\n") else None
            begun = number == 0 and heading.startswith(line)  # a kill in the first write
            if number == 0 and entry != self._heading and not begun:
                raise ValueError(
                    f"{name}: it is of other data, settings or another version; name another "
                    "file, or delete this one"
                )
            pair = _pair_of(entry) if number > 0 else ()
            if pair is None or entry is None:
                break
            if pair:
                self._known[pair] = entry["found"]
            whole += len(line)
        file.truncate(whole)
        if whole == 0:
            file.write(heading)
        file.flush()

    def known(self, places: list[tuple[int, int]]) -> dict[tuple[int, int], dict[str, Any]]:
        return {place: self._known[place] for place in places if place in self._known}

    def add(self, pair: tuple[int, int], found: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps({"pair": list(pair), "found": found}).encode() + b"\n")
            self._file.flush()

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def _lock(file: BinaryIO, refusal: str) -> None:
    """Holds the file until it is closed, where the system has such locks."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ValueError(refusal) from None


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:  # not JSON, or not even text
        return None


def _pair_of(entry: Any) -> tuple[int, int] | None:
    match entry:
        case {"pair": [int(i), int(j)], "found": dict()}:
            return i, j
    return None
