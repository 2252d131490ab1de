//! The bytes of a table and their format.

use super::json_lines;
use super::reading::MemoryLimit;
use crate::error::{Error, Result, data_error, read_error};
use crate::message::Message;
use bytes::Bytes;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

/// A value, or a problem that does not name its file yet.
pub(super) type Checked<T> = std::result::Result<T, Message>;

/// A table's bytes and their name in errors.
pub(super) struct Source {
    /// The path that was given, or "standard input".
    pub(super) name: String,
    /// The bytes, decompressed; text of two bytes a character is converted to UTF-8.
    pub(super) body: Body,
    /// What the values may take.
    pub(super) memory: MemoryLimit,
    extension: String,
}

/// The formats that can be read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Format {
    Text,
    JsonLines,
    Parquet,
    ArrowFile,
    ArrowStream,
    Npy,
    /// NPZ, a workbook, or something else.
    Zip,
    /// A workbook of Excel before 2007.
    OldExcel,
}

/// The first bytes of files that cannot be read, what they are, and what to do.
const FOREIGN: [(&[u8], &str); 18] = [
    (b"PARE", "an encrypted Parquet file; decrypt it first"),
    (b"FEA1", "Feather version 1; write it as version 2"),
    (b"BZh", "compressed with bzip2; decompress it first, e.g. with bunzip2"),
    (b"\xfd7zXZ\0", "compressed with xz; decompress it first, e.g. with unxz"),
    (b"\x04\x22\x4d\x18", "compressed with lz4; decompress it first, e.g. with unlz4"),
    (b"7z\xbc\xaf", "a 7-Zip archive; extract the table first"),
    (b"Rar!", "a RAR archive; extract the table first"),
    (b"SQLite format 3\0", "an SQLite database; export the table as CSV or Parquet"),
    (b"\x89HDF\r\n", "an HDF5 file; export the table as Parquet or NPY"),
    (b"CDF", "a NetCDF file; export the table as CSV or Parquet"),
    (b"RDX", "an R workspace; write the table with write.csv or as Parquet"),
    (b"X\n\0\0", "an R object (RDS); write the table with write.csv or as Parquet"),
    (b"<stata_dta>", "a Stata file; export the table as CSV"),
    (b"$FL2", "an SPSS file; export the table as CSV"),
    (b"MATLAB 5.0 MAT-file", "a MATLAB file; export the table as CSV or NPY"),
    (b"ORC", "an ORC file; write it as Parquet"),
    (b"Obj\x01", "an Avro file; write it as Parquet"),
    (b"%PDF", "a PDF document; export the table as CSV"),
];

impl Source {
    /// Opens a file, or reads standard input if the path is "-". What has to be held in memory must
    /// not take more than `memory`.
    pub(super) fn open(path: &Path, memory: MemoryLimit) -> Result<Self> {
        if path == Path::new("-") {
            let name = "standard input";
            let body = read_all(std::io::stdin().lock(), name, memory)?;
            return Self::new(name.into(), String::new(), body, memory);
        }
        let name = path.display().to_string();
        let fail = |error: std::io::Error| read_error(&name, error);
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            return Err(data_error(&name, "it is a folder; give a file"));
        }
        let body = match metadata.is_file() {
            true => Body::File(Arc::new(file), metadata.len()),
            // A pipe can be read only once and only forwards.
            false => read_all(file, &name, memory)?,
        };
        let is_compressed = |extension: &&OsStr| ["gz", "zst"].iter().any(|z| *extension == *z);
        let uncompressed_name = match path.extension().filter(is_compressed) {
            Some(_) => path.file_stem().map_or(path, Path::new),
            None => path,
        };
        let extension = uncompressed_name.extension().unwrap_or_default();
        let extension = extension.to_string_lossy().to_ascii_lowercase();
        Self::new(name, extension, body, memory)
    }

    fn new(name: String, extension: String, body: Body, memory: MemoryLimit) -> Result<Self> {
        let mut source = Self { name, body, memory, extension };
        let start = source.start()?;
        let decompressed = match start.as_slice() {
            [0x1f, 0x8b, ..] => {
                let reader = flate2::bufread::MultiGzDecoder::new(source.body.buffered());
                Some(source.decompress(reader, "gzip")?)
            }
            #[cfg(feature = "zstd")]
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                let reader = zstd::stream::read::Decoder::new(source.body.reader());
                let reader = reader.map_err(|error| source.damaged("zstd", error))?;
                Some(source.decompress(reader, "zstd")?)
            }
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some(source.decode_utf16()?),
            _ => None,
        };
        if let Some(body) = decompressed {
            source.body = body;
        }
        match source.body.length() {
            0 => Err(source.fault("it is empty; a table with at least 20 rows is needed")),
            _ => Ok(source),
        }
    }

    fn decompress(&self, reader: impl Read, method: &str) -> Result<Body> {
        match read_limited(reader, self.memory) {
            Ok(Some(body)) => Ok(body),
            Ok(None) => Err(self.fault(self.memory.exceeded())),
            Err(error) => Err(self.damaged(method, error)),
        }
    }

    fn decode_utf16(&self) -> Result<Body> {
        let length = self.body.length();
        // A character of two bytes takes up to three in UTF-8.
        self.memory.check(length.saturating_mul(3)).map_err(|problem| self.fault(problem))?;
        let bytes = self.body.part(0, length).map_err(|error| self.read_error(error))?;
        // The decoder recognises the byte order by the mark at the beginning.
        let (text, _, damaged) = encoding_rs::UTF_16LE.decode(&bytes);
        match damaged {
            true => Err(self.damaged("UTF-16", "not a character")),
            false => Ok(Body::Memory(text.into_owned().into())),
        }
    }

    #[cfg(test)]
    pub(super) fn from_bytes(bytes: impl Into<Bytes>) -> Result<Self> {
        let memory = super::Reading::default().memory();
        Self::new("standard input".into(), String::new(), Body::Memory(bytes.into()), memory)
    }

    /// Returns the format by the first bytes, or by the extension if these do not decide.
    pub(super) fn format(&self) -> Result<Format> {
        let start = self.start()?;
        if let Some((_, what)) = FOREIGN.iter().find(|(magic, _)| start.starts_with(magic)) {
            return Err(self.fault(format!("it is {what}")));
        }
        Ok(match start.as_slice() {
            [b'P', b'A', b'R', b'1', ..] => Format::Parquet,
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => Format::ArrowFile,
            [0xff, 0xff, 0xff, 0xff, ..] => Format::ArrowStream,
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Format::Npy,
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Format::Zip,
            [0xd0, 0xcf, 0x11, 0xe0, ..] => Format::OldExcel,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                return Err(self.fault("it is compressed with zstd; decompress it first"));
            }
            [0x80, 2..=5, ..] => {
                return Err(self.fault(
                    "it is a Python pickle, and loading one can run any code; write the table as \
                     Parquet, NPY or CSV",
                ));
            }
            _ => match self.extension.as_str() {
                "parquet" => return Err(self.fault("it does not start like a Parquet file")),
                "arrow" | "feather" | "ipc" => {
                    return Err(self.fault("it does not start like an Arrow file"));
                }
                "npy" => return Err(self.fault("it does not start like an NPY file")),
                "npz" => return Err(self.fault("it does not start like an NPZ file")),
                "xlsx" | "xls" | "ods" => {
                    return Err(self.fault("it does not start like a workbook"));
                }
                "arrows" => Format::ArrowStream,
                "jsonl" | "ndjson" => Format::JsonLines,
                "json" => self.json()?,
                _ if start.starts_with(b"{\"") => self.json()?,
                _ if start.starts_with(b"[{") => self.json()?,
                _ => Format::Text,
            },
        })
    }

    /// Returns the format of JSON: lines of objects can be read, other documents cannot.
    fn json(&self) -> Result<Format> {
        const MAX_LINE: u64 = 1 << 24;
        let mut line = Vec::new();
        let read = self.body.buffered().take(MAX_LINE).read_until(b'\n', &mut line);
        read.map_err(|error| self.read_error(error))?;
        match json_lines::parse(&line) {
            Ok(_) => Ok(Format::JsonLines),
            _ => Err(self.fault(
                "it is a JSON document; write one object of numbers and texts for each row and \
                 line (JSON lines), e.g. with jq -c '.[]'",
            )),
        }
    }

    /// Returns the first bytes, which identify a format.
    fn start(&self) -> Result<Vec<u8>> {
        let mut start = Vec::new();
        let read = self.body.reader().take(24).read_to_end(&mut start);
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

/// Reads a stream to its end, unless it takes too much memory.
fn read_all(reader: impl Read, name: &str, memory: MemoryLimit) -> Result<Body> {
    match read_limited(reader, memory).map_err(|error| read_error(name, error))? {
        Some(body) => Ok(body),
        None => Err(data_error(name, memory.exceeded())),
    }
}

/// Reads a stream to its end; returns `None` if it takes too much memory.
fn read_limited(reader: impl Read, memory: MemoryLimit) -> std::io::Result<Option<Body>> {
    let mut bytes = Vec::new();
    // A vector that grows is copied, and then takes three times its length.
    let most = memory.bytes / 3;
    reader.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    bytes.shrink_to_fit();
    Ok((bytes.len() as u64 <= most).then(|| Body::Memory(bytes.into())))
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

    fn open(path: &Path) -> Result<Source> {
        Source::open(path, super::super::Reading::default().memory())
    }

    #[test]
    fn formats_are_recognised_by_their_content() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content, expected) in [
            ("a.csv", b"PAR1....".as_slice(), Format::Parquet),
            ("a", b"ARROW1\0\0", Format::ArrowFile),
            ("a.txt", b"\xff\xff\xff\xff\x10\0\0\0", Format::ArrowStream),
            ("a.npz", b"\x93NUMPY\x01\0", Format::Npy),
            ("a.npy", b"PK\x03\x04....", Format::Zip),
            ("a", b"{\"x\": 1}\n{\"x\": 2}\n", Format::JsonLines),
            ("a.dat", b"x,y\n", Format::Text),
            ("a.arrows", b"\x10\0\0\0....", Format::ArrowStream),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            assert_eq!(open(&path).unwrap().format().unwrap(), expected, "{name}");
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
        std::fs::write(place("odd.csv"), b"\xff\xfex\0,").unwrap();
        std::fs::write(place("a.csv.bz2"), b"BZh91AY").unwrap();
        std::fs::write(place("a.db"), b"SQLite format 3\0...").unwrap();
        std::fs::write(place("a.pkl"), b"\x80\x04\x95").unwrap();
        std::fs::write(place("a.json"), b"[{\"x\": 1}, {\"x\": 2}]").unwrap();
        for (name, expected) in [
            ("none.csv", "there is no such file"),
            (".", "it is a folder"),
            ("empty.csv", "it is empty"),
            ("cut.gz", "the gzip data is truncated"),
            ("a.parquet", "does not start like a Parquet file"),
            ("odd.csv", "the UTF-16 data is truncated"),
            ("a.csv.bz2", "it is compressed with bzip2; decompress it first, e.g. with bunzip2"),
            ("a.db", "it is an SQLite database"),
            ("a.pkl", "it is a Python pickle"),
            ("a.json", "it is a JSON document; write one object"),
        ] {
            let path = place(name);
            let error = match open(&path).and_then(|source| source.format()) {
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
    fn utf16_becomes_utf8() {
        for (mark, encode) in
            [(b"\xff\xfe", u16::to_le_bytes as fn(u16) -> [u8; 2]), (b"\xfe\xff", u16::to_be_bytes)]
        {
            let bytes = "é,y\n".encode_utf16().flat_map(encode);
            let bytes: Vec<u8> = mark.iter().copied().chain(bytes).collect();
            let source = Source::from_bytes(bytes).unwrap();
            assert_eq!(source.body.part(0, 5).unwrap(), "é,y\n".as_bytes());
        }
    }

    #[test]
    fn streams_end_at_the_limit_of_memory() {
        let memory = super::super::Reading { max_memory: Some(300_000), ..Default::default() };
        let endless = std::io::repeat(b'1');
        assert!(read_limited(endless, memory.memory()).unwrap().is_none());
        // Ten million zeros take ten thousand bytes.
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&vec![0; 10_000_000]).unwrap();
        let body = Body::Memory(gzip.finish().unwrap().into());
        let error = Source::new("a.gz".into(), String::new(), body, memory.memory()).err().unwrap();
        assert!(error.to_string().contains("takes more than the 0 MB that are allowed"), "{error}");
    }

    #[test]
    fn parts_beyond_the_end_are_refused() {
        let body = Body::Memory(Bytes::from_static(b"0123"));
        assert_eq!(body.part(1, 2).unwrap().as_ref(), b"12");
        assert!(body.part(1, 4).is_err() && body.part(u64::MAX, 1).is_err());
    }
}
