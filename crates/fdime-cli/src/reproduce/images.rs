//! IDX, the format of MNIST and FashionMNIST: images of bytes.

use super::source::Source;
use crate::error::Result;
use bytes::Bytes;
use std::path::Path;

/// Grey images of equal size.
#[derive(Clone, Debug)]
pub struct Images {
    count: usize,
    height: usize,
    width: usize,
    pixels: Bytes,
}

/// Begins a file of images: bytes, three dimensions.
const MAGIC: [u8; 4] = [0, 0, 8, 3];
/// The magic number and three dimensions.
const HEADER: u64 = 16;

impl Images {
    /// Reads an IDX file of images, gzipped or not.
    pub fn open(path: &Path) -> Result<Self> {
        let source = Source::open(path)?;
        let magic = source.body.part(0, MAGIC.len() as u64).unwrap_or_default();
        if magic != MAGIC[..] {
            return Err(source
                .fault("it is no IDX file of images, such as MNIST's train-images-idx3-ubyte.gz"));
        }
        let header = source.body.part(0, HEADER).map_err(|error| source.damaged("IDX", error))?;
        let size = |k: usize| {
            header[4 * k..4 * k + 4].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
        };
        let (count, height, width) = (size(1), size(2), size(3));
        let length = count.checked_mul(height).and_then(|rows| rows.checked_mul(width));
        let Some(length) = length.filter(|length| *length > 0) else {
            return Err(
                source.fault(format!("it holds {count} images of {height} x {width} pixels"))
            );
        };
        let pixels = source.body.part(HEADER, length as u64);
        let pixels = pixels.map_err(|error| source.damaged("IDX", error))?;
        Ok(Images { count, height, width, pixels })
    }

    /// The number of images.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Lines and columns of an image.
    pub fn size(&self) -> (usize, usize) {
        (self.height, self.width)
    }

    /// An image, line after line.
    pub fn image(&self, index: usize) -> &[u8] {
        let size = self.height * self.width;
        &self.pixels[index * size..][..size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn open(bytes: &[u8]) -> Result<Images> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        Images::open(file.path())
    }

    #[test]
    fn images_are_read_gzipped_or_not() {
        let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3];
        bytes.extend([1, 2, 3, 4, 5, 6]);
        let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        zipped.write_all(&bytes).unwrap();
        for bytes in [bytes, zipped.finish().unwrap()] {
            let images = open(&bytes).unwrap();
            assert_eq!((images.count(), images.size()), (2, (1, 3)));
            assert_eq!(images.image(1), [4, 5, 6]);
        }
    }

    #[test]
    fn what_is_no_file_of_images_is_told() {
        let error = |bytes: &[u8]| open(bytes).unwrap_err().to_string();
        assert!(error(b"x,y\n1,2\n").contains("no IDX file of images"));
        assert!(error(&[0, 0, 8, 1, 0, 0, 0, 2, 1, 2]).contains("no IDX file of images"));
        let header = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3];
        assert!(error(&[&header[..], &[1, 2]].concat()).contains("truncated"));
        assert!(
            error(&[
                0, 0, 8, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff
            ])
            .len()
                > 5
        );
        assert!(error(&[&header[..8], &[0; 8]].concat()).contains("0 x 0"));
        assert!(error(&header[..10]).contains("truncated"));
    }
}
