//! The report of an estimate: one HTML file without links to other files.

mod figures;

pub use figures::EstimateFigures;

use crate::flags::FLAGS;
use crate::plot::marks::{Bars, Dot, Line, Points, Rule};
use crate::plot::{self, Axis, Dash, Gradient, Ink, Key, Margins, Panel, Stroke, place_labels};
use crate::printable::printable;
use fdime::estimate::{
    ChainFigures, EstimateRecord, EstimateReport, GivenFigures, Reliability, RowOrder,
    format_p_value,
};
use fdime::train::CurvePoint;
use fdime::{Nats, counted};
use figures::{
    Histogram, PointwiseFigure, ScatterColumn, ScatterFigure, TestFigure, central_range,
};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// An estimate with the data of its figures: what `estimate --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SavedEstimate {
    /// The estimate.
    #[serde(flatten)]
    pub record: EstimateRecord,
    /// What the figures of the report show; other programs may leave it out.
    #[serde(default)]
    pub figures: Option<EstimateFigures>,
}

impl SavedEstimate {
    /// Returns an estimate in the words of the command line.
    pub fn new(report: &EstimateReport) -> Self {
        SavedEstimate { record: report.record(&FLAGS), figures: Some(EstimateFigures::new(report)) }
    }

    /// Returns the title of the report.
    fn title(&self) -> String {
        let kind = match self.record.given {
            Some(_) => "Conditional mutual information",
            None => "Mutual information",
        };
        match &self.record.file {
            Some(file) => format!("{kind} in {file}"),
            None => kind.into(),
        }
    }
}

/// Returns the whole page, with the estimate in bits or in nats.
pub fn render(saved: &SavedEstimate, bits: bool) -> String {
    let (title, estimate) = (saved.title(), &saved.record);
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
                    p.soft { (estimate.sides()) }
                    div.cards {
                        (card("Estimate", headline(estimate, bits)))
                        (card("Reliability", verdict(estimate)))
                    }
                    (cards(saved))
                    div.cards {
                        (card("Folds", folds(estimate)))
                        (card("Comparison", comparison(estimate)))
                    }
                    (footer(estimate))
                }
            }
        }
    };
    printable(&page.into_string())
}

fn cards(saved: &SavedEstimate) -> Markup {
    let (estimate, figures) = (&saved.record, saved.figures.as_ref());
    let curves = || estimate.folds.iter().flat_map(|fold| &fold.members).map(|m| m.curve.len());
    html! {
        div.cards {
            @if let Some(given) = &estimate.given {
                (card("What z explains", given_figures(given, estimate)))
            }
            @if let Some(chain) = &estimate.chain {
                (card("Chain rule", chain_terms(chain)))
            }
            @if let Some(figures) = figures {
                @if let Some(scatter) = &figures.scatter {
                    (card(scatter_title(estimate), scatter_plot(scatter, estimate)))
                }
                (card("Pointwise information", pointwise(&figures.pointwise, estimate)))
                @if let (Some(test), Some(p)) = (&figures.test, estimate.p_value) {
                    (card(test_title(estimate), independence_test(test, p, estimate)))
                }
            }
            @if curves().any(|length| length > 1) {
                (card("Learning curves", learning_curves(estimate)))
            }
        }
    }
}

fn scatter_title(estimate: &EstimateRecord) -> &'static str {
    match estimate.given {
        Some(_) => "Residuals given z, coloured by pointwise information",
        None => "Data, coloured by pointwise information",
    }
}

fn test_title(estimate: &EstimateRecord) -> &'static str {
    match estimate.given {
        Some(_) => "Test of conditional independence",
        None => "Test of independence",
    }
}

fn footer(estimate: &EstimateRecord) -> Markup {
    let plan = serde_json::to_string_pretty(&estimate.plan).unwrap_or_default();
    html! {
        details {
            summary { "The plan: everything that determines these numbers except the data" }
            pre { (plan) }
        }
        p.soft {
            "fdime " (estimate.version) ", " (format!("{:.1}", estimate.seconds))
            " s, seed " (estimate.seed)
        }
    }
}

fn card(title: &str, body: Markup) -> Markup {
    html! { section.card { h2 { (title) } (body) } }
}

/// Returns a table of what the columns that are held fixed tell.
fn given_figures(given: &GivenFigures, estimate: &EstimateRecord) -> Markup {
    let names: Vec<&str> = given.columns.iter().map(String::as_str).collect();
    let nats = |value: f64| format!("{value:.3} nats");
    let share = |share: f64| format!("{:.0}%", 100.0 * share);
    let rows = [
        ("I(x; y) without z", Some(nats(given.unconditional_nats.0))),
        ("I(x; y | z)", Some(nats(estimate.mi_nats))),
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

fn headline(estimate: &EstimateRecord, bits: bool) -> Markup {
    let in_nats = |nats: f64| format!("{nats:.3} nats");
    let in_bits = |nats: f64| format!("{:.3} bits", Nats(nats).bits());
    let both = |nats: f64| match bits {
        true => [in_bits(nats), in_nats(nats)],
        false => [in_nats(nats), in_bits(nats)],
    };
    let ([number, other], [low, other_low], [high, other_high]) =
        (both(estimate.mi_nats), both(estimate.ci_low), both(estimate.ci_high));
    html! {
        p.number { (number) }
        p { (format!("{other}; 95% interval {low} ({other_low}) to {high} ({other_high})")) }
        p { (estimate.dependence(bits)) }
        p.soft { (estimate.source()) }
        @for note in &estimate.notes {
            p.soft { "note: " (note) }
        }
    }
}

fn verdict(estimate: &EstimateRecord) -> Markup {
    let verdict = &estimate.verdict;
    let meaning = match verdict.reliability {
        Reliability::Good if !verdict.reasons.is_empty() => "no serious problems found",
        Reliability::Good => "no problems found",
        Reliability::Fair => "usable, but read the warnings",
        Reliability::Doubtful => "do not rely on this estimate",
    };
    let reliability = verdict.reliability.to_string();
    html! {
        p class={ "number " (reliability) } { (reliability) }
        p { (meaning) }
        ul {
            @for reason in &verdict.reasons {
                li { span class=(reason.limits_to.to_string()) { "●" } " " (reason.text) }
            }
        }
    }
}

/// Returns a panel of bars with room for labels above them.
fn histogram(shown: &Histogram, names: (&str, &str)) -> Panel {
    let (low, high) = (shown.low_nats, shown.high_nats);
    let margin = 0.05 * (high - low);
    let bars = Bars::counted(&shown.counts, (low, high));
    let y = Axis::linear(names.1, (0.0, 1.18 * bars.max().max(1.0)));
    let mut panel = panel(Axis::linear(names.0, (low - margin, high + margin)), y);
    panel.add(None, bars);
    panel
}

fn pointwise(shown: &PointwiseFigure, estimate: &EstimateRecord) -> Markup {
    let mut panel = histogram(&shown.histogram, ("nats", "rows"));
    panel.add(None, Rule::vertical(Stroke { ink: Ink::Truth, dash: Dash::Dashed }, 0.0, ""));
    panel.add(None, Rule::vertical(Stroke::solid(Ink::Series(1)), shown.mean_nats, "mean"));
    html! {
        p.soft {
            @match estimate.given {
                Some(_) => "ln p(x,y|z)/(p(x|z)p(y|z)) of each row",
                None => "ln p(x,y)/(p(x)p(y)) of each row",
            }
            @if !estimate.folds.is_empty() { ", by a critic that was trained without it" }
            (format!("; {:.0}% are negative.", 100.0 * shown.negative))
        }
        (figure("histogram of pointwise information", &[], &panel))
    }
}

fn independence_test(test: &TestFigure, p: f64, estimate: &EstimateRecord) -> Markup {
    let mut panel = histogram(&test.null, ("mean log ratio (nats)", "pairings"));
    panel.add(None, Rule::vertical(Stroke::solid(Ink::Series(1)), test.observed_nats, "observed"));
    let pairings: usize = test.null.counts.iter().sum();
    let kind = match (estimate.plan.order, &estimate.given) {
        (RowOrder::Exchangeable, None) => "random pairings of x and y",
        (RowOrder::Exchangeable, Some(_)) => "random pairings of x and y among rows with similar z",
        (_, None) => "shifts of x against y",
        (_, Some(_)) => "shifts of x against y and z",
    };
    html! {
        p.soft {
            "Mean log ratio of " (pairings) " " (kind) ", and of the data: p = " (format_p_value(p)) "."
        }
        (figure("null distribution", &[], &panel))
    }
}

/// Returns the value of the training objective, or NaN if it was not computed, which leaves a gap
/// in the line.
fn training_value(point: &CurvePoint) -> f64 {
    point.train.unwrap_or(f64::NAN)
}

fn learning_curves(estimate: &EstimateRecord) -> Markup {
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
                    td { @if term.is_added { (chain.columns_of(term).join(", ")) } }
                }
            }
        }
    }
}

fn folds(estimate: &EstimateRecord) -> Markup {
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

fn comparison(estimate: &EstimateRecord) -> Markup {
    let methods = [
        ("this estimate", Some(estimate.mi_nats)),
        ("without the chain", estimate.chain.as_ref().map(|chain| chain.direct_nats.0)),
        (estimate.lower_bound_name(), estimate.separate_lower_bound()),
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
                        td { (entry.recipe) } td.n { (entry.validation.map_or("diverged".into(), |bound| format!("{bound:.4}"))) }
                        td { @if entry.chosen { "chosen" } }
                    }
                }
            }
        }
    }
}

/// The length of the longest name of a category on an axis, in characters.
const MAX_LABEL: usize = 14;

/// Returns the axis of a column, which will have this length.
fn scatter_axis(column: &ScatterColumn, length: f64) -> Axis {
    if !column.labels.is_empty() {
        let names = column.labels.iter().map(String::as_str);
        return Axis::categories(&column.name, place_labels(names, length, MAX_LABEL));
    }
    let mut values = column.values.clone();
    values.sort_by(f64::total_cmp);
    // A few extreme values, or heavy tails, must not squeeze all others into a corner.
    let ((low, high), (first, third)) =
        (central_range(&values, 0.005), central_range(&values, 0.25));
    let reach = if third > first { 4.0 * (third - first) } else { f64::INFINITY };
    Axis::fitted(&column.name, [low.max(first - reach), high.min(third + reach)], false)
}

/// Returns an empty panel with room for the names of categories. Those of x are written upwards if
/// they do not fit next to each other.
fn scatter_panel(x: &ScatterColumn, y: &ScatterColumn) -> Panel {
    let y = scatter_axis(y, AREA_HEIGHT);
    let left = MARGINS.left.max(y.label_width() + 26.0);
    let length = WIDTH - left - MARGINS.right;
    let x = scatter_axis(x, length);
    let (upwards, room) = (!x.labels_fit(length), x.label_width() + 32.0);
    let mut panel = panel(x, y);
    panel.margins.left = left;
    if upwards {
        panel.vertical_labels = true;
        panel.margins.bottom = MARGINS.bottom.max(room);
    }
    panel
}

fn scatter_plot(shown: &ScatterFigure, estimate: &EstimateRecord) -> Markup {
    let ratios = &shown.log_ratio_nats;
    let mut sizes: Vec<f64> = ratios.iter().map(|ratio| ratio.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let scale =
        sizes.get(sizes.len().saturating_sub(1) * 9 / 10).map_or(1.0, |size| size.max(1e-3));
    let points = shown.x.values.iter().zip(&shown.y.values).zip(ratios);
    let dots = points.map(|((x, y), ratio)| Dot {
        colour: Some(Gradient::SIGN.colour(0.5 + 0.5 * ratio / scale)),
        ..Dot::new(*x, *y)
    });
    let mut panel = scatter_panel(&shown.x, &shown.y);
    panel.add(None, Points { radius: 2.0, ink: Ink::Muted, dots: dots.collect() });
    let rows = match (ratios.len(), estimate.n_rows) {
        (all, n) if all == n => format!("all {n} rows"),
        (some, n) => format!("{some} of {n} rows"),
    };
    html! {
        p.soft {
            @if estimate.x.len() * estimate.y.len() > 1 {
                "The two columns with the largest rank correlation. "
            }
            span style={ "color:" (Gradient::SIGN.colour(1.0)) } { "Blue" }
            ": more likely together than if x and y were independent"
            @if estimate.given.is_some() { " given z" } "; "
            span style={ "color:" (Gradient::SIGN.colour(0.0)) } { "red" }
            (format!(": less. Full colour at {scale:.2} nats; {rows}."))
        }
        (figure("data coloured by pointwise information", &[], &panel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discrete(labels: &[&str]) -> ScatterColumn {
        let labels = labels.iter().map(|label| label.to_string()).collect();
        ScatterColumn { name: "kind".into(), labels, values: vec![0.0, 1.0] }
    }

    fn axis_labels(column: &ScatterColumn) -> Vec<String> {
        scatter_axis(column, 400.0).ticks(5).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn axes_name_categories() {
        assert_eq!(axis_labels(&discrete(&["9", "10", "a"])), ["9", "10", "a"]);
        let long = "a rather long name of a category";
        assert_eq!(axis_labels(&discrete(&[long])), ["a rather long…"]);
        let many: Vec<String> = (0..500).map(|k| k.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let shown = axis_labels(&discrete(&many));
        assert!((20..=37).contains(&shown.len()), "{} of 500 labels", shown.len());
    }

    #[test]
    fn names_that_do_not_fit_are_written_upwards_with_room_below() {
        let (short, long) = (discrete(&["a", "b"]), discrete(&["a long name"; 12]));
        let narrow = scatter_panel(&long, &long);
        assert!(narrow.vertical_labels && narrow.margins.bottom > 100.0);
        assert!(narrow.margins.left > 90.0);
        let wide = scatter_panel(&short, &short);
        assert!(!wide.vertical_labels && wide.margins.left == MARGINS.left);
    }
}
