"""All pairs of columns or groups of columns."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._arguments import as_json, explain_names, selector_list
from ._blocks import Divergence
from ._estimate import Effort, MissingOrConstant, announced_plan, reading_options
from ._execution import Device, Precision, execution
from ._inputs import as_table
from ._journal import open_journal, run_unfinished
from ._pair import Pair, estimate_pair
from ._parallel import concurrent_jobs
from ._progress import ProgressCallback, progress_callback
from ._result import grid, saved_record
from ._text import counted, doubts, estimate_cells, failures, strongest_first, table_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Matrix:
    """Mutual information between pairs of columns or groups, in nats."""

    #: The names of the columns of the arrays.
    names: tuple[str, ...]
    #: The names of their rows; the same as ``names`` if all were compared with each other.
    rows: tuple[str, ...]
    #: One dictionary for each pair, with ``x, y, mi_nats, ci_low, ci_high, p_value, p_adjusted, n_rows,
    #: reliability, reasons, problem``.
    pairs: list[dict[str, Any]] = field(repr=False)
    #: The plan of every estimate.
    plan: dict[str, Any] = field(repr=False)
    #: The duration in seconds.
    seconds: float = field(repr=False)
    _has_rows: bool = field(repr=False)

    def _array(self, key: str) -> NDArray[np.float64]:
        columns_first = grid(self.pairs, key, ("x", "y"), self.names, self.rows).T
        rows_first = grid(self.pairs, key, ("x", "y"), self.rows, self.names)
        return np.where(np.isnan(rows_first), columns_first, rows_first)

    @property
    def mi(self) -> NDArray[np.float64]:
        """The estimates as an array; NaN for a column with itself and for pairs with a problem."""
        return self._array("mi_nats")

    @property
    def p_value(self) -> NDArray[np.float64]:
        """The p-values of the tests of independence."""
        return self._array("p_value")

    @property
    def p_adjusted(self) -> NDArray[np.float64]:
        """The p-values, adjusted for the number of pairs (Benjamini-Hochberg)."""
        return self._array("p_adjusted")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, as ``fdime matrix --json`` prints it; ``fdime report`` reads it."""
        fields = {"results": self.pairs, "names": list(self.names), "plan": self.plan}
        if self._has_rows:
            fields["rows"] = list(self.rows)
        return saved_record("matrix", fields, self.seconds)

    def to_pandas(self) -> Any:
        """Return the pairs as a pandas DataFrame, strongest first."""
        import pandas

        return pandas.DataFrame(strongest_first(self.pairs, "mi_nats"))

    def __str__(self) -> str:
        dependent = sum(
            1 for p in self.pairs if p["p_adjusted"] is not None and p["p_adjusted"] <= 0.05
        )
        found = f"{dependent} dependent at a false discovery rate of 5%"
        if self.plan["method"] == "ksg":
            found = "ksg has no test of independence"
        rows = [
            {"x": pair["x"], "y": pair["y"], **estimate_cells(pair, "mi_nats")}
            for pair in strongest_first(self.pairs, "mi_nats")
            if pair["mi_nats"] is not None
        ]
        lines = [f"{counted(len(self.pairs), 'pair')}, {found}", *failures(self.pairs, "mi_nats")]
        return "\n".join([*lines, *table_lines(rows), *doubts(self.pairs, "pair")])

    __repr__ = __str__

    def plot(self, figure: Figure | Axes | None = None) -> Figure:
        """Draw a heat map with matplotlib, in a new figure, a given one or given axes."""
        from ._plot import plot_matrix

        return plot_matrix(self, figure)


@explain_names()
def mutual_information_matrix(
    data: Any,
    *,
    columns: str | list[str] | None = None,
    rows: str | list[str] | None = None,
    groups: Mapping[str, str | Sequence[Any]] | None = None,
    y: str | None = None,
    estimator: str | Divergence = "auto",
    effort: Effort = "quick",
    discrete: str | list[str] | None = None,
    numeric: str | list[str] | None = None,
    missing: MissingOrConstant = "drop",
    constant: MissingOrConstant = "error",
    blocks: bool | int | None = None,
    folds: int = 5,
    permutations: int = 999,
    seed: int = 0,
    device: Device = "auto",
    precision: Precision | None = None,
    n_jobs: int | None = None,
    journal: str | os.PathLike[str] | None = None,
    progress: bool | ProgressCallback | None = None,
) -> Matrix:
    """Estimate the mutual information of many pairs of columns, with adjusted p-values.

    All columns are compared with each other, or with those of ``rows``, or with ``y``.

    If a pair cannot be estimated, for example because a column is constant, its entry in the result
    has a ``problem``, and the others are estimated. Infinite values are refused at the start.

    Parameters
    ----------
    data
        A table: pandas, polars, pyarrow, or a NumPy array.
    columns
        The columns to compare; by default all. Selectors as for ``discrete``.
    rows
        Compare the columns only with these: the rows of the matrix. ``x`` of a pair is the column, and
        ``y`` the row.
    groups
        Names of groups and the columns in each, to compare groups instead of columns. Columns are
        given by a selector or a list of names.
    y
        The name of a column or group: compare the others only with it.
    estimator, effort, discrete, numeric, blocks, folds, seed, device, precision
        As for :func:`mutual_information`.
    permutations
        The permutations of each test. If there are many pairs, at least 40 per pair are used, up to
        20,000: otherwise no adjusted p-value could be small. A test ends after 999 if its p-value is
        then above 1%.
    missing
        ``'drop'`` leaves out, for each pair, the rows with a missing value in its columns; ``'error'``
        refuses them.
    constant
        ``'drop'`` to leave out constant columns. By default their pairs have a ``problem``.
    n_jobs
        The number of pairs in parallel; None means all cores, or as many as the GPU needs. A
        backend chosen with ``joblib.parallel_config`` is used, so that pairs can run on a Dask or
        Ray cluster.
    journal
        A file to which each finished pair is appended. If the process is killed, the same call
        continues with the pairs that are not in the file. One process at a time can write to it.
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
    start = perf_counter()
    options = reading_options(None, None, missing, constant)
    table = as_table(data, "x").typed(
        selector_list(discrete, "discrete"), selector_list(numeric, "numeric")
    )
    dropped = {k for k, same in enumerate(table.constant) if same and constant == "drop"}
    sides = _sides(table, columns, rows, groups, y, dropped)
    members = list({name: (name, places) for side in sides for name, places in side}.values())
    names, row_names = (tuple(name for name, _ in side) for side in sides)
    is_square = rows is None and y is None
    pairs = _pairs([name for name, _ in members], None if is_square else (names, row_names))
    if not pairs:
        raise ValueError("there are no two different columns or groups to compare")
    table, members = _selected(table, members)
    plan = announced_plan(
        estimator=estimator,
        effort=effort,
        folds=folds,
        permutations=permutations,
        seed=seed,
        blocks=blocks,
        tests=len(pairs),
    )
    _native.check_plan(as_json(plan, "plan"), table.rows)
    if missing == "error":
        table.check_complete()
    work = _Work(table, members, pairs, plan, options, execution(device, precision))
    with (
        progress_callback(progress) as callback,
        open_journal(_native.Journal, journal, work.heading) as log,
    ):
        found = work.run(log, n_jobs, callback)
    return Matrix(names, row_names, found, plan, perf_counter() - start, not is_square)


@dataclass(frozen=True)
class _Work:
    """Everything that defines the pairs of a matrix."""

    table: _native.Table
    #: The name and the columns of each group.
    members: _Members
    #: The positions of the two groups of each pair.
    pairs: list[tuple[int, int]]
    plan: dict[str, Any]
    options: dict[str, Any]
    where: dict[str, Any]

    def heading(self) -> str:
        """Return what identifies the request: its journal continues no other one."""
        heading = {
            "groups": self.members,
            "data": self.table.fingerprint,
            "drop_missing": self.options["missing"] == "drop",
            "plan": self.plan,
            "version": _native.__version__,
        }
        return json.dumps(heading)

    def run(
        self,
        journal: _native.Journal | None,
        n_jobs: int | None,
        callback: ProgressCallback | None,
    ) -> list[dict[str, Any]]:
        """Estimate the pairs that are not in the journal. Return all pairs in order."""
        sides = [(name, self.table.select(columns)) for name, columns in self.members]
        plan = json.dumps(self.plan)

        def jobs(remaining: list[tuple[int, int]]) -> list[Pair]:
            return [Pair(sides[i], sides[j], plan, self.options, self.where) for i, j in remaining]

        concurrent = concurrent_jobs(self.where, self.table.rows)
        found = run_unfinished(
            self.pairs, estimate_pair, jobs, journal, n_jobs, concurrent, callback
        )
        text = json.dumps(found)
        adjusted: list[dict[str, Any]] = json.loads(_native.adjust_pairs(text))
        return adjusted


#: The name and the columns of each column or group.
_Members = list[tuple[str, list[int]]]


def _sides(
    table: _native.Table,
    columns: str | list[str] | None,
    rows: str | list[str] | None,
    groups: Mapping[str, str | Sequence[Any]] | None,
    y: str | None,
    dropped: set[int],
) -> tuple[_Members, _Members]:
    """Return the columns and the rows of the matrix."""
    if rows is not None and (groups is not None or y is not None):
        raise ValueError("rows cannot be used with groups or y")
    members = _members(table, columns, groups, dropped)
    if rows is not None:
        sides = members, _members(table, rows, None, dropped, "rows")
    elif y is not None:
        if groups is None and columns is not None and y in table.names:
            # The target need not be among the columns that are ranked.
            members += [m for m in _members(table, [y], None, dropped) if m not in members]
        sides = [m for m in members if m[0] != y], [m for m in members if m[0] == y]
        if not sides[1]:
            known = ", ".join(f"'{name}'" for name, _ in members[:12])
            raise ValueError(f"y: there is no column or group '{y}' to compare; there are {known}")
    else:
        sides = members, members
    _check_members(table, [*sides[0], *(m for m in sides[1] if m not in sides[0])])
    return sides


def _members(
    table: _native.Table,
    columns: str | list[str] | None,
    groups: Mapping[str, str | Sequence[Any]] | None,
    dropped: set[int],
    argument: str = "columns",
) -> _Members:
    """Return the name and the columns of each group; without groups, each column is one."""
    if groups is None:
        names = table.names
        chosen = range(len(names)) if columns is None else _positions(table, columns, argument)
        members = [(names[k], [k]) for k in chosen if k not in dropped]
    elif columns is not None:
        raise ValueError("columns cannot be used with groups: name the columns in the groups")
    elif isinstance(groups, Mapping):
        chosen_by = {str(name): _positions(table, g, "groups") for name, g in groups.items()}
        members = [(name, [k for k in g if k not in dropped]) for name, g in chosen_by.items()]
    else:
        raise TypeError("groups: give a dictionary of names and columns")
    return members


def _pairs(
    members: list[str], sides: tuple[tuple[str, ...], tuple[str, ...]] | None
) -> list[tuple[int, int]]:
    """Return the positions among the members of each column and each row, each pair once.

    Without sides, all members are compared with each other.
    """
    if sides is None:
        return list(combinations(range(len(members)), 2))
    columns, rows = sides
    index_of = {name: k for k, name in enumerate(members)}
    pairs: dict[frozenset[str], tuple[int, int]] = {}
    for row, column in product(rows, columns):
        if row != column:
            pairs.setdefault(frozenset((row, column)), (index_of[column], index_of[row]))
    return list(pairs.values())


def _positions(table: _native.Table, columns: str | Sequence[Any], argument: str) -> list[int]:
    """Return the positions of columns, given by a selector or a list of selectors and labels."""
    positions: list[int] = []
    for column in [columns] if isinstance(columns, str) else columns:
        # A label that is not a text, such as a number in pandas, is a name and not a position.
        if not isinstance(column, str) and str(column) not in table.names:
            known = ", ".join(f"'{name}'" for name in table.names[:12])
            raise ValueError(f"{argument}: there is no column {column!r}; the columns are {known}")
        positions += table.positions(str(column), argument)
    return list(dict.fromkeys(positions))


def _selected(table: _native.Table, members: _Members) -> tuple[_native.Table, _Members]:
    """Return the table of the members' columns, and the members with their positions in it."""
    columns = [k for _, group in members for k in group]
    index_of = {k: index for index, k in enumerate(columns)}
    return table.select(columns), [(name, [index_of[k] for k in group]) for name, group in members]


def _check_members(table: _native.Table, members: _Members) -> None:
    if len(members) < 2:
        raise ValueError("there is only one column or group; at least two are needed")
    owner: dict[int, str] = {}
    for k, (name, positions) in enumerate(members):
        if any(name == other for other, _ in members[:k]):
            raise ValueError(f"two columns or groups have the name '{name}'; names must be unique")
        if not positions:
            raise ValueError(f"groups: '{name}' has no column that varies")
        for column in positions:
            if column in owner:
                both = f"'{owner[column]}' and '{name}'"
                raise ValueError(f"groups: column '{table.names[column]}' is in both {both}")
            owner[column] = name
