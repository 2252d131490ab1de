"""All pairs of columns or groups of columns."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._estimate import Drop, Effort, estimate_plan, reading
from ._inputs import as_table, selectors
from ._parallel import in_parallel
from ._progress import Watch, watching

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Matrix:
    """Mutual information between all pairs, in nats."""

    #: The columns or groups, in the order of the rows and columns of the arrays.
    names: tuple[str, ...]
    #: One entry for each pair: ``x, y, mi_nats, ci_low, ci_high, p_value, p_adjusted, n_rows,
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


@dataclass(frozen=True)
class _Pair:
    x: tuple[str, _native.Table]
    y: tuple[str, _native.Table]
    plan: str
    options: dict[str, Any]


def _estimate_pair(job: _Pair) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_native.pair(job.x, job.y, job.plan, job.options, 1))
    return found


def mutual_information_matrix(
    data: Any,
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    estimator: str = "auto",
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
        A file that finished pairs are added to, a line each. The same call after a kill does not
        run them again.
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
    text = json.dumps(plan)
    options = reading(None, None, missing, "error")
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
        jobs = [_Pair(sides[i], sides[j], text, options) for i, j in missing_places]
        for index, pair in in_parallel(_estimate_pair, jobs, n_jobs):
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
        place = {name: k for k, name in enumerate(table.names)}
        for name, columns in groups.items():
            if isinstance(columns, str):
                raise TypeError(f"groups: '{name}' is a text; give a list of columns")
            unknown = [column for column in columns if column not in place]
            if unknown:
                known = ", ".join(f"'{column}'" for column in table.names[:12])
                raise ValueError(
                    f"groups: there is no column '{unknown[0]}'; the columns are {known}"
                )
        members = [(name, [place[c] for c in columns]) for name, columns in groups.items()]
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


class _Journal:
    """Finished pairs on disk, one line each behind a heading."""

    def __init__(self, path: str | os.PathLike[str] | None, heading: dict[str, Any]) -> None:
        self._path = None if path is None else Path(path)
        self._heading = json.loads(json.dumps(heading))
        self._known: dict[tuple[int, int], dict[str, Any]] = {}

    def __enter__(self) -> _Journal:
        if self._path is None:
            self._file = None
            return self
        lines = self._path.read_text("utf-8").splitlines() if self._path.exists() else []
        if lines and _parsed(lines[0]) != self._heading:
            raise ValueError(
                f"journal={str(self._path)!r}: it is of other data, settings or another version; "
                "name another file, or delete this one"
            )
        for line in lines[1:]:
            entry = _parsed(line)
            if entry is not None:  # the last line may be cut off by a kill
                self._known[entry["pair"][0], entry["pair"][1]] = entry["found"]
        # What is whole is written anew, so that nothing follows a line cut off in the middle.
        aside = self._path.with_name(self._path.name + ".new")
        with aside.open("w", encoding="utf-8") as file:
            file.write(json.dumps(self._heading) + "\n")
            for pair, found in self._known.items():
                file.write(_line(pair, found))
        aside.replace(self._path)
        self._file = self._path.open("a", encoding="utf-8")
        return self

    def known(
        self, places: list[tuple[int, int]]
    ) -> dict[tuple[int, int], dict[str, Any]]:
        return {place: self._known[place] for place in places if place in self._known}

    def add(self, pair: tuple[int, int], found: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(_line(pair, found))
            self._file.flush()

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def _line(pair: tuple[int, int], found: dict[str, Any]) -> str:
    return json.dumps({"pair": list(pair), "found": found}) + "\n"


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None
