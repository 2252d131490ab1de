//! The report of an estimate: one HTML file without links to other files.

use crate::flags::FLAGS;
use crate::plot::marks::{Bars, Dot, Line, Points, Rule};
use crate::plot::{self, Axis, Dash, Gradient, Ink, Key, Margins, Panel, Stroke, place_labels};
use crate::printable::printable;
use fdime::data::{Column, Values};
use fdime::estimate::{
    ChainFigures, Estimate, EstimateReport, GivenFigures, Reliability, format_p_value,
};
use fdime::train::CurvePoint;
use fdime::{Nats, counted};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The maximum number of rows that are drawn.
const MAX_POINTS: usize = 2000;
/// The maximum number of columns of x and of y that are considered for the scatter plot.
const MAX_COLUMNS: usize = 30;

const STYLE: &str = "\
:root{--back:#fff;--card:#f7f8fa;--text:#1f2430;--soft:#5b6472;--line:#e3e6eb;\
--good:#15803d;--fair:#a16207;--doubtful:#b91c1c}\
@media(prefers-color-scheme:dark){:root{--back:#14171c;--card:#1c2027;--text:#e5e7eb;\
--soft:#a3abb8;--line:#333a45;--good:#4ade80;--fair:#facc15;--doubtful:#f87171}}\
*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--text);\
font:15px/1.5 system-ui,sans-serif}main{max-width:1020px;margin:0 auto;padding:24px 20px 60px}\
h1{font-size:22px;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:16px;margin:0 0 6px}\
p{margin:4px 0}.soft{color:var(--soft)}.cards{display:grid;gap:16px;\
grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));margin-top:16px}\
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px 16px;\
min-width:0}.number{font-size:34px;font-weight:650}.good{color:var(--good)}.fair{color:var(--fair)}\
.doubtful{color:var(--doubtful)}table{border-collapse:collapse;width:100%;font-size:13px}\
th,td{text-align:left;padding:3px 8px 3px 0;border-bottom:1px solid var(--line)}\
td{overflow-wrap:anywhere}th{white-space:nowrap}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\
figure{margin:0}figure svg{width:100%;height:auto;display:block}\
details,.next{margin-top:12px}pre{overflow:auto;font-size:12px;background:var(--card);padding:10px;\
border:1px solid var(--line);border-radius:6px}ul{margin:6px 0;padding-left:20px}";

/// Returns the whole page.
pub fn render(title: &str, report: &EstimateReport) -> String {
    let estimate = report.estimate;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(plot::stylesheet())) (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    p.soft { (report.sides()) }
                    div.cards {
                        (card("Estimate", headline(report)))
                        (card("Reliability", verdict(estimate)))
                    }
                    (figures(report))
                    div.cards {
                        (card("Folds", folds(estimate)))
                        (card("Comparison", comparison(estimate)))
                    }
                    (footer(report))
                }
            }
        }
    };
    printable(&page.into_string())
}

fn figures(report: &EstimateReport) -> Markup {
    let estimate = report.estimate;
    let curves = || estimate.folds.iter().flat_map(|fold| &fold.members).map(|m| m.curve.len());
    html! {
        div.cards {
            @if let Some(given) = &estimate.given {
                (card("What z explains", given_figures(given, estimate)))
            }
            @if let Some(chain) = &estimate.chain {
                (card("Chain rule", chain_terms(chain)))
            }
            (card("Data, coloured by pointwise information", scatter_plot(report)))
            (card("Pointwise information", pointwise(estimate)))
            @if estimate.independence.is_some() {
                (card("Test of independence", independence_test(estimate)))
            }
            @if curves().any(|length| length > 1) {
                (card("Learning curves", learning_curves(estimate)))
            }
        }
    }
}

fn footer(report: &EstimateReport) -> Markup {
    let plan = serde_json::to_string_pretty(report.plan).unwrap_or_default();
    html! {
        details {
            summary { "The plan: everything that determines these numbers except the data" }
            pre { (plan) }
        }
        p.soft {
            "fdime " (env!("CARGO_PKG_VERSION")) ", " (format!("{:.1}", report.seconds))
            " s, seed " (report.plan.seed)
        }
    }
}

fn card(title: &str, body: Markup) -> Markup {
    html! { section.card { h2 { (title) } (body) } }
}

/// Returns a table of what the columns that are held fixed tell.
fn given_figures(given: &GivenFigures, estimate: &Estimate) -> Markup {
    let names: Vec<&str> = given.columns.iter().map(String::as_str).collect();
    let nats = |value: f64| format!("{value:.3} nats");
    let share = |share: f64| format!("{:.0}%", 100.0 * share);
    let rows = [
        ("I(x; y) without z", Some(nats(given.unconditional_nats.0))),
        ("I(x; y | z)", Some(nats(estimate.mi.0))),
        ("Variance of x that z predicts in held-out rows", given.explained_x.map(share)),
        ("Variance of y that z predicts in held-out rows", given.explained_y.map(share)),
        (
            "What x shares with z after its prediction is subtracted",
            Some(nats(given.remaining_nats.max(0.0))),
        ),
    ];
    html! {
        p { "z: " (names.join(", ")) }
        table {
            @for (name, value) in rows {
                @if let Some(value) = value { tr { td { (name) } td.n { (value) } } }
            }
        }
    }
}

/// The width of figures, and the height of the area that marks are drawn in.
const WIDTH: f64 = 460.0;
const AREA_HEIGHT: f64 = 208.0;
const MARGINS: Margins = Margins { left: 52.0, right: 12.0, top: 12.0, bottom: 40.0 };

fn panel(x: Axis, y: Axis) -> Panel {
    let mut panel = Panel::new("", x, y);
    panel.margins = MARGINS;
    panel
}

/// Returns a panel as a figure of the page; a screen reader reads out the label.
fn figure(label: &str, legend: &[Key], panel: &Panel) -> Markup {
    let height = AREA_HEIGHT + panel.margins.top + panel.margins.bottom;
    html! { figure { (plot::inline(panel, legend, label, (WIDTH, height))) } }
}

fn headline(report: &EstimateReport) -> Markup {
    let Estimate { mi, interval: (low, high), .. } = report.estimate;
    let dropped = match report.table.n_dropped {
        0 => String::new(),
        dropped => format!(" ({} with missing values left out)", counted(dropped, "row")),
    };
    let both = |nats: &Nats| format!("{:.3} nats ({:.3} bits)", nats.0, nats.bits());
    html! {
        p.number { (format!("{:.3} nats", mi.0)) }
        p { (format!("{:.3} bits; 95% interval {} to {}", mi.bits(), both(low), both(high))) }
        p { (report.dependence(false)) }
        p.soft {
            (counted(report.table.kept.len(), "row")) (dropped) "; estimator " (report.method())
        }
        @for note in report.notes(&FLAGS) {
            p.soft { "note: " (note) }
        }
    }
}

fn verdict(estimate: &Estimate) -> Markup {
    let verdict = &estimate.verdict;
    let meaning = match verdict.reliability {
        Reliability::Good if !verdict.reasons.is_empty() => "no serious problems found",
        Reliability::Good => "no problems found",
        Reliability::Fair => "usable, but read the warnings",
        Reliability::Doubtful => "do not rely on this estimate",
    };
    let reliability = verdict.reliability.to_string();
    html! {
        p.number class=(reliability) { (reliability) }
        p { (meaning) }
        ul {
            @for reason in &verdict.reasons {
                li { span class=(reason.limits_to.to_string()) { "●" } " " (reason.message.render(&FLAGS)) }
            }
        }
    }
}

/// Returns a histogram with room for labels above the bars.
fn histogram(values: &[f64], bins: usize, (low, high): (f64, f64), names: (&str, &str)) -> Panel {
    let margin = 0.05 * (high - low);
    let x = Axis::linear(names.0, (low - margin, high + margin));
    let bars = Bars::histogram(values, bins, x.range());
    let y = Axis::linear(names.1, (0.0, 1.18 * bars.max().max(1.0)));
    let mut panel = panel(x, y);
    panel.add(None, bars);
    panel
}

fn pointwise(estimate: &Estimate) -> Markup {
    let mut sorted: Vec<f64> = estimate.pointwise.clone();
    sorted.sort_by(f64::total_cmp);
    // A few extreme values, which count in the outermost bars, must not stretch the axis.
    let mut panel = histogram(&sorted, 60, central_range(&sorted, 0.002), ("nats", "rows"));
    panel.add(None, Rule::vertical(Stroke { ink: Ink::Truth, dash: Dash::Dashed }, 0.0, ""));
    let mean = sorted.iter().sum::<f64>() / sorted.len().max(1) as f64;
    panel.add(None, Rule::vertical(Stroke::solid(Ink::Series(1)), mean, "mean"));
    let negative = sorted.iter().filter(|value| **value < 0.0).count();
    let share = 100.0 * negative as f64 / sorted.len().max(1) as f64;
    html! {
        p.soft {
            "ln p(x,y)/(p(x)p(y)) of each row"
            @if !estimate.models.is_empty() { ", by a critic that was trained without it" }
            (format!("; {share:.0}% are negative."))
        }
        (figure("histogram of pointwise information", &[], &panel))
    }
}

fn independence_test(estimate: &Estimate) -> Markup {
    let Some(test) = &estimate.independence else { return html! {} };
    let range = plot::finite_range(test.null.iter().copied().chain([test.observed]));
    let mut panel = histogram(&test.null, 40, range, ("mean log ratio (nats)", "pairings"));
    panel.add(None, Rule::vertical(Stroke::solid(Ink::Series(1)), test.observed, "observed"));
    html! {
        p.soft {
            "Mean log ratio of " (test.null.len()) " random pairings of x and y, and of the data: \
             p = " (format_p_value(test.p_value)) "."
        }
        (figure("null distribution", &[], &panel))
    }
}

/// Returns the value of the training objective, or NaN if it was not computed, which leaves a gap
/// in the line.
fn training_value(point: &CurvePoint) -> f64 {
    point.train.unwrap_or(f64::NAN)
}

fn learning_curves(estimate: &Estimate) -> Markup {
    let members = estimate.folds.iter().flat_map(|fold| &fold.members);
    let curves: Vec<&Vec<CurvePoint>> =
        members.filter(|member| member.weight > 0.0).map(|member| &member.curve).collect();
    let points = || curves.iter().copied().flatten();
    let steps = points().map(|point| point.step).max().unwrap_or(1) as f64;
    let values = points().flat_map(|point| [training_value(point), point.validation]);
    let y = Axis::fitted("objective", values, false);
    let mut panel = panel(Axis::linear("training steps", (0.0, steps)), y);
    let (training, validation) = (Stroke::solid(Ink::Muted), Stroke::solid(Ink::Series(0)));
    let line = |stroke, curve: &[CurvePoint], value: fn(&CurvePoint) -> f64| {
        let points = curve.iter().map(|point| (point.step as f64, value(point))).collect();
        Line { stroke, points }
    };
    for curve in &curves {
        panel.add(None, line(training, curve, training_value));
        panel.add(None, line(validation, curve, |point| point.validation));
    }
    let legend = [Key::new(training, "training"), Key::new(validation, "validation")];
    html! {
        p.soft {
            "Two lines for each critic, whose parameters are those of the step with the highest \
             validation objective."
        }
        (figure("learning curves", &legend, &panel))
    }
}

/// Returns what each block of a chain adds, as bars and as a table.
fn chain_terms(chain: &ChainFigures) -> Markup {
    let blocks = chain.blocks.len();
    let largest = chain.terms.iter().map(|term| term.mi_nats).fold(0.0, f64::max);
    let y = Axis::linear("nats", (0.0, 1.1 * largest.max(0.01)));
    let labels = (1..=blocks).map(|block| format!("{}_{block}", chain.side)).collect();
    let mut panel = panel(Axis::categories("block", labels), y);
    let bars = |is_added: bool, ink: Ink, offset: f64| {
        let terms = chain.terms.iter().filter(move |term| term.is_added == is_added);
        let dots = terms.map(|term| Dot {
            hint: Some(format!("{}: {:.3} nats", term.term, term.mi_nats)),
            ..Dot::new(term.block as f64 - 1.0 + offset, term.mi_nats.max(0.0))
        });
        Bars { width: 0.36, ink, dots: dots.collect() }
    };
    let (added, subtracted) = (Ink::Series(0), Ink::Series(1));
    panel.add(None, bars(true, added, -0.19));
    panel.add(None, bars(false, subtracted, 0.19));
    let legend = [
        Key::new(Stroke::solid(added), "added"),
        Key::new(Stroke::solid(subtracted), "subtracted"),
    ];
    html! {
        p.soft {
            "Without a chain the estimate is " (format!("{:.3}", chain.direct_nats.0)) " nats. So much \
             information is easier to measure in parts: each block of " (chain.side) " adds what it \
             shares with the other side and the blocks before it, minus what it shares with those \
             blocks alone."
        }
        (figure("terms of the chain rule", &legend, &panel))
        table {
            tr { th { "term" } th.n { "nats" } th { "columns of the block" } }
            @for term in &chain.terms {
                tr {
                    td { (term.term) }
                    td.n { (format!("{}{:.3}", if term.is_added { "" } else { "\u{2212}" }, term.mi_nats.max(0.0))) }
                    td { @if term.is_added { (chain.blocks[term.block - 1].join(", ")) } }
                }
            }
        }
    }
}

fn folds(estimate: &Estimate) -> Markup {
    if estimate.folds.is_empty() {
        return html! { p.soft { "This method has no folds." } };
    }
    html! {
        table {
            tr {
                th { "fold" } th.n { "rows" } th.n { "held out" } th.n { "training" }
                th { "critics (weight, step)" }
            }
            @for (index, fold) in estimate.folds.iter().enumerate() {
                @let used = fold.members.iter().filter(|member| member.weight > 0.0);
                @let critics: Vec<String> = used
                    .map(|m| format!("{} ({:.2}, {})", m.recipe, m.weight, m.step)).collect();
                tr {
                    td { (index + 1) } td.n { (fold.rows.test) }
                    td.n { (format!("{:.3}", fold.mi_nats)) }
                    td.n { (format!("{:.3}", fold.train_mi_nats)) }
                    td {
                        @if estimate.chain.is_some() {
                            (counted(critics.len(), "critic")) " in all terms"
                        } @else {
                            (critics.join(", "))
                        }
                    }
                }
            }
        }
    }
}

fn comparison(estimate: &Estimate) -> Markup {
    let methods = [
        ("this estimate", Some(estimate.mi.0)),
        ("without the chain", estimate.chain.as_ref().map(|chain| chain.direct_nats.0)),
        ("lower bound from the same critics", estimate.separate_lower_bound().map(|mi| mi.0)),
        ("Gaussian copula", estimate.baselines.gaussian_copula_nats),
        ("KSG, nearest neighbours", estimate.baselines.ksg_nats),
    ];
    html! {
        table {
            tr { th { "method" } th.n { "nats" } }
            @for (name, value) in methods {
                @if let Some(value) = value {
                    tr { td { (name) } td.n { (format!("{value:.3}")) } }
                }
            }
        }
        @if !estimate.race.is_empty() {
            p.next {
                "Candidates, compared by their lower bound on validation rows (higher is better):"
            }
            table {
                tr { th { "critic" } th.n { "nats" } th {} }
                @for entry in &estimate.race {
                    tr {
                        td { (entry.recipe) } td.n { (format!("{:.4}", entry.validation)) }
                        td { @if entry.chosen { "chosen" } }
                    }
                }
            }
        }
    }
}

/// A column of the scatter plot.
#[derive(Clone, Copy)]
enum Side {
    X,
    Y,
}

/// A column and the coordinates of its rows.
struct Coordinates<'a> {
    column: &'a Column,
    side: Side,
    /// The place of each category on the axis; empty for numbers.
    places: Vec<usize>,
}

impl<'a> Coordinates<'a> {
    fn new(column: &'a Column, side: Side) -> Self {
        let places = match &column.values {
            Values::Continuous(_) => Vec::new(),
            Values::Discrete { labels, .. } => {
                let mut places = vec![0; labels.len()];
                for (place, label) in sorted_labels(labels).into_iter().enumerate() {
                    places[label] = place;
                }
                places
            }
        };
        Coordinates { column, side, places }
    }

    /// Returns the coordinate of a row; rows of a category are spread around its place.
    fn of(&self, row: usize) -> f64 {
        match &self.column.values {
            Values::Continuous(values) => values[row],
            Values::Discrete { codes, .. } => {
                let place = self.places.get(codes[row] as usize).map_or(f64::NAN, |p| *p as f64);
                place + 0.6 * jitter(row, self.side)
            }
        }
    }

    /// Returns the axis of these rows, which will have this length.
    fn axis(&self, rows: &[usize], length: f64) -> Axis {
        let name = &self.column.name;
        match &self.column.values {
            Values::Continuous(_) => {
                let mut values: Vec<f64> = rows.iter().map(|&row| self.of(row)).collect();
                values.sort_by(f64::total_cmp);
                // A few extreme values must not squeeze all others into a corner.
                let (low, high) = central_range(&values, 0.005);
                Axis::fitted(name, [low, high], false)
            }
            Values::Discrete { labels, .. } => {
                let names = sorted_labels(labels).into_iter().map(|label| labels[label].as_str());
                Axis::categories(name, place_labels(names, length, MAX_LABEL))
            }
        }
    }
}

/// The length of the longest name of a category on an axis, in characters.
const MAX_LABEL: usize = 14;

/// Returns the indices of labels in their order: numbers by value, other labels by text.
fn sorted_labels(labels: &[String]) -> Vec<usize> {
    let numbers: Vec<Option<f64>> = labels.iter().map(|label| label.parse().ok()).collect();
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by(|&a, &b| match (numbers[a], numbers[b]) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => labels[a].cmp(&labels[b]),
    });
    order
}

/// Returns a number between -1/2 and 1/2 that looks random. Those of the two sides are
/// independent, or points would lie on diagonals.
fn jitter(row: usize, side: Side) -> f64 {
    // The output function of SplitMix64.
    let mut bits = (2 * row as u64 + side as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    bits as f64 / u64::MAX as f64 - 0.5
}

/// Returns the correlation of the ranks of two columns over some rows.
fn rank_correlation(left: &Coordinates, right: &Coordinates, rows: &[usize]) -> f64 {
    let ranks = |coordinates: &Coordinates| -> Vec<f64> {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let keys: Vec<f64> = rows.iter().map(|&row| coordinates.of(row)).collect();
        order.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]));
        let mut ranks = vec![0.0; rows.len()];
        for (rank, index) in order.into_iter().enumerate() {
            ranks[index] = rank as f64 - (rows.len() as f64 - 1.0) / 2.0;
        }
        ranks
    };
    let (left, right) = (ranks(left), ranks(right));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(&left, &right) / (dot(&left, &left) * dot(&right, &right)).sqrt().max(1e-300)
}

/// Returns the columns of x and y with the largest rank correlation; `None` if a side has none.
fn most_correlated<'a>(
    report: &EstimateReport<'a>,
    rows: &[usize],
) -> Option<(Coordinates<'a>, Coordinates<'a>)> {
    let coordinates = |columns: &'a [Column], side| -> Vec<Coordinates<'a>> {
        columns.iter().take(MAX_COLUMNS).map(|column| Coordinates::new(column, side)).collect()
    };
    let mut xs = coordinates(&report.table.x, Side::X);
    let mut ys = coordinates(&report.table.y, Side::Y);
    let pairs = (0..xs.len()).flat_map(|x| (0..ys.len()).map(move |y| (x, y)));
    let (_, x, y) = pairs
        .map(|(x, y)| (rank_correlation(&xs[x], &ys[y], rows).abs(), x, y))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((xs.swap_remove(x), ys.swap_remove(y)))
}

/// Returns the range of sorted values without a share of them at either end; (0, 0) if there are
/// none.
fn central_range(sorted: &[f64], share: f64) -> (f64, f64) {
    let Some(last) = sorted.len().checked_sub(1) else { return (0.0, 0.0) };
    let cut = (last as f64 * share) as usize;
    (sorted[cut], sorted[last - cut])
}

/// Returns an empty panel with room for the names of categories. Those of x are written upwards if
/// they do not fit next to each other.
fn scatter_panel(x: &Coordinates, y: &Coordinates, rows: &[usize]) -> Panel {
    let y = y.axis(rows, AREA_HEIGHT);
    let left = MARGINS.left.max(y.label_width() + 26.0);
    let length = WIDTH - left - MARGINS.right;
    let x = x.axis(rows, length);
    let (upwards, room) = (!x.labels_fit(length), x.label_width() + 32.0);
    let mut panel = panel(x, y);
    panel.margins.left = left;
    if upwards {
        panel.vertical_labels = true;
        panel.margins.bottom = MARGINS.bottom.max(room);
    }
    panel
}

fn scatter_plot(report: &EstimateReport) -> Markup {
    let (table, pointwise) = (report.table, &report.estimate.pointwise);
    let n = table.kept.len();
    let rows: Vec<usize> = (0..n).step_by(n.div_ceil(MAX_POINTS).max(1)).collect();
    let Some((x, y)) = most_correlated(report, &rows) else { return html! {} };
    let mut sizes: Vec<f64> = rows.iter().map(|&row| pointwise[row].abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let scale = sizes[(sizes.len() - 1) * 9 / 10].max(1e-3);
    let dots = rows.iter().map(|&row| Dot {
        colour: Some(Gradient::SIGN.colour(0.5 + 0.5 * pointwise[row] / scale)),
        ..Dot::new(x.of(row), y.of(row))
    });
    let mut panel = scatter_panel(&x, &y, &rows);
    panel.add(None, Points { radius: 2.0, ink: Ink::Muted, dots: dots.collect() });
    let shown = match rows.len() {
        all if all == n => format!("all {n} rows"),
        some => format!("{some} of {n} rows"),
    };
    html! {
        p.soft {
            @if table.x.len() * table.y.len() > 1 {
                "The two columns with the largest rank correlation. "
            }
            span style={ "color:" (Gradient::SIGN.colour(1.0)) } { "Blue" }
            ": more likely together than if x and y were independent; "
            span style={ "color:" (Gradient::SIGN.colour(0.0)) } { "red" }
            (format!(": less. Full colour at {scale:.2} nats; {shown}."))
        }
        (figure("data coloured by pointwise information", &[], &panel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discrete(labels: &[&str], rows: usize) -> Column {
        let labels: Vec<String> = labels.iter().map(|label| label.to_string()).collect();
        let codes = (0..rows).map(|row| (row % labels.len()) as u32).collect();
        Column { name: "kind".into(), values: Values::Discrete { codes, labels } }
    }

    fn axis_labels(column: &Column, length: f64) -> Vec<String> {
        let axis = Coordinates::new(column, Side::X).axis(&[0, 1], length);
        axis.ticks(5).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn rows_of_two_categories_are_spread_independently() {
        let column = discrete(&["a"], 2000);
        let (x, y) = (Coordinates::new(&column, Side::X), Coordinates::new(&column, Side::Y));
        for every in [1, 2, 3] {
            let rows: Vec<usize> = (0..2000).step_by(every).collect();
            assert!(rank_correlation(&x, &y, &rows).abs() < 0.1, "every {every}");
            assert!(rows.iter().all(|&row| x.of(row).abs() < 0.31 && y.of(row).abs() < 0.31));
        }
    }

    #[test]
    fn axes_name_categories_in_their_order() {
        assert_eq!(axis_labels(&discrete(&["10", "9", "b", "a"], 4), 400.0), ["9", "10", "a", "b"]);
        let column = discrete(&["10", "9"], 2);
        let coordinates = Coordinates::new(&column, Side::X);
        assert!(coordinates.of(0) > coordinates.of(1), "10 is to the right of 9");
        let long = "a rather long name of a category";
        assert_eq!(axis_labels(&discrete(&[long], 2), 400.0), ["a rather long…"]);
        let many: Vec<String> = (0..500).map(|k| k.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let shown = axis_labels(&discrete(&many, 500), 400.0);
        assert!((20..=37).contains(&shown.len()), "{} of 500 labels", shown.len());
    }

    #[test]
    fn names_that_do_not_fit_are_written_upwards_with_room_below() {
        let (short, long) = (discrete(&["a", "b"], 9), discrete(&["a long name"; 12], 24));
        let panel = |x: &Column, y: &Column| {
            scatter_panel(&Coordinates::new(x, Side::X), &Coordinates::new(y, Side::Y), &[0, 1])
        };
        let narrow = panel(&long, &long);
        assert!(narrow.vertical_labels && narrow.margins.bottom > 100.0);
        assert!(narrow.margins.left > 90.0);
        let wide = panel(&short, &short);
        assert!(!wide.vertical_labels && wide.margins.left == MARGINS.left);
    }
}
