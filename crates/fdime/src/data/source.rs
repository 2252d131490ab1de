//! The bytes of a table and their format.

use crate::error::{Error, Result, data_error, read_error};
use crate::message::Message;
use bytes::Bytes;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

/// A value, or a problem that does not name its file yet.
pub(super) type Checked<T> = std::result::Result<T, Message>;

/// A table's bytes and their name in errors.
pub(super) struct Source {
    /// The path that was given, or "standard input".
    pub(super) name: String,
    /// The bytes, decompressed if they were gzip.
    pub(super) body: Body,
    extension: String,
}

/// The formats that can be read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Format {
    Text,
    Parquet,
    ArrowFile,
    ArrowStream,
    Npy,
    Npz,
}

impl Source {
    /// Opens a file, or reads standard input if the path is "-".
    pub(super) fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            let mut bytes = Vec::new();
            let name = "standard input";
            let read = std::io::stdin().lock().read_to_end(&mut bytes);
            read.map_err(|error| read_error(name, error))?;
            return Self::new(name.into(), String::new(), Body::Memory(bytes.into()));
        }
        let name = path.display().to_string();
        let fail = |error: std::io::Error| read_error(&name, error);
        let mut file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            return Err(data_error(&name, "it is a folder; give a file"));
        }
        let body = if metadata.is_file() {
            Body::File(Arc::new(file), metadata.len())
        } else {
            // A pipe can be read only once and only forwards.
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(fail)?;
            Body::Memory(bytes.into())
        };
        let name_without_gz = Path::new(&name)
            .extension()
            .filter(|extension| extension.eq_ignore_ascii_case("gz"))
            .and(path.file_stem())
            .map_or(path, Path::new);
        let extension = name_without_gz.extension().unwrap_or_default();
        let extension = extension.to_string_lossy().to_ascii_lowercase();
        Self::new(name, extension, body)
    }

    fn new(name: String, extension: String, body: Body) -> Result<Self> {
        let mut source = Self { name, body, extension };
        if source.start()?.starts_with(b"\x1f\x8b") {
            let mut bytes = Vec::new();
            flate2::bufread::MultiGzDecoder::new(source.body.buffered())
                .read_to_end(&mut bytes)
                .map_err(|error| source.damaged("gzip", error))?;
            source.body = Body::Memory(bytes.into());
        }
        match source.body.length() {
            0 => Err(source.fault("it is empty; a table with at least 20 rows is needed")),
            _ => Ok(source),
        }
    }

    #[cfg(test)]
    pub(super) fn from_bytes(bytes: impl Into<Bytes>) -> Result<Self> {
        Self::new("standard input".into(), String::new(), Body::Memory(bytes.into()))
    }

    /// Returns the format by the first bytes, or by the extension if these do not decide.
    pub(super) fn format(&self) -> Result<Format> {
        let start = self.start()?;
        Ok(match start.as_slice() {
            [b'P', b'A', b'R', b'1', ..] => Format::Parquet,
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => Format::ArrowFile,
            [0xff, 0xff, 0xff, 0xff, ..] => Format::ArrowStream,
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Format::Npy,
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Format::Npz,
            [b'P', b'A', b'R', b'E', ..] => {
                return Err(self.fault("it is an encrypted Parquet file; decrypt it first"));
            }
            [b'F', b'E', b'A', b'1', ..] => {
                return Err(self.fault("it is Feather version 1; write it as version 2"));
            }
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                return Err(self.fault("it is UTF-16 text; save it as UTF-8"));
            }
            _ => match self.extension.as_str() {
                "parquet" => return Err(self.fault("it does not start like a Parquet file")),
                "arrow" | "feather" | "ipc" => {
                    return Err(self.fault("it does not start like an Arrow file"));
                }
                "npy" => return Err(self.fault("it does not start like an NPY file")),
                "npz" => return Err(self.fault("it does not start like an NPZ file")),
                "arrows" => Format::ArrowStream,
                _ => Format::Text,
            },
        })
    }

    /// Returns the first bytes, which identify a format.
    fn start(&self) -> Result<Vec<u8>> {
        let mut start = Vec::new();
        let read = self.body.reader().take(8).read_to_end(&mut start);
        read.map_err(|error| self.read_error(error))?;
        Ok(start)
    }

    /// Returns the error for bytes that could not be read.
    pub(super) fn read_error(&self, error: std::io::Error) -> Error {
        read_error(&self.name, error)
    }

    /// Returns an error that names the file.
    pub(super) fn fault(&self, problem: impl Into<Message>) -> Error {
        data_error(&self.name, problem)
    }

    /// Returns the error for a format that was not compiled in.
    #[cfg(not(all(feature = "arrow", feature = "npz", feature = "parquet")))]
    pub(super) fn not_compiled_in(&self, format: &str, feature: &str) -> Error {
        self.fault(format!(
            "this build cannot read {format} files; build it with the feature `{feature}`"
        ))
    }

    /// Returns the error for bytes that do not follow their format.
    pub(super) fn damaged(&self, format: &str, reason: impl std::fmt::Display) -> Error {
        self.fault(format!("the {format} data is truncated or damaged ({reason}); write it again"))
    }
}

/// Bytes that can be read at any position, several times.
#[derive(Clone)]
pub(super) enum Body {
    File(Arc<File>, u64),
    Memory(Bytes),
}

impl Body {
    /// Returns the number of bytes.
    pub(super) fn length(&self) -> u64 {
        match self {
            Body::File(_, length) => *length,
            Body::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Returns a reader from the beginning, independent of other readers.
    pub(super) fn reader(&self) -> BodyReader {
        BodyReader { body: self.clone(), position: 0 }
    }

    /// Returns a buffered reader from the beginning.
    pub(super) fn buffered(&self) -> BufReader<BodyReader> {
        BufReader::with_capacity(1 << 16, self.reader())
    }

    /// Returns a part of the bytes. A part beyond the end is an error before any memory is
    /// allocated.
    pub(super) fn part(&self, start: u64, length: u64) -> std::io::Result<Bytes> {
        let end = start.checked_add(length).filter(|end| *end <= self.length());
        let (Some(end), Ok(capacity)) = (end, usize::try_from(length)) else {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        };
        match self {
            Body::Memory(bytes) => Ok(bytes.slice(start as usize..end as usize)),
            Body::File(..) => {
                let mut bytes = vec![0; capacity];
                BodyReader { body: self.clone(), position: start }.read_exact(&mut bytes)?;
                Ok(bytes.into())
            }
        }
    }
}

/// A position in a [`Body`].
pub(super) struct BodyReader {
    body: Body,
    position: u64,
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = match &self.body {
            Body::File(file, _) => {
                let mut file = file.as_ref();
                file.seek(SeekFrom::Start(self.position))?;
                file.read(buffer)?
            }
            Body::Memory(bytes) => {
                let start = self.position.min(bytes.len() as u64) as usize;
                (&bytes[start..]).read(buffer)?
            }
        };
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for BodyReader {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let target = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.body.length().checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = target.ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(feature = "parquet")]
impl parquet::file::reader::Length for Body {
    fn len(&self) -> u64 {
        self.length()
    }
}

#[cfg(feature = "parquet")]
impl parquet::file::reader::ChunkReader for Body {
    type T = BufReader<BodyReader>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(BufReader::new(BodyReader { body: self.clone(), position: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        Ok(self.part(start, length as u64)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn formats_are_recognised_by_their_content() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content, expected) in [
            ("a.csv", b"PAR1....".as_slice(), Format::Parquet),
            ("a", b"ARROW1\0\0", Format::ArrowFile),
            ("a.txt", b"\xff\xff\xff\xff\x10\0\0\0", Format::ArrowStream),
            ("a.npz", b"\x93NUMPY\x01\0", Format::Npy),
            ("a.npy", b"PK\x03\x04....", Format::Npz),
            ("a.dat", b"x,y\n", Format::Text),
            ("a.arrows", b"\x10\0\0\0....", Format::ArrowStream),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            assert_eq!(Source::open(&path).unwrap().format().unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn gzip_is_decompressed_under_any_name() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"\x93NUMPY..").unwrap();
        let source = Source::from_bytes(gzip.finish().unwrap()).unwrap();
        assert_eq!(source.format().unwrap(), Format::Npy);
        assert_eq!(source.body.length(), 8);
    }

    #[test]
    fn files_that_are_not_tables_are_refused_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        std::fs::write(place("empty.csv"), "").unwrap();
        std::fs::write(place("cut.gz"), b"\x1f\x8b\x08\0\0").unwrap();
        std::fs::write(place("a.parquet"), b"x,y\n1,2\n").unwrap();
        std::fs::write(place("utf16.csv"), b"\xff\xfex\0,\0").unwrap();
        for (name, expected) in [
            ("none.csv", "there is no such file"),
            (".", "it is a folder"),
            ("empty.csv", "it is empty"),
            ("cut.gz", "the gzip data is truncated"),
            ("a.parquet", "does not start like a Parquet file"),
            ("utf16.csv", "save it as UTF-8"),
        ] {
            let path = place(name);
            let error = match Source::open(&path).and_then(|source| source.format()) {
                Ok(format) => panic!("{name} was taken for {format:?}"),
                Err(error) => error.to_string(),
            };
            assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
            assert!(error.starts_with(&path.display().to_string()), "{error}");
        }
        let error = Source::from_bytes(Vec::new()).err().unwrap().to_string();
        assert!(error.starts_with("standard input: it is empty"), "{error}");
    }

    #[test]
    fn parts_beyond_the_end_are_refused() {
        let body = Body::Memory(Bytes::from_static(b"0123"));
        assert_eq!(body.part(1, 2).unwrap().as_ref(), b"12");
        assert!(body.part(1, 4).is_err() && body.part(u64::MAX, 1).is_err());
    }
}
