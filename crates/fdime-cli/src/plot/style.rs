//! Colours and strokes. Every colour has two values, for light and for dark backgrounds.

use std::fmt::Write;

/// The colour of a mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ink {
    /// One of the colours that distinguish series; they repeat after nine.
    Series(usize),
    /// The colour of true and published values.
    Truth,
    /// The colour of limits.
    Limit,
    /// The colour of marks in the background.
    Muted,
    /// The colour of histograms.
    Count,
}

/// Name, colour on white and colour on black.
const INKS: [(&str, u32, u32); 13] = [
    ("0", 0x1d4ed8, 0x8ab4ff),
    ("1", 0xb45309, 0xfbbf6b),
    ("2", 0x047857, 0x4fd8a0),
    ("3", 0x7e22ce, 0xd0a2ff),
    ("4", 0xbe123c, 0xfb7185),
    ("5", 0x0e7490, 0x5fd4ea),
    ("6", 0x4d7c0f, 0xb5d96b),
    ("7", 0xa21caf, 0xf29cf7),
    ("8", 0x57534e, 0xc7c2bd),
    ("truth", 0x111827, 0xf9fafb),
    ("limit", 0xbe123c, 0xfb7185),
    ("muted", 0x9aa3b2, 0x6b7482),
    ("count", 0x7aa7e9, 0x4a7fd0),
];
const SERIES: usize = 9;

impl Ink {
    fn name(self) -> &'static str {
        INKS[match self {
            Ink::Series(index) => index % SERIES,
            Ink::Truth => SERIES,
            Ink::Limit => SERIES + 1,
            Ink::Muted => SERIES + 2,
            Ink::Count => SERIES + 3,
        }]
        .0
    }

    /// Returns the class of filled shapes.
    pub fn fill(self) -> String {
        format!("fill-{}", self.name())
    }
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dash {
    Solid,
    /// Thin and pale, for the background.
    Pale,
    Dashed,
    Dotted,
}

/// The colour of a line, and how it is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stroke {
    pub ink: Ink,
    pub dash: Dash,
}

impl Stroke {
    /// Returns a line without gaps.
    pub fn solid(ink: Ink) -> Self {
        Stroke { ink, dash: Dash::Solid }
    }

    /// Returns the classes of lines.
    pub fn class(self) -> String {
        let dash = match self.dash {
            Dash::Solid => "solid",
            Dash::Pale => "pale",
            Dash::Dashed => "dashed",
            Dash::Dotted => "dotted",
        };
        format!("{dash} line-{}", self.ink.name())
    }
}

/// Returns the style sheet of all figures. Colours for light backgrounds come first and without
/// variables, for programs that support nothing else.
pub fn stylesheet() -> String {
    let mut light = String::from(
        ".back{fill:#fff}svg text{font:12px system-ui,sans-serif;fill:#1f2430}\
         svg text.soft{fill:#6b7280;font-size:11px}svg text.title{font-weight:600;font-size:13px}\
         .grid{stroke:#e5e7eb}.axis{stroke:#9ca3af}.none{fill:#eceef1}.hint{fill:transparent}\
         .solid{fill:none;stroke-width:1.8}.pale{fill:none;stroke-width:1}\
         .dashed{fill:none;stroke-width:1.5;stroke-dasharray:6 3}\
         .dotted{fill:none;stroke-width:1.4;stroke-dasharray:2 3}",
    );
    let mut dark = String::from(
        ".back{fill:#14171c}svg text{fill:#e5e7eb}svg text.soft{fill:#9ca3af}\
         .grid{stroke:#333a45}.axis{stroke:#6b7280}.none{fill:#262b33}",
    );
    for (name, on_white, on_black) in INKS {
        for (css, colour, back) in [(&mut light, on_white, 0xffffff), (&mut dark, on_black, 0)] {
            let pale = blend(colour, back);
            let _ = write!(
                css,
                ".line-{name}{{stroke:#{colour:06x}}}.fill-{name}{{fill:#{colour:06x}}}\
                 .pale.line-{name}{{stroke:#{pale:06x}}}"
            );
        }
    }
    format!("{light}@media(prefers-color-scheme:dark){{{dark}}}")
}

/// Returns a pale colour: a mixture with more of the background than of the colour.
fn blend(colour: u32, background: u32) -> u32 {
    const SHARE: f64 = 0.35;
    let channel = |colour: u32, shift: u32| f64::from((colour >> shift) & 0xff);
    let mixed = |shift| {
        let value = SHARE * channel(colour, shift) + (1.0 - SHARE) * channel(background, shift);
        (value.round() as u32) << shift
    };
    mixed(16) | mixed(8) | mixed(0)
}

/// Colours between which values are interpolated, from the share 0 to the share 1.
pub struct Gradient(pub &'static [[f64; 3]]);

impl Gradient {
    /// Yellow to green to blue, which is readable without distinguishing red from green.
    pub const AMOUNT: Gradient = Gradient(&[
        [247.0, 244.0, 215.0],
        [127.0, 205.0, 187.0],
        [44.0, 127.0, 184.0],
        [20.0, 40.0, 110.0],
    ]);
    /// Red below the middle, blue above it.
    pub const SIGN: Gradient =
        Gradient(&[[239.0, 68.0, 68.0], [150.0, 156.0, 168.0], [59.0, 130.0, 246.0]]);

    /// Returns the colour of a share between 0 and 1, as `#rrggbb`.
    pub fn colour(&self, share: f64) -> String {
        let Gradient(stops) = self;
        let at = share.clamp(0.0, 1.0) * (stops.len() - 1) as f64;
        let low = (at as usize).min(stops.len() - 2);
        let mix = |k: usize| {
            (stops[low][k] + (stops[low + 1][k] - stops[low][k]) * (at - low as f64)).round() as u8
        };
        format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
    }
}
