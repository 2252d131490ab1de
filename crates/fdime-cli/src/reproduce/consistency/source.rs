use crate::reproduce::images::Images;
use fdime::PairSource;
use fdime::random::{Rng, random_index};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The mutual information that is estimated, with an image X and its top t rows Y.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// I(X; Y)
    Single,
    /// I([X, X]; [Y, h(Y)]), where h hides another three rows: equal to I(X; Y).
    Processed,
    /// I([X, X']; [Y, Y']) of two independent images: twice I(X; Y).
    Pair,
}

/// The number of rows that h hides.
const ROWS_HIDDEN_BY_H: usize = 3;

impl View {
    /// Returns the name used in plans.
    pub fn name(self) -> &'static str {
        match self {
            View::Single => "single",
            View::Processed => "processed",
            View::Pair => "pair",
        }
    }

    /// Returns the formula of the ratio whose value is known for consistent estimators.
    pub fn ratio(self) -> &'static str {
        match self {
            View::Single => "I(X;Y) / I(X;X)",
            View::Processed => "I([X,X];[Y,h(Y)]) / I(X;Y)",
            View::Pair => "I([X,X'];[Y,Y']) / I(X;Y)",
        }
    }

    /// Returns the number of images that x and y consist of.
    pub fn channels(self) -> usize {
        match self {
            View::Single => 1,
            View::Processed | View::Pair => 2,
        }
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Pairs of whole and partly hidden images with pixels between 0 and 1. The channels of a pixel are
/// side by side, as the conv critic expects.
#[derive(Clone, Copy)]
pub struct ImagePairs<'a> {
    /// The images to draw from.
    pub images: &'a Images,
    /// The images that x and y consist of.
    pub view: View,
    /// The rows of x that y shows, t.
    pub rows: usize,
}

impl ImagePairs<'_> {
    /// Writes an image's top `rows` rows into one channel of `pixels`, and 0 below.
    fn write(&self, index: usize, rows: usize, channel: usize, pixels: &mut [f32]) {
        let (height, width) = self.images.size();
        let shown = rows.min(height) * width;
        let channels = self.view.channels();
        let pixels = pixels.chunks_exact_mut(channels).map(|pixel| &mut pixel[channel]);
        for (place, (pixel, &byte)) in pixels.zip(self.images.image(index)).enumerate() {
            *pixel = if place < shown { f32::from(byte) / 255.0 } else { 0.0 };
        }
    }
}

impl PairSource for ImagePairs<'_> {
    fn dims(&self) -> (usize, usize) {
        let (height, width) = self.images.size();
        let size = height * width * self.view.channels();
        (size, size)
    }

    fn sample(&self, rng: &mut Rng, x: &mut [f32], y: &mut [f32]) {
        let (size, _) = PairSource::dims(self);
        let whole = self.images.size().0;
        for (x, y) in x.chunks_exact_mut(size).zip(y.chunks_exact_mut(size)) {
            let index = random_index(rng, self.images.count());
            self.write(index, whole, 0, x);
            self.write(index, self.rows, 0, y);
            match self.view {
                View::Single => {}
                View::Processed => {
                    self.write(index, whole, 1, x);
                    self.write(index, self.rows.saturating_sub(ROWS_HIDDEN_BY_H), 1, y);
                }
                View::Pair => {
                    let other = random_index(rng, self.images.count());
                    self.write(other, whole, 1, x);
                    self.write(other, self.rows, 1, y);
                }
            }
        }
    }
}
