use super::arrow_column::ArrowColumn;
use super::frame::Column;
use super::guard::without_panic;
use super::source::Source;
use crate::error::Result;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};

/// A Parquet file whose footer has been read.
pub(super) struct ParquetTable {
    source: Source,
    metadata: ArrowReaderMetadata,
}

impl ParquetTable {
    /// Reads the footer; returns the names of the columns and the table.
    pub(super) fn open(source: Source) -> Result<(Vec<String>, Self)> {
        let metadata = without_panic(|| {
            ArrowReaderMetadata::load(&source.body, ArrowReaderOptions::new())
                .map_err(|error| error.to_string().into())
        });
        let metadata = metadata.flatten().map_err(|reason| source.damaged("Parquet", reason))?;
        let fields = metadata.schema().fields();
        let names = fields.iter().map(|field| field.name().clone()).collect();
        Ok((names, Self { source, metadata }))
    }

    /// Decodes the wanted columns, some thousand rows at a time.
    pub(super) fn read(self, wanted: &[usize], names: &[&str]) -> Result<Vec<Column>> {
        let Self { source, metadata } = self;
        without_panic(|| decode(&source, metadata, wanted, names))
            .unwrap_or_else(|reason| Err(source.damaged("Parquet", reason)))
    }
}

fn decode(
    source: &Source,
    metadata: ArrowReaderMetadata,
    wanted: &[usize],
    names: &[&str],
) -> Result<Vec<Column>> {
    let damaged = |reason: String| source.damaged("Parquet", reason);
    let rows = metadata.metadata().file_metadata().num_rows();
    let rows = usize::try_from(rows).map_err(|_| damaged(format!("it claims {rows} rows")))?;
    let columns = wanted.iter().zip(names).map(|(index, name)| {
        let field = metadata.schema().field(*index);
        ArrowColumn::new(name, field, rows).map_err(|problem| source.fault(problem))
    });
    let mut columns = columns.collect::<Result<Vec<ArrowColumn>>>()?;

    // The decoder returns columns in the file's order, each once.
    let mut sorted = wanted.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let roots = ProjectionMask::roots(metadata.parquet_schema(), sorted.iter().copied());
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
        for (column, index) in columns.iter_mut().zip(wanted) {
            let position = sorted.partition_point(|other| other < index);
            let array = batch.columns().get(position);
            let array = array.ok_or_else(|| damaged("a column is missing".into()))?;
            column.append(array).map_err(|problem| source.fault(problem))?;
        }
    }
    if found != rows {
        return Err(damaged(format!("it claims {rows} rows, but has {found}")));
    }
    Ok(columns.into_iter().map(ArrowColumn::finish).collect())
}
