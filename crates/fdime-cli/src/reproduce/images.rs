//! IDX, the format of MNIST and FashionMNIST: images of bytes.

use fdime::Error;
use flate2::read::GzDecoder;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Grey images of equal size.
#[derive(Clone, Debug)]
pub struct Images {
    count: usize,
    height: usize,
    width: usize,
    pixels: Vec<u8>,
}

/// The start of a file of images: bytes with three dimensions.
const MAGIC: [u8; 4] = [0, 0, 8, 3];
/// The length of the magic number and the three dimensions.
const HEADER: usize = 16;
/// The start of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

impl Images {
    /// Reads an IDX file of images, compressed with gzip or not.
    pub fn open(path: &Path) -> fdime::Result<Self> {
        let file = path.display().to_string();
        let read = || {
            let bytes = std::fs::read(path)?;
            if !bytes.starts_with(&GZIP) {
                return Ok(bytes);
            }
            let mut unzipped = Vec::new();
            GzDecoder::new(&*bytes).read_to_end(&mut unzipped).map(|_| unzipped)
        };
        let bytes = read().map_err(|source: std::io::Error| Error::Read {
            file: file.clone(),
            source: Arc::new(source),
        })?;
        Self::parse(bytes).map_err(|problem| Error::Data { file, problem: problem.into() })
    }

    /// Reads the contents of a file, or returns what is wrong with them.
    pub(super) fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        if !bytes.starts_with(&MAGIC) {
            let example = "MNIST's train-images-idx3-ubyte.gz";
            return Err(format!("it is not an IDX file of images, such as {example}"));
        }
        let truncated = || "the file is truncated".to_string();
        let header = bytes.get(..HEADER).ok_or_else(truncated)?;
        let size = |k: usize| {
            header[4 * k..4 * k + 4].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
        };
        let (count, height, width) = (size(1), size(2), size(3));
        let length = count.checked_mul(height).and_then(|rows| rows.checked_mul(width));
        match length {
            Some(length) if length > 0 => {
                let pixels = bytes[HEADER..].get(..length).ok_or_else(truncated)?.to_vec();
                Ok(Images { count, height, width, pixels })
            }
            _ => Err(format!("it holds {count} images of {height} x {width} pixels")),
        }
    }

    /// Returns the number of images.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the height and the width of an image.
    pub fn size(&self) -> (usize, usize) {
        (self.height, self.width)
    }

    /// Returns the pixels of all images, row by row and one image after the other.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn open(bytes: &[u8]) -> fdime::Result<Images> {
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
            assert_eq!(images.pixels(), [1, 2, 3, 4, 5, 6]);
        }
    }

    #[test]
    fn other_files_are_refused() {
        let error = |bytes: &[u8]| open(bytes).unwrap_err().to_string();
        assert!(error(b"x,y\n1,2\n").contains("not an IDX file of images"));
        assert!(error(&[0, 0, 8, 1, 0, 0, 0, 2, 1, 2]).contains("not an IDX file of images"));
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
