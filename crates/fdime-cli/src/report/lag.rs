//! The figure of profiles over lags: a panel for each pair of series.

use crate::plot::marks::{Dot, Line, Points, Rule};
use crate::plot::{Axis, COLUMNS, Dash, Figure, Ink, Key, Panel, Stroke, finite_range, shortened};
use fdime::estimate::{LagEstimate, LagProfile};

const BAND: Stroke = Stroke { ink: Ink::Limit, dash: Dash::Dashed };

/// The colours of lags with a small adjusted p-value, and of others.
const FOUND: Ink = Ink::Series(0);
const OTHER: Ink = Ink::Muted;

/// Returns the figure as an SVG file.
pub fn render(profiles: &[LagProfile]) -> String {
    let title = match profiles {
        [profile] => {
            let [x, y] = [&profile.x, &profile.y].map(|name| shortened(name, 30));
            format!("Mutual information between {x} and later {y}")
        }
        _ => "Mutual information between x and later y".into(),
    };
    let panel_title = |profile: &LagProfile| match profiles {
        [_] => String::new(),
        _ => format!("{}, {}", shortened(&profile.x, 20), shortened(&profile.y, 20)),
    };
    Figure {
        title,
        legend: vec![
            Key::new(Stroke::solid(FOUND), "adjusted p ≤ .05, with 95% interval"),
            Key::new(Stroke::solid(OTHER), "adjusted p > .05"),
            Key::new(BAND, "95% of independent series are below, at all lags"),
        ],
        panel_size: if profiles.len() == 1 { (760.0, 320.0) } else { (380.0, 250.0) },
        columns: COLUMNS,
        panels: profiles.iter().map(|profile| panel(profile, panel_title(profile))).collect(),
    }
    .to_svg()
}

fn panel(profile: &LagProfile, title: String) -> Panel {
    let lags = || profile.lags.iter().map(|lag| lag.lag as f64);
    let (first, last) = finite_range(lags());
    let highest = profile.lags.iter().filter_map(|lag| lag.ci_high).fold(0.0, f64::max);
    let top = 1.06 * highest.max(profile.band_nats).max(0.01);
    let x = Axis::linear("lag (y is later if positive)", (first - 0.5, last + 0.5));
    let mut panel = Panel::new(title, x, Axis::linear("nats", (0.0, top)));
    panel.add(None, Rule::horizontal(BAND, profile.band_nats));
    let is_found = |lag: &LagEstimate| lag.p_adjusted.is_some_and(|p| p <= 0.05);
    for (ink, found) in [(OTHER, false), (FOUND, true)] {
        let shown = || profile.lags.iter().filter(move |lag| is_found(lag) == found);
        let interval = |lag: &LagEstimate| {
            let ends = [lag.ci_low, lag.ci_high].map(|end| end.unwrap_or(f64::NAN));
            let at = lag.lag as f64;
            [(at, ends[0]), (at, ends[1]), (f64::NAN, f64::NAN)]
        };
        let points = shown().flat_map(interval).collect();
        panel.add(None, Line { stroke: Stroke { ink, dash: Dash::Pale }, points });
        panel.add(None, Points { radius: 3.2, ink, dots: shown().map(dot).collect() });
    }
    panel
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
            n_rows: 100,
            reliability: None,
            problem: mi.is_none().then(|| "no rows".into()),
        };
        LagProfile {
            x: "a < b".into(),
            y: "c".into(),
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
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("lag 1: 0.300 (0.150 to 0.600) nats, adjusted p 0.010"));
        assert!(svg.contains("between a &lt; b and later c") && !svg.contains("NaN"));
        assert_eq!(render(&[profile.clone(), profile]).matches("<circle").count(), 4);
    }

    #[test]
    fn profiles_without_estimates_have_finite_coordinates() {
        let svg = render(&[profile(&[None]), profile(&[])]);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
