//! Tables in every format read equal, and damaged files are errors.

use arrow_array::types::{Float32Type, Int8Type};
use arrow_array::*;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use fdime::data::{Column, Frame, MISSING, Reading, Values, open};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use proptest::sample::Index;
use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::{Arc, Once};

const ROWS: usize = 40;

/// Returns the cells of a row: a number and a text that may be missing, an integer, a truth value.
fn cells(row: usize) -> (Option<f64>, i64, Option<&'static str>, bool) {
    let number = (row != 3).then_some(row as f64 / 7.0 - 2.0);
    let text = (row != 5).then_some(["north", "süd", "east, far"][row * row % 3]);
    (number, row as i64 - 20, text, row % 4 == 1)
}

fn expected() -> Frame {
    let discrete = |labels: Vec<Option<&str>>| {
        let mut known: Vec<String> = Vec::new();
        let codes = labels.into_iter().map(|label| {
            let Some(label) = label else { return MISSING };
            let at = known.iter().position(|other| other == label);
            at.unwrap_or_else(|| {
                known.push(label.to_string());
                known.len() - 1
            }) as u32
        });
        let codes = codes.collect();
        Values::Discrete { codes, labels: known }
    };
    let rows = || (0..ROWS).map(cells);
    let column = |name: &str, values| Column { name: name.into(), values };
    let columns = vec![
        column("a", Values::Continuous(rows().map(|row| row.0.unwrap_or(f64::NAN)).collect())),
        column("n", Values::Continuous(rows().map(|row| row.1 as f64).collect())),
        column("t", discrete(rows().map(|row| row.2).collect())),
        column(
            "b",
            discrete(rows().map(|row| Some(if row.3 { "true" } else { "false" })).collect()),
        ),
    ];
    Frame { columns, rows: ROWS, notes: Vec::new() }
}

fn csv(delimiter: char) -> Vec<u8> {
    let mut text = format!("a{delimiter}n{delimiter}t{delimiter}b\r\n");
    for (number, integer, label, truth) in (0..ROWS).map(cells) {
        let number = number.map_or(String::new(), |number| number.to_string());
        let label = label.map_or("NA".into(), |label| format!("\"{label}\""));
        text += &format!("{number}{delimiter}{integer}{delimiter}{label}{delimiter}{truth}\r\n");
    }
    text.into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn batch(start: usize, end: usize, dictionary: bool) -> RecordBatch {
    let rows = || (start..end).map(cells);
    let texts: Vec<Option<&str>> = rows().map(|row| row.2).collect();
    let texts: ArrayRef = match dictionary {
        true => Arc::new(texts.into_iter().collect::<DictionaryArray<Int8Type>>()),
        false => Arc::new(StringArray::from(texts)),
    };
    RecordBatch::try_from_iter_with_nullable([
        ("a", Arc::new(rows().map(|row| row.0).collect::<Float64Array>()) as ArrayRef, true),
        ("n", Arc::new(rows().map(|row| Some(row.1)).collect::<Int64Array>()), true),
        ("t", texts, true),
        ("b", Arc::new(rows().map(|row| Some(row.3)).collect::<BooleanArray>()), true),
    ])
    .unwrap()
}

fn parquet_file(compression: Compression, dictionary: bool) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_dictionary_enabled(dictionary)
        .set_max_row_group_row_count(Some(25))
        .build();
    let batch = batch(0, ROWS, dictionary);
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn arrow(stream: bool, compression: Option<CompressionType>, dictionary: bool) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    // Two messages, but one in a file with a dictionary, which can hold only one dictionary.
    let cut = if dictionary && !stream { ROWS } else { 17 };
    let batches = [batch(0, cut, dictionary), batch(cut, ROWS, dictionary)];
    let batches = batches.iter().filter(|batch| batch.num_rows() > 0);
    let schema = batch(0, 1, dictionary).schema();
    let mut bytes = Vec::new();
    if stream {
        let mut writer = StreamWriter::try_new_with_options(&mut bytes, &schema, options).unwrap();
        batches.for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    } else {
        let mut writer = FileWriter::try_new_with_options(&mut bytes, &schema, options).unwrap();
        batches.for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    }
    bytes
}

fn npy_array(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': True, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\0".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn doubles(values: impl Iterator<Item = f64>) -> Vec<u8> {
    values.flat_map(f64::to_le_bytes).collect()
}

fn npy() -> Vec<u8> {
    let rows = || (0..ROWS).map(cells);
    let first = rows().map(|row| row.0.unwrap_or(f64::NAN));
    npy_array("<f8", "(40, 2)", &doubles(first.chain(rows().map(|row| row.1 as f64))))
}

fn npz(method: zip::CompressionMethod) -> Vec<u8> {
    let rows = || (0..ROWS).map(cells);
    let texts = rows().flat_map(|row| {
        let mut text = row.2.unwrap_or("").to_string().into_bytes();
        text.resize(9, 0);
        text
    });
    let arrays = [
        ("a", npy_array("<f8", "(40,)", &doubles(rows().map(|r| r.0.unwrap_or(f64::NAN))))),
        ("n", npy_array(">i2", "(40, 1)", &be_shorts(rows().map(|row| row.1 as i16)))),
        ("t", npy_array("|S9", "(40,)", &texts.collect::<Vec<u8>>())),
        ("b", npy_array("|b1", "(40,)", &rows().map(|row| row.3.into()).collect::<Vec<u8>>())),
    ];
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in arrays {
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(&bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn json_lines() -> Vec<u8> {
    let lines = (0..ROWS).map(|row| {
        let (number, integer, label, truth) = cells(row);
        serde_json::json!({"a": number, "n": integer, "t": label, "b": truth}).to_string()
    });
    lines.collect::<Vec<_>>().join("\n").into_bytes()
}

/// The smallest workbook: one sheet with texts in its cells.
fn workbook() -> Vec<u8> {
    let text = |text: &str| format!("<c t=\"inlineStr\"><is><t>{text}</t></is></c>");
    let header: String = ["a", "n", "t", "b"].map(text).concat();
    let rows: String = (0..ROWS)
        .map(|row| {
            let (number, integer, label, truth) = cells(row);
            let number = number.map_or("<c/>".into(), |number| format!("<c><v>{number}</v></c>"));
            let label = label.map_or("<c/>".into(), text);
            let truth = u8::from(truth);
            format!(
                "<row>{number}<c><v>{integer}</v></c>{label}<c t=\"b\"><v>{truth}</v></c></row>"
            )
        })
        .collect();
    let main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    let office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let package = "http://schemas.openxmlformats.org/package/2006";
    let relation = |kind: &str, target: &str| {
        format!(
            "<Relationships xmlns=\"{package}/relationships\"><Relationship Id=\"r1\" \
             Type=\"{office}/{kind}\" Target=\"{target}\"/></Relationships>"
        )
    };
    let parts = [
        ("[Content_Types].xml", format!("<Types xmlns=\"{package}/content-types\"/>")),
        ("_rels/.rels", relation("officeDocument", "xl/workbook.xml")),
        (
            "xl/workbook.xml",
            format!(
                "<workbook xmlns=\"{main}\" xmlns:r=\"{office}\"><sheets><sheet name=\"Data\" \
                 sheetId=\"1\" r:id=\"r1\"/></sheets></workbook>"
            ),
        ),
        ("xl/_rels/workbook.xml.rels", relation("worksheet", "worksheets/sheet1.xml")),
        (
            "xl/worksheets/sheet1.xml",
            format!(
                "<worksheet xmlns=\"{main}\"><sheetData><row>{header}</row>{rows}</sheetData>\
                 </worksheet>"
            ),
        ),
    ];
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, part) in parts {
        archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(part.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn be_shorts(values: impl Iterator<Item = i16>) -> Vec<u8> {
    values.flat_map(i16::to_be_bytes).collect()
}

fn parquet_files() -> Vec<Vec<u8>> {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::GZIP(GzipLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
    ];
    let files = codecs.into_iter().flat_map(|codec| [(codec, true), (codec, false)]);
    files.map(|(codec, dictionary)| parquet_file(codec, dictionary)).collect()
}

fn arrow_files() -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for stream in [false, true] {
        for codec in [None, Some(CompressionType::ZSTD), Some(CompressionType::LZ4_FRAME)] {
            files.extend([arrow(stream, codec, false), arrow(stream, codec, true)]);
        }
    }
    files
}

fn npz_files() -> Vec<Vec<u8>> {
    vec![npz(zip::CompressionMethod::Stored), npz(zip::CompressionMethod::Deflated)]
}

fn read_all(path: &Path) -> fdime::Result<Frame> {
    let opened = open(path, &Reading::default())?;
    let all: Vec<usize> = (0..opened.names().len()).collect();
    opened.read(&all)
}

#[test]
fn all_formats_read_equal() {
    let expected = expected();
    let folder = tempfile::tempdir().unwrap();
    // No extension: the format is recognised by the content.
    let path = folder.path().join("table");
    let texts = [',', ';', '\t', '|'].map(csv).into_iter();
    let others = [json_lines(), workbook()];
    for bytes in texts.chain(parquet_files()).chain(arrow_files()).chain(others) {
        for bytes in [gzip(&bytes), zstd::encode_all(&bytes[..], 3).unwrap(), bytes] {
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(read_all(&path).unwrap(), expected);
            // Some of the columns, in another order.
            let some = open(&path, &Reading::default()).unwrap().read(&[2, 0]).unwrap();
            assert_eq!(some.columns[0], expected.columns[2]);
            assert_eq!(some.columns[1], expected.columns[0]);
        }
    }
    for bytes in npz_files().into_iter().chain([npy()]) {
        std::fs::write(&path, &bytes).unwrap();
        let frame = read_all(&path).unwrap();
        assert!(frame.columns.len() >= 2);
        for (column, expected) in frame.columns.iter().zip(&expected.columns) {
            assert_eq!(column.values, expected.values, "{}", column.name);
        }
    }
}

#[test]
fn lists_of_equal_length_are_many_columns() {
    let rows = (0..ROWS).map(|row| {
        (row != 3).then(|| (0..3).map(|element| Some((10 * row + element) as f32)).collect())
    });
    let rows: Vec<Option<Vec<Option<f32>>>> = rows.collect();
    let embedding = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 3);
    let label = Int64Array::from_iter_values((0..ROWS as i64).map(|row| row % 5));
    let columns = [("e", Arc::new(embedding) as ArrayRef), ("label", Arc::new(label))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut parquet = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    parquet.write(&batch).unwrap();
    let mut arrow = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    arrow.write(&batch).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    for bytes in [parquet.into_inner().unwrap(), arrow.into_inner().unwrap()] {
        std::fs::write(&path, bytes).unwrap();
        let opened = open(&path, &Reading::default()).unwrap();
        assert_eq!(opened.names(), ["e1", "e2", "e3", "label"]);
        let frame = opened.read(&[3, 2, 0]).unwrap();
        let Values::Continuous(values) = &frame.columns[1].values else { panic!() };
        assert!(values[3].is_nan());
        assert_eq!((values[4], frame.columns[0].name.as_str()), (42.0, "label"));
    }
}

/// Small files that unpack to many values meet the limit of memory before they are unpacked.
#[test]
fn small_files_with_many_values_are_refused() {
    let rows = 3_000_000;
    let column = Arc::new(Float64Array::from(vec![1.5; rows])) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("a", column.clone()), ("b", column)]).unwrap();
    let mut parquet = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    parquet.write(&batch).unwrap();
    let zstd = Some(CompressionType::ZSTD);
    let options = IpcWriteOptions::default().try_with_compression(zstd).unwrap();
    let mut arrow = FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    arrow.write(&batch).unwrap();
    let array = npy_array("<f8", &format!("({rows}, 2)"), &vec![0; 16 * rows]);
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("a.npy", zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(&array).unwrap();
    let npz = archive.finish().unwrap().into_inner();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let reading = Reading { max_memory: Some(40_000_000), ..Reading::default() };
    for bytes in [parquet.into_inner().unwrap(), arrow.into_inner().unwrap(), npz] {
        assert!(bytes.len() < 100_000, "{}", bytes.len());
        std::fs::write(&path, bytes).unwrap();
        let error = open(&path, &reading).and_then(|opened| opened.read(&[0, 1])).unwrap_err();
        assert!(error.to_string().contains("it takes more than the 40 MB"), "{error}");
    }
}

/// Integers of which a 64-bit floating-point number has too few digits are refused, not rounded.
#[test]
fn no_format_rounds_integers() {
    let integers = [1i64 << 62, (1 << 62) + 1];
    let column = Arc::new(Int64Array::from(integers.to_vec())) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    let mut parquet = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    parquet.write(&batch).unwrap();
    let mut arrow = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    arrow.write(&batch).unwrap();
    let data: Vec<u8> = integers.iter().flat_map(|integer| integer.to_le_bytes()).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    for bytes in [
        parquet.into_inner().unwrap(),
        arrow.into_inner().unwrap(),
        npy_array("<i8", "(2, 1)", &data),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = read_all(&path).unwrap_err().to_string();
        let expected = "has an integer above 2^53, which would be rounded, in row 2; subtract";
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn files_cut_short_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let texts = [gzip(&csv(','))].into_iter();
    for bytes in texts.chain(parquet_files()).chain(arrow_files()).chain(npz_files()).chain([npy()])
    {
        for kept in [bytes.len() / 2, bytes.len() - 9] {
            std::fs::write(&path, &bytes[..kept]).unwrap();
            let error = read_all(&path).unwrap_err().to_string();
            assert!(error.contains("truncated or damaged"), "{error}");
        }
    }
}

/// A change to a file's bytes.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Set(Index, u8),
    Cut(Index),
    Insert(Index, Vec<u8>),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => (any::<Index>(), 0u8..8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => (any::<Index>(), proptest::collection::vec(any::<u8>(), 1..9))
            .prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len();
        match self {
            Damage::Flip(at, bit) => bytes[at.index(length)] ^= 1 << bit,
            Damage::Set(at, byte) => bytes[at.index(length)] = *byte,
            Damage::Cut(at) => bytes.truncate(at.index(length)),
            Damage::Insert(at, new) => {
                let at = at.index(length);
                bytes.splice(at..at, new.iter().copied());
            }
        }
    }
}

/// Silences panics that the library returns as errors, as the command line does.
fn silence_caught_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !fdime::panic_is_caught() {
                print(info);
            }
        }));
    });
}

/// Reads damaged copies of files. The result must be a table or an error of one line that names the
/// file, and the process must not use more than 1 GiB of memory.
fn survive_damage(files: Vec<Vec<u8>>) {
    silence_caught_panics();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 10_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let damages = proptest::collection::vec(damage(), 1..5);
    runner
        .run(&(any::<Index>(), damages), |(file, damages)| {
            let mut bytes = file.get(&files).clone();
            damages.iter().for_each(|damage| damage.apply(&mut bytes));
            std::fs::write(&path, &bytes).unwrap();
            if let Err(error) = read_all(&path) {
                let text = error.to_string();
                prop_assert!(text.starts_with(&path.display().to_string()), "{}", text);
                prop_assert_eq!(text.lines().count(), 1, "{}", text);
            }
            Ok(())
        })
        .unwrap();
    #[cfg(target_os = "linux")]
    {
        let peak = peak_memory_mib().unwrap();
        assert!(peak < 1024, "{peak} MiB");
    }
}

/// Returns the peak memory of this process.
#[cfg(target_os = "linux")]
fn peak_memory_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}

#[test]
fn damaged_csv() {
    survive_damage([',', ';', '\t', '|'].map(csv).to_vec());
}

#[test]
fn damaged_gzipped_csv() {
    survive_damage(vec![gzip(&csv(','))]);
}

#[test]
fn damaged_parquet() {
    survive_damage(parquet_files());
}

#[test]
fn damaged_arrow() {
    survive_damage(arrow_files());
}

#[test]
fn damaged_npy() {
    survive_damage(vec![npy()]);
}

#[test]
fn damaged_npz() {
    survive_damage(npz_files());
}

#[test]
fn damaged_json_lines() {
    survive_damage(vec![json_lines()]);
}

#[test]
fn damaged_workbook() {
    survive_damage(vec![workbook()]);
}
