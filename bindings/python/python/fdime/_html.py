"""The card that notebooks show for an estimate."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._result import Estimate

_COLOURS = {"good": "#16a34a", "fair": "#ca8a04", "doubtful": "#ef4444"}


def card(result: Estimate) -> str:
    """Return the estimate, its interval, test, verdict and folds as HTML."""
    low, high = result.interval
    reliability = result.verdict.reliability
    reasons = "".join(f"<li>{html.escape(r.text)}</li>" for r in result.verdict.reasons)
    dropped = f", {result.n_dropped} dropped" if result.n_dropped else ""
    return (
        '<div style="font:14px system-ui,sans-serif;border:1px solid #8884;border-radius:8px;'
        'padding:10px 14px;max-width:560px;line-height:1.5">'
        f'<div style="opacity:.75">I({_names(result.x)}; {_names(result.y)})</div>'
        f'<div><b style="font-size:24px">{result.mi:.3f} nats</b> '
        f"({result.bits:.3f} bits), 95% interval {low:.3f} to {high:.3f}</div>"
        f"{_interval(result)}<div>{_test(result)}; reliability: "
        f'<b style="color:{_COLOURS[reliability]}">{reliability}</b>'
        f"</div>{f'<ul>{reasons}</ul>' if reasons else ''}"
        f'<div style="opacity:.75">{result.n_rows} rows{dropped}; estimator '
        f"{html.escape(result.estimator)}; {result.seconds:.1f} s{_chain(result)}</div>"
        f"{_folds(result)}</div>"
    )


def _names(columns: tuple[str, ...]) -> str:
    return html.escape(", ".join(columns[:4]) + (", ..." if len(columns) > 4 else ""))


def _test(result: Estimate) -> str:
    if result.p_value is None:
        return "no test of independence"
    found = "dependent" if result.p_value <= 0.05 else "no dependence found"
    return f"{found} (p = {result.p_value:.3g})"


def _interval(result: Estimate) -> str:
    """Draw the interval on a line from 0 to 10% above its upper end."""
    low, high = result.interval
    scale = 220.0 / max(high * 1.1, 1e-9)
    return (
        '<svg width="240" height="22" role="img" aria-label="the interval and the estimate">'
        '<line x1="10" x2="230" y1="11" y2="11" stroke="#8888"/>'
        f'<line x1="{10 + low * scale:.1f}" x2="{10 + high * scale:.1f}" y1="11" y2="11" '
        'stroke="#3b82f6" stroke-width="6" stroke-linecap="round"/>'
        f'<circle cx="{10 + result.mi * scale:.1f}" cy="11" r="5" fill="#f97316"/></svg>'
    )


def _chain(result: Estimate) -> str:
    if result.chain is None:
        return ""
    blocks, side = len(result.chain.blocks), result.chain.side
    return f"; chain over {blocks} blocks of {side}, without it {result.chain.direct:.3f} nats"


def _folds(result: Estimate) -> str:
    rows = "".join(
        f"<tr><td>{k + 1}</td><td>{fold.test_rows}</td><td>{fold.mi:.3f}</td>"
        f"<td>{fold.train_mi:.3f}</td></tr>"
        for k, fold in enumerate(result.folds)
    )
    if not rows:
        return ""
    return (
        "<details><summary>folds</summary><table><tr><th>fold</th><th>rows</th>"
        f"<th>held out</th><th>training</th></tr>{rows}</table></details>"
    )
