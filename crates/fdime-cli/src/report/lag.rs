//! The figure of profiles over lags: for each pair of series a panel of estimates and one of the test.

use crate::plot::marks::{Dot, Line, Points, Rule};
use crate::plot::{Axis, Dash, Figure, Ink, Key, Panel, Stroke, finite_range, shortened};
use fdime::estimate::{LagEstimate, LagProfile};

const BAND: Stroke = Stroke { ink: Ink::Limit, dash: Dash::Dashed };

/// The colours of lags with a small adjusted p-value, and of others.
const FOUND: Ink = Ink::Series(0);
const OTHER: Ink = Ink::Muted;

/// Returns the figure as an SVG file.
pub fn render(profiles: &[LagProfile]) -> String {
    let mut title = match profiles {
        [profile] => {
            let [x, y] = [&profile.x, &profile.y].map(|name| shortened(name, 30));
            format!("Mutual information between {x} and {y} at lags")
        }
        _ => "Mutual information between x and y at lags".into(),
    };
    if let Some(LagProfile { given, .. }) = profiles.first().filter(|first| !first.given.is_empty())
    {
        title.push_str(&format!(", given {}", shortened(&given.join(", "), 30)));
    }
    let is_single = profiles.len() == 1;
    let panels = profiles.iter().flat_map(|profile| {
        let [x, y] = [&profile.x, &profile.y].map(|name| shortened(name, 20));
        let title = if is_single { String::new() } else { format!("{x}, {y}") };
        [estimates(profile, title), statistics(profile)]
    });
    Figure {
        title,
        legend: vec![
            Key::dot(FOUND, "adjusted p ≤ .05"),
            Key::dot(OTHER, "adjusted p > .05"),
            Key::new(BAND, "95% of independent series stay below, at all lags"),
        ],
        panel_size: if is_single { (760.0, 250.0) } else { (430.0, 230.0) },
        columns: if is_single { 1 } else { 2 },
        panels: panels.collect(),
    }
    .to_svg()
}

/// Returns the panel of the estimates with their intervals.
fn estimates(profile: &LagProfile, title: String) -> Panel {
    let highest = profile.lags.iter().filter_map(|lag| lag.ci_high).fold(0.01, f64::max);
    let y = Axis::linear("nats, 95% interval", (0.0, 1.06 * highest));
    let mut panel = Panel::new(title, lag_axis(profile), y);
    for (ink, lags) in by_test(profile) {
        let interval = |lag: &&LagEstimate| {
            let ends = [lag.ci_low, lag.ci_high].map(|end| end.unwrap_or(f64::NAN));
            let at = lag.lag as f64;
            [(at, ends[0]), (at, ends[1]), (f64::NAN, f64::NAN)]
        };
        let points = lags.iter().flat_map(interval).collect();
        panel.add(None, Line { stroke: Stroke { ink, dash: Dash::Pale }, points });
        let dots = lags.into_iter().map(dot).collect();
        panel.add(None, Points { radius: 3.2, ink, dots });
    }
    panel
}

/// Returns the panel of the test's statistic with its band. It has an axis of its own, because the
/// statistic sees less than critics do.
fn statistics(profile: &LagProfile) -> Panel {
    let values = profile.lags.iter().filter_map(|lag| lag.statistic_nats);
    let highest = values.fold(profile.band_nats, f64::max).max(1e-6);
    let y = Axis::linear("test statistic (nats)", (0.0, 1.06 * highest));
    let mut panel = Panel::new("", lag_axis(profile), y);
    panel.add(None, Rule::horizontal(BAND, profile.band_nats));
    for (ink, lags) in by_test(profile) {
        let dots = lags
            .into_iter()
            .map(|lag| Dot::new(lag.lag as f64, lag.statistic_nats.unwrap_or(f64::NAN)));
        panel.add(None, Points { radius: 3.2, ink, dots: dots.collect() });
    }
    panel
}

fn lag_axis(profile: &LagProfile) -> Axis {
    let (first, last) = finite_range(profile.lags.iter().map(|lag| lag.lag as f64));
    let label = format!("lag (if positive, {} is later)", shortened(&profile.y, 20));
    Axis::linear(label, (first - 0.5, last + 0.5))
}

/// Returns lags with a large and with a small adjusted p-value, and their colours.
fn by_test(profile: &LagProfile) -> [(Ink, Vec<&LagEstimate>); 2] {
    let is_found = |lag: &&LagEstimate| lag.p_adjusted.is_some_and(|p| p <= 0.05);
    let (found, other) = profile.lags.iter().partition(is_found);
    [(OTHER, other), (FOUND, found)]
}

fn dot(lag: &LagEstimate) -> Dot {
    let value = |value: Option<f64>| value.unwrap_or(f64::NAN);
    let (mi, low, high) = (value(lag.mi_nats), value(lag.ci_low), value(lag.ci_high));
    let p = value(lag.p_adjusted);
    let hint = format!("lag {}: {mi:.3} ({low:.3} to {high:.3}) nats, adjusted p {p:.3}", lag.lag);
    Dot { hint: Some(hint), ..Dot::new(lag.lag as f64, mi) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(estimates: &[Option<f64>]) -> LagProfile {
        let lag = |(lag, mi): (i64, &Option<f64>)| LagEstimate {
            lag,
            mi_nats: *mi,
            ci_low: mi.map(|mi| mi / 2.0),
            ci_high: mi.map(|mi| 2.0 * mi),
            p_value: None,
            p_adjusted: Some(if *mi > Some(0.1) { 0.01 } else { 0.7 }),
            statistic_nats: *mi,
            n_rows: 100,
            reliability: None,
            reasons: None,
            problem: mi.is_none().then(|| "no rows".into()),
        };
        LagProfile {
            x: "a < b".into(),
            y: "c".into(),
            given: Vec::new(),
            largest_at: Some(1),
            p_value: 0.01,
            p_over_pairs: None,
            band_nats: 0.05,
            smallest_p: 0.01,
            lags: (0..).zip(estimates).map(lag).collect(),
        }
    }

    #[test]
    fn lags_are_drawn_by_their_p_values_and_problems_are_left_out() {
        let profile = profile(&[Some(0.01), Some(0.3), None]);
        let svg = render(std::slice::from_ref(&profile));
        assert_eq!(svg.matches("<circle").count(), 6, "four dots, and two in the legend");
        assert!(svg.contains("lag 1: 0.300 (0.150 to 0.600) nats, adjusted p 0.010"));
        assert!(svg.contains("between a &lt; b and c at lags") && !svg.contains("NaN"));
        assert_eq!(render(&[profile.clone(), profile]).matches("<circle").count(), 10);
    }

    #[test]
    fn profiles_without_estimates_have_finite_coordinates() {
        let svg = render(&[profile(&[None]), profile(&[])]).replace("information", "");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
