//! The report of an estimate: one HTML file that needs nothing else.

use super::figure::{Figure, padded, range};
use super::svg::escape;
use crate::flags::FLAGS;
use fdime::Nats;
use fdime::data::{Column, Values};
use fdime::estimate::{CurvePoint, Estimate, EstimateReport, Reliability, format_p_value};
use std::fmt::Write;

/// The most points of the data that are drawn.
const MOST_POINTS: usize = 2000;

const STYLE: &str = "\
:root{--back:#fff;--card:#f7f8fa;--text:#1f2430;--soft:#5b6472;--line:#e3e6eb;--bar:#7aa7e9;\
--train:#9aa3b2;--valid:#1d4ed8;--mark:#c2410c;--good:#15803d;--fair:#a16207;--doubtful:#b91c1c}\
@media(prefers-color-scheme:dark){:root{--back:#14171c;--card:#1c2027;--text:#e5e7eb;\
--soft:#a3abb8;--line:#333a45;--bar:#4a7fd0;--train:#6b7482;--valid:#8ab4ff;--mark:#fb923c;\
--good:#4ade80;--fair:#facc15;--doubtful:#f87171}}\
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
svg{width:100%;height:auto;display:block}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}\
.grid{stroke:var(--line)}.axis{stroke:var(--soft)}.bar{fill:var(--bar)}\
.train{stroke:var(--train);fill:none;stroke-width:1.2}\
.validation{stroke:var(--valid);fill:none;stroke-width:1.5}\
.observed{stroke:var(--mark);stroke-width:2}.zero{stroke:var(--soft);stroke-dasharray:3 3}\
.key{display:inline-block;width:22px;height:0;border-top:2px solid;vertical-align:middle;\
margin-right:5px}pre{overflow:auto;font-size:12px;background:var(--card);padding:10px;\
border:1px solid var(--line);border-radius:6px}ul{margin:6px 0;padding-left:20px}";

/// The whole page.
pub fn render(title: &str, report: &EstimateReport) -> String {
    let estimate = report.estimate;
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main>\
         <h1>{title}</h1><p class=\"soft\">{}</p>",
        escape(&report.sides()),
        title = escape(title)
    );
    page.push_str("<div class=\"cards\">");
    card(&mut page, "Estimate", &headline(report));
    card(&mut page, "Reliability", &verdict(estimate));
    page.push_str("</div><div class=\"cards\">");
    card(&mut page, "Data, coloured by pointwise information", &data_view(report));
    card(&mut page, "Pointwise information", &pointwise(estimate));
    if let Some(test) = &estimate.independence {
        let figure = {
            let all = || test.null.iter().copied().chain([test.observed]);
            let mut figure = Figure::histogram(&test.null, 40, padded(range(all())));
            figure.mark("observed", test.observed, "observed");
            figure.finish("null distribution", "mean log ratio (nats)", "pairings")
        };
        let text = format!(
            "<p class=\"soft\">Mean log ratio of {} random pairings of x and y, against the \
             observed one: p = {}.</p>{figure}",
            test.null.len(),
            format_p_value(test.p_value)
        );
        card(&mut page, "Test of independence", &text);
    }
    if estimate.folds.iter().any(|fold| fold.members.iter().any(|m| m.curve.len() > 1)) {
        card(&mut page, "Learning curves", &learning_curves(estimate));
    }
    page.push_str("</div><div class=\"cards\">");
    card(&mut page, "Folds", &folds(estimate));
    card(&mut page, "Comparison", &comparison(estimate));
    page.push_str("</div>");
    let plan = serde_json::to_string_pretty(report.plan).unwrap_or_default();
    let _ = writeln!(
        page,
        "<details style=\"margin-top:16px\"><summary>The plan: everything that decides these numbers \
         but the data</summary><pre>{}</pre></details>\
         <p class=\"soft\">fdime {}, {:.1} s, seed {}</p></main></body></html>",
        escape(&plan),
        env!("CARGO_PKG_VERSION"),
        report.seconds,
        report.plan.seed
    );
    page
}

fn card(page: &mut String, title: &str, body: &str) {
    let _ = write!(page, "<section class=\"card\"><h2>{}</h2>{body}</section>", escape(title));
}

fn headline(report: &EstimateReport) -> String {
    let Estimate { mi, interval: (low, high), independence, .. } = report.estimate;
    let test = match independence {
        Some(test) if test.p_value <= 0.05 => {
            format!("x and y are dependent (p = {})", format_p_value(test.p_value))
        }
        Some(test) => format!("no dependence was found (p = {})", format_p_value(test.p_value)),
        None => "this method has no test of independence".into(),
    };
    let dropped = match report.table.n_dropped() {
        0 => String::new(),
        dropped => format!(", {dropped} dropped for missing values"),
    };
    let both = |nats: &Nats| format!("{:.3} nats ({:.3} bits)", nats.0, nats.bits());
    format!(
        "<p class=\"number\">{:.3} nats</p><p>{:.3} bits; 95% interval {} to {}</p><p>{test}</p>\
         <p class=\"soft\">{} rows{dropped}; estimator {}</p>",
        mi.0,
        mi.bits(),
        both(low),
        both(high),
        report.table.kept.len(),
        escape(&report.plan.method.to_string())
    )
}

fn verdict(estimate: &Estimate) -> String {
    let verdict = &estimate.verdict;
    let words = match verdict.reliability {
        Reliability::Good => "nothing speaks against it",
        Reliability::Fair => "usable, with this in mind",
        Reliability::Doubtful => "do not rely on it",
    };
    let mut text =
        format!("<p class=\"number {0}\">{0}</p><p>{words}</p><ul>", verdict.reliability);
    for reason in &verdict.reasons {
        let _ = write!(
            text,
            "<li><span class=\"{}\">&#9679;</span> {}</li>",
            reason.limits_to,
            escape(&reason.message.render(&FLAGS))
        );
    }
    text + "</ul>"
}

fn pointwise(estimate: &Estimate) -> String {
    let mut sorted: Vec<f64> = estimate.pointwise.clone();
    sorted.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        sorted.get(((sorted.len() - 1) as f64 * share) as usize).copied().unwrap_or(0.0)
    };
    // The outermost values are gathered in the outermost bars, or they would be all one sees.
    let (low, high) = (quantile(0.002), quantile(0.998));
    let mut figure = Figure::histogram(&sorted, 60, padded((low, high)));
    figure.mark("zero", 0.0, "");
    figure.mark("observed", estimate.unclipped.0, "mean");
    let negative = sorted.iter().filter(|value| **value < 0.0).count();
    format!(
        "<p class=\"soft\">ln p(x,y)/(p(x)p(y)) of every row, by a critic that never saw it; \
         {:.0}% are negative.</p>{}",
        100.0 * negative as f64 / sorted.len().max(1) as f64,
        figure.finish("histogram of pointwise information", "nats", "rows")
    )
}

/// The training objective; a gap in the line where there is none.
fn trained(point: &CurvePoint) -> f64 {
    point.train.unwrap_or(f64::NAN)
}

fn learning_curves(estimate: &Estimate) -> String {
    let curves = || {
        let members = estimate.folds.iter().flat_map(|fold| &fold.members);
        members.filter(|member| member.weight > 0.0).map(|member| &member.curve)
    };
    let steps = curves().filter_map(|curve| curve.last()).map(|point| point.step).max();
    let values = curves().flatten().flat_map(|point| [trained(point), point.validation]);
    let mut figure = Figure::new((0.0, steps.unwrap_or(1) as f64), padded(range(values)));
    for curve in curves() {
        figure.line("train", curve.iter().map(|point| (point.step as f64, trained(point))));
        figure.line("validation", curve.iter().map(|point| (point.step as f64, point.validation)));
    }
    format!(
        "<p class=\"soft\"><span class=\"key\" style=\"color:var(--train)\"></span>training \
         &nbsp; <span class=\"key\" style=\"color:var(--valid)\"></span>validation; one pair of \
         lines for each critic. Weights are taken from where validation is highest.</p>{}",
        figure.finish("learning curves", "training steps", "objective")
    )
}

fn folds(estimate: &Estimate) -> String {
    if estimate.folds.is_empty() {
        return "<p class=\"soft\">This method has no folds.</p>".into();
    }
    let mut table = String::from(
        "<table><tr><th>fold</th><th class=\"n\">rows</th><th class=\"n\">held out</th>\
         <th class=\"n\">training</th><th>critics (weight, step)</th></tr>",
    );
    for (index, fold) in estimate.folds.iter().enumerate() {
        let critics: Vec<String> = fold
            .members
            .iter()
            .filter(|member| member.weight > 0.0)
            .map(|m| format!("{} ({:.2}, {})", m.recipe, m.weight, m.step))
            .collect();
        let _ = write!(
            table,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{:.3}</td>\
             <td class=\"n\">{:.3}</td><td>{}</td></tr>",
            index + 1,
            fold.rows.test,
            fold.mi_nats,
            fold.train_mi_nats,
            escape(&critics.join(", "))
        );
    }
    table + "</table>"
}

fn comparison(estimate: &Estimate) -> String {
    let mut table =
        String::from("<table><tr><th>readout or method</th><th class=\"n\">nats</th></tr>");
    let rows = [
        ("this estimate", Some(estimate.mi.0)),
        ("Donsker-Varadhan readout of the same critics", estimate.lower_bound.map(|mi| mi.0)),
        ("Gaussian copula", estimate.baselines.gaussian_copula_nats),
        ("KSG, nearest neighbours", estimate.baselines.ksg_nats),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            let _ = write!(table, "<tr><td>{name}</td><td class=\"n\">{value:.3}</td></tr>");
        }
    }
    table.push_str("</table>");
    if !estimate.race.is_empty() {
        table.push_str(
            "<p style=\"margin-top:10px\">The race of recipes, by the objective on validation \
             rows (higher is better):</p><table><tr><th>recipe</th>\
             <th class=\"n\">objective</th><th></th></tr>",
        );
        for entry in &estimate.race {
            let _ = write!(
                table,
                "<tr><td>{}</td><td class=\"n\">{:.4}</td><td>{}</td></tr>",
                escape(&entry.recipe),
                entry.validation,
                if entry.chosen { "chosen" } else { "" }
            );
        }
        table.push_str("</table>");
    }
    table
}

/// The values of a column as places on an axis; categories are spread a little.
fn places(column: &Column, row: usize) -> f64 {
    match &column.values {
        Values::Continuous(values) => values[row],
        Values::Discrete { codes, .. } => {
            let spread = (row as f64 * 0.618_033_988_75).fract() - 0.5;
            f64::from(codes[row]) + 0.5 * spread
        }
    }
}

/// The correlation of the ranks of two columns, over some rows.
fn rank_correlation(left: &Column, right: &Column, rows: &[usize]) -> f64 {
    let ranks = |column: &Column| -> Vec<f64> {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by(|&a, &b| places(column, rows[a]).total_cmp(&places(column, rows[b])));
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

/// Blue where a pair is more likely together than apart, red where it is less.
fn colour(value: f64, scale: f64) -> String {
    let share = (value / scale).clamp(-1.0, 1.0);
    let (from, to) = (
        [150.0, 156.0, 168.0],
        if share > 0.0 { [59.0, 130.0, 246.0] } else { [239.0, 68.0, 68.0] },
    );
    let mix = |k: usize| (from[k] + (to[k] - from[k]) * share.abs()).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

/// The x and the y column that go together most, against each other.
fn data_view(report: &EstimateReport) -> String {
    let (table, estimate) = (report.table, report.estimate);
    let n = table.kept.len();
    let step = n.div_ceil(MOST_POINTS).max(1);
    let rows: Vec<usize> = (0..n).step_by(step).collect();
    // Among many columns only the first of each side are looked at.
    let pair = table
        .x
        .iter()
        .take(30)
        .flat_map(|x| table.y.iter().take(30).map(move |y| (x, y)))
        .map(|(x, y)| (rank_correlation(x, y, &rows).abs(), x, y))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let Some((_, x, y)) = pair else { return String::new() };
    let mut sizes: Vec<f64> = rows.iter().map(|&row| estimate.pointwise[row].abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let scale = sizes[(sizes.len() - 1) * 9 / 10].max(1e-3);
    // A few far values must not squeeze all others into a corner.
    let middle = |column: &Column| {
        let mut values: Vec<f64> = rows.iter().map(|&row| places(column, row)).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        padded((values[last / 200], values[last - last / 200]))
    };
    let mut figure = Figure::new(middle(x), middle(y));
    for &row in &rows {
        let within = |value: f64, scale: &super::svg::Scale| {
            scale.at(value.clamp(scale.data.0, scale.data.1))
        };
        let at = (within(places(x, row), &figure.x), within(places(y, row), &figure.y));
        figure.draw(format_args!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2\" fill=\"{}\" fill-opacity=\".75\"/>",
            at.0,
            at.1,
            colour(estimate.pointwise[row], scale)
        ));
    }
    let chosen = if table.x.len() * table.y.len() > 1 {
        "The two columns with the largest rank correlation. "
    } else {
        ""
    };
    format!(
        "<p class=\"soft\">{chosen}<span style=\"color:#3b82f6\">Blue</span>: more likely together \
         than apart; <span style=\"color:#ef4444\">red</span>: less. Full colour at {scale:.2} nats; \
         {} of {n} rows.</p>{}",
        rows.len(),
        figure.finish("data coloured by pointwise information", &x.name, &y.name)
    )
}
