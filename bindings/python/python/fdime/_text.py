"""Words and tables of summaries."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

#: An estimate as plain data, or another row of a table.
Record = dict[str, Any]

#: Columns of tables with names, which are aligned on the left.
_NAMES = {"x", "y", "from", "to", "feature", "estimator", "reliability"}


def wrapped(paragraphs: list[tuple[bool, str]]) -> str:
    """Wrap paragraphs, each with whether it is an item of a list, to lines of 80 characters."""

    def filled(item: bool, text: str) -> str:
        first, rest = ("  - ", "    ") if item else ("", "  ")
        return textwrap.fill(
            text,
            80,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )

    return "\n".join(filled(item, text) for item, text in paragraphs)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, ``1 pair`` or ``2 pairs``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def p_value_text(p: float) -> str:
    """Return a p-value with three decimals, ``p = 0.012`` or ``p < 0.001``."""
    return "p < 0.001" if p < 0.0005 else f"p = {p:.3f}"


def p_value_cell(p: float | None) -> str:
    """Return a p-value for a table, ``0.012`` or ``<0.001``."""
    if p is None:
        return ""
    return "<0.001" if p < 0.0005 else f"{p:.3f}"


def estimate_cells(record: Record, key: str) -> dict[str, str]:
    """Return the cells of a table for an estimate, whose value has this key."""
    return {
        "nats": f"{record[key]:.3f}",
        "95% interval": f"{record['ci_low']:.3f} to {record['ci_high']:.3f}",
        "p adj": p_value_cell(record["p_adjusted"]),
        "reliability": record["reliability"],
    }


def table_lines(rows: Sequence[dict[str, str]], max_rows: int | None = 20) -> list[str]:
    """Return the lines of a table after an empty line, and how many rows are left out."""
    if not rows:
        return []
    shown = [{name: name for name in rows[0]}, *rows[:max_rows]]
    shown = [{k: v if len(v) <= 20 else v[:19] + "…" for k, v in row.items()} for row in shown]
    width = {name: max(len(row[name]) for row in shown) for name in rows[0]}
    lines = [""]
    for row in shown:
        cells = (v.ljust(width[k]) if k in _NAMES else v.rjust(width[k]) for k, v in row.items())
        lines.append(" ".join(cells).rstrip())
    more = len(rows) + 1 - len(shown)
    return [*lines, f"… and {more} more"] if more else lines


def strongest_first(records: Iterable[Record], key: str) -> list[Record]:
    """Return the records by descending estimate, then by p-value; last those with a problem."""

    def strength(record: Record) -> tuple[float, float]:
        if record[key] is None:
            return 1.0, 1.0
        return -float(record[key]), 1.0 if record["p_value"] is None else record["p_value"]

    return sorted(records, key=strength)


def failures(records: Sequence[Record], key: str) -> list[str]:
    """Return a line that counts the records without an estimate, if there are any."""
    problems = [record["problem"] for record in records if record[key] is None]
    return [f"{len(problems)} without an estimate: {problems[0]}"] if problems else []


def doubts(records: Iterable[Record], noun: str) -> list[str]:
    """Return lines on how many records are not reliable, and why, if there are any."""
    limited = [record for record in records if record["reliability"] in ("fair", "doubtful")]
    if not limited:
        return []
    codes = Counter(code for record in limited for code in (record["reasons"] or "").split())
    reasons = ", ".join(f"{code} ({count})" for code, count in codes.most_common())
    text = f"fair or doubtful: {counted(len(limited), noun)}; reasons: {reasons}"
    return ["", wrapped([(False, text)])]
