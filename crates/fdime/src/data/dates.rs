//! Dates and times that are written as text.

use jiff::{Timestamp, civil};

/// What texts are as dates.
pub(super) enum Dates<'a> {
    /// Dates as days, and dates with a time as seconds, since 1970. If they are not in the notation
    /// of ISO 8601, also the first text and its date.
    Times(Vec<f64>, Option<(&'a str, civil::Date)>),
    /// Some text can be one date or another, and no other text decides.
    Ambiguous(&'a str, [civil::Date; 2]),
    /// Some text is no date.
    None,
}

/// Notations of dates besides ISO 8601. The last two pairs differ only in whether the month or the day
/// comes first, and a day after the 12th shows which.
const NOTATIONS: [&str; 11] = [
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d-%b-%Y",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%m-%d-%Y",
    "%d-%m-%Y",
];

/// Notations of times after a date.
const TIMES: [&str; 4] = [" %H:%M", " %H:%M:%S", " %H:%M:%S%.f", " %I:%M %p"];

/// Returns dates as days, and dates with a time as seconds, since 1970; `None` if any text is neither,
/// or can be two dates.
pub fn parse_times(labels: &[String]) -> Option<Vec<f64>> {
    match dates(labels) {
        Dates::Times(times, _) => Some(times),
        Dates::Ambiguous(..) | Dates::None => None,
    }
}

/// Reads texts that are all written in the same way.
pub(super) fn dates(labels: &[String]) -> Dates<'_> {
    let Some(first) = labels.first() else { return Dates::None };
    if let Some(times) = iso_times(labels) {
        return Dates::Times(times, None);
    }
    let mut found: Vec<Vec<civil::DateTime>> = Vec::new();
    for notation in NOTATIONS {
        let of_days = parse_all(labels, |label| {
            Some(civil::Date::strptime(notation, label).ok()?.at(0, 0, 0, 0))
        });
        let with_time = || {
            TIMES.iter().find_map(|time| {
                let notation = [notation, time].concat();
                parse_all(labels, |label| civil::DateTime::strptime(&notation, label).ok())
            })
        };
        found.extend(of_days.or_else(with_time));
    }
    // A year of fewer digits is part of a number such as the version 1.2.3. In May, several notations
    // read the same.
    found.retain(|dates| dates.iter().all(|date| date.year() >= 1000));
    found.dedup();
    match &found[..] {
        [] => Dates::None,
        [dates] => {
            let has_time = first.contains(':');
            let time = |date: &civil::DateTime| match has_time {
                true => seconds(*date),
                false => days(date.date()),
            };
            Dates::Times(dates.iter().map(time).collect(), Some((first, dates[0].date())))
        }
        [one, other, ..] => {
            let differs = (0..labels.len()).find(|k| one[*k] != other[*k]).unwrap_or(0);
            Dates::Ambiguous(&labels[differs], [one[differs].date(), other[differs].date()])
        }
    }
}

fn parse_all(
    labels: &[String],
    parse: impl Fn(&str) -> Option<civil::DateTime>,
) -> Option<Vec<civil::DateTime>> {
    labels.iter().map(|label| parse(label.trim())).collect()
}

const EPOCH: civil::Date = civil::date(1970, 1, 1);

fn days(date: civil::Date) -> f64 {
    EPOCH.until(date).map_or(f64::NAN, |span| f64::from(span.get_days()))
}

fn seconds(time: civil::DateTime) -> f64 {
    time.duration_since(EPOCH.at(0, 0, 0, 0)).as_secs_f64()
}

/// Returns times in the notation of ISO 8601.
fn iso_times(labels: &[String]) -> Option<Vec<f64>> {
    let is_dated = |label: &String| label.get(4..5) == Some("-") && label.len() >= 8;
    if !labels.iter().all(is_dated) {
        return None;
    }
    if labels.iter().all(|label| label.len() <= 10) {
        return labels.iter().map(|label| Some(days(label.parse().ok()?))).collect();
    }
    let time = |label: &String| {
        if let Ok(instant) = label.parse::<Timestamp>() {
            return Some(instant.as_duration().as_secs_f64());
        }
        Some(seconds(label.parse().ok()?))
    };
    labels.iter().map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(labels: &[&str]) -> Option<Vec<f64>> {
        parse_times(&labels.iter().map(|label| label.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn the_notation_of_iso_8601() {
        assert_eq!(times(&["1970-01-02", "2000-03-01"]), Some(vec![1.0, 11_017.0]));
        let expected = Some(vec![60.0, 1.5]);
        assert_eq!(times(&["1970-01-01 00:01:00", "1970-01-01T00:00:01.5Z"]), expected);
        assert_eq!(times(&["2000-02-31", "2000-03-01"]), None);
        assert_eq!(times(&[]), None);
    }

    /// The 3rd and the 15th of February 1970, in every notation.
    #[test]
    fn other_notations() {
        for labels in [
            ["1970/02/03", "1970/02/15"],
            ["03.02.1970", "15.02.1970"],
            ["3.2.1970", "15.2.1970"],
            ["3-Feb-1970", "15-Feb-1970"],
            ["03 Feb 1970", "15 Feb 1970"],
            ["3 February 1970", "15 February 1970"],
            ["Feb 3, 1970", "Feb 15, 1970"],
            ["02/03/1970", "02/15/1970"],
            ["03/02/1970", "15/02/1970"],
            ["03-02-1970", "15-02-1970"],
        ] {
            assert_eq!(times(&labels), Some(vec![33.0, 45.0]), "{labels:?}");
        }
        let minute = 33.0 * 86_400.0 + 60.0;
        for label in ["1970/02/03 00:01", "03.02.1970 00:01:00", "3-Feb-1970 12:01 AM"] {
            assert_eq!(times(&[label]), Some(vec![minute]), "{label}");
        }
        let none = [
            ["1/2/3", "4/5/6"],
            ["1.2.3", "1.4.7"],
            ["31.12.99", "01.01.00"],
            ["a", "b"],
            ["13/13/1970", "1/1/1970"],
            ["1.5", "2.5"],
        ];
        for labels in none {
            assert_eq!(times(&labels), None, "{labels:?}");
        }
    }

    #[test]
    fn dates_with_two_meanings() {
        let labels = ["02/02/1970".to_string(), "02/03/1970".to_string()];
        let Dates::Ambiguous(label, found) = dates(&labels) else { panic!() };
        assert_eq!(label, "02/03/1970");
        assert_eq!(found, [civil::date(1970, 2, 3), civil::date(1970, 3, 2)]);
        assert_eq!(times(&["02/03/1970"]), None);
        // The same by every notation that fits.
        assert_eq!(times(&["02/02/1970", "01/01/1970"]), Some(vec![32.0, 0.0]));
        assert_eq!(times(&["3 May 1970", "17 May 1970"]), Some(vec![122.0, 136.0]));
    }
}
