use super::arrow_column::{ArrowColumns, Layout};
use super::frame::Column;
use super::guard::without_panic;
use super::source::Source;
use crate::error::Result;
use crate::message::Message;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Compression;

/// A Parquet file whose footer has been read.
pub(super) struct ParquetTable {
    source: Source,
    metadata: ArrowReaderMetadata,
    layout: Layout,
}

impl ParquetTable {
    /// Reads the footer; returns the names of the columns and the table.
    pub(super) fn open(source: Source) -> Result<(Vec<String>, Self)> {
        let metadata = without_panic(|| {
            ArrowReaderMetadata::load(&source.body, ArrowReaderOptions::new())
                .map_err(|error| error.to_string().into())
        });
        let metadata = metadata.flatten().map_err(|reason| source.damaged("Parquet", reason))?;
        let layout = Layout::new(metadata.schema());
        Ok((layout.names.clone(), Self { source, metadata, layout }))
    }

    /// Returns the type of a column that is neither number nor text.
    pub(super) fn unreadable(&self, index: usize) -> Option<String> {
        self.layout.unreadable(self.metadata.schema(), index)
    }

    /// Decodes the wanted columns, some thousand rows at a time.
    pub(super) fn read(self, wanted: &[usize], names: &[&str]) -> Result<Vec<Column>> {
        let Self { source, metadata, layout } = self;
        without_panic(|| decode(&source, metadata, &layout, wanted, names))
            .unwrap_or_else(|reason| Err(source.damaged("Parquet", reason)))
    }
}

fn decode(
    source: &Source,
    metadata: ArrowReaderMetadata,
    layout: &Layout,
    wanted: &[usize],
    names: &[&str],
) -> Result<Vec<Column>> {
    let damaged = |reason: String| source.damaged("Parquet", reason);
    let fault = |problem: Message| source.fault(problem);
    let rows = metadata.metadata().file_metadata().num_rows();
    let rows = usize::try_from(rows).map_err(|_| damaged(format!("it claims {rows} rows")))?;
    source.memory.check_values(rows, wanted.len()).map_err(fault)?;
    let mut columns =
        ArrowColumns::new(metadata.schema(), layout, wanted, names, rows).map_err(fault)?;
    check_chunks(&metadata, &columns.roots, source)?;

    // The decoder returns columns in the file's order, each once.
    let roots = ProjectionMask::roots(metadata.parquet_schema(), columns.roots.iter().copied());
    let batches = ParquetRecordBatchReaderBuilder::new_with_metadata(source.body.clone(), metadata)
        .with_projection(roots)
        .with_batch_size(8192)
        .build()
        .map_err(|error| damaged(error.to_string()))?;

    let mut found = 0;
    for batch in batches {
        let batch = batch.map_err(|error| damaged(error.to_string()))?;
        found += batch.num_rows();
        if found > rows {
            break;
        }
        columns.append(batch.columns()).map_err(fault)?;
    }
    if found != rows {
        return Err(damaged(format!("it claims {rows} rows, but has {found}")));
    }
    Ok(columns.finish())
}

/// Returns an error if the chunks of these fields are compressed in a way that this build cannot
/// read, or are too large.
fn check_chunks(metadata: &ArrowReaderMetadata, roots: &[usize], source: &Source) -> Result<()> {
    let schema = metadata.parquet_schema();
    for group in metadata.metadata().row_groups() {
        let mut bytes = 0u64;
        for (leaf, chunk) in group.columns().iter().enumerate() {
            if roots.binary_search(&schema.get_column_root_idx(leaf)).is_err() {
                continue;
            }
            bytes = bytes.saturating_add(chunk.uncompressed_size().max(0) as u64);
            if let Compression::BROTLI(_) | Compression::LZO = chunk.compression() {
                let method = if chunk.compression() == Compression::LZO { "LZO" } else { "Brotli" };
                return Err(source.fault(format!(
                    "it is compressed with {method}, which cannot be read; write it with zstd or \
                     snappy"
                )));
            }
        }
        source.memory.check(bytes).map_err(|problem| source.fault(problem))?;
    }
    Ok(())
}
