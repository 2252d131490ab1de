use crate::reproduce::images::Images;
use fdime::random::{Rng, random_index};
use fdime::{DrawnImages, PairSource};
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
    /// The number of images, the first ones, to draw from.
    pub count: usize,
    /// The images that x and y consist of.
    pub view: View,
    /// The rows of x that y shows, t.
    pub rows: usize,
}

impl ImagePairs<'_> {
    /// Returns which pixels the columns of x and y are.
    fn drawn_images(&self) -> DrawnImages<'_> {
        let (height, width) = self.images.size();
        let pixels = height * width;
        // The image drawn and the rows shown, for each channel.
        let columns = |channels: &[(usize, usize)]| {
            let column = |pixel: usize, &(image, rows): &(usize, usize)| {
                (pixel / width < rows).then_some(image * pixels + pixel)
            };
            let channels = |pixel| channels.iter().map(move |channel| column(pixel, channel));
            (0..pixels).flat_map(channels).collect()
        };
        let (whole, t) = (height, self.rows);
        let hidden = t.saturating_sub(ROWS_HIDDEN_BY_H);
        let (x, y) = match self.view {
            View::Single => (columns(&[(0, whole)]), columns(&[(0, t)])),
            View::Processed => {
                (columns(&[(0, whole), (0, whole)]), columns(&[(0, t), (0, hidden)]))
            }
            View::Pair => (columns(&[(0, whole), (1, whole)]), columns(&[(0, t), (1, t)])),
        };
        DrawnImages { images: &self.images.pixels()[..self.count * pixels], pixels, x, y }
    }
}

impl PairSource for ImagePairs<'_> {
    fn dims(&self) -> (usize, usize) {
        let (height, width) = self.images.size();
        let size = height * width * self.view.channels();
        (size, size)
    }

    fn sample(&self, rng: &mut Rng, x: &mut [f32], y: &mut [f32]) {
        let DrawnImages { images, pixels, x: x_columns, y: y_columns } = self.drawn_images();
        let rows = x.chunks_exact_mut(x_columns.len()).zip(y.chunks_exact_mut(y_columns.len()));
        for (x, y) in rows {
            let first = random_index(rng, self.count);
            let second = match self.view {
                View::Single | View::Processed => first,
                View::Pair => random_index(rng, self.count),
            };
            let value = |column: &Option<usize>| {
                let Some(column) = *column else { return 0.0 };
                let image = if column < pixels { first } else { second };
                f32::from(images[image * pixels + column % pixels]) / 255.0
            };
            x.iter_mut().zip(&x_columns).for_each(|(x, column)| *x = value(column));
            y.iter_mut().zip(&y_columns).for_each(|(y, column)| *y = value(column));
        }
    }

    fn images(&self) -> Option<DrawnImages<'_>> {
        Some(self.drawn_images())
    }
}
