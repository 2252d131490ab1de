use super::arrow_column::{ArrowColumns, Layout};
use super::frame::Column;
use super::guard::without_panic;
use super::source::{Checked, Source};
use crate::error::{Error, Result};
use crate::message::Message;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary, read_footer_length};
use arrow_schema::{Schema, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;

const CONTINUATION: u32 = u32::MAX;

/// A table in Arrow's interprocess format. A file ends with an index of its messages; a stream has
/// to be scanned for them. The rest is the same for both.
///
/// The messages are found here and not by the crate's readers, because those allocate the lengths
/// that compressed buffers claim, and a failed allocation ends the program.
pub(super) struct ArrowTable {
    source: Source,
    schema: SchemaRef,
    layout: Layout,
    messages: Vec<Extent>,
}

/// The schema and the positions of the messages with data.
type Contents = (Schema, Vec<Extent>);

/// The position of a message: its metadata, followed by its body.
#[derive(Clone, Copy)]
struct Extent {
    start: u64,
    metadata: u64,
    body: u64,
}

impl ArrowTable {
    /// Reads the footer; returns the names of the columns and the table.
    pub(super) fn open_file(source: Source) -> Result<(Vec<String>, Self)> {
        Self::open(source, file_messages)
    }

    /// Scans the messages; returns the names of the columns and the table.
    pub(super) fn open_stream(source: Source) -> Result<(Vec<String>, Self)> {
        Self::open(source, stream_messages)
    }

    fn open(source: Source, find: fn(&Source) -> Checked<Contents>) -> Result<(Vec<String>, Self)> {
        let found = without_panic(|| find(&source)).flatten();
        let (schema, messages) = found.map_err(|reason| source.damaged("Arrow", reason))?;
        let layout = Layout::new(&schema);
        let names = layout.names.clone();
        Ok((names, Self { source, schema: Arc::new(schema), layout, messages }))
    }

    /// Returns the type of a column that is neither number nor text.
    pub(super) fn unreadable(&self, index: usize) -> Option<String> {
        self.layout.unreadable(&self.schema, index)
    }

    /// Decodes the wanted columns, message by message.
    pub(super) fn read(self, wanted: &[usize], names: &[&str]) -> Result<Vec<Column>> {
        without_panic(|| self.decode(wanted, names))
            .unwrap_or_else(|reason| Err(self.source.damaged("Arrow", reason)))
    }

    fn decode(&self, wanted: &[usize], names: &[&str]) -> Result<Vec<Column>> {
        let fault = |problem: Message| -> Error { self.source.fault(problem) };
        let columns = ArrowColumns::new(&self.schema, &self.layout, wanted, names, 0);
        let mut columns = columns.map_err(fault)?;
        let (mut dictionaries, mut rows) = (HashMap::new(), 0);
        for extent in &self.messages {
            let arrays = self.arrays(extent, &columns.roots, &mut dictionaries)?;
            if let Some(first) = arrays.first() {
                rows += first.len();
                self.source.memory.check_values(rows, wanted.len()).map_err(fault)?;
                columns.append(&arrays).map_err(fault)?;
            }
        }
        Ok(columns.finish())
    }

    /// Returns the fields `roots` of a message with rows. A message with a dictionary is added to
    /// `dictionaries` and has no columns.
    fn arrays(
        &self,
        extent: &Extent,
        roots: &[usize],
        dictionaries: &mut HashMap<i64, ArrayRef>,
    ) -> Result<Vec<ArrayRef>> {
        let damaged = |reason: Message| self.source.damaged("Arrow", reason);
        let claimed = self.claimed_bytes(extent).map_err(damaged)?;
        self.source.memory.check(claimed).map_err(|problem| self.source.fault(problem))?;
        self.decode_message(extent, roots, dictionaries).map_err(damaged)
    }

    /// Returns how many bytes a message takes when it is decompressed.
    fn claimed_bytes(&self, extent: &Extent) -> Checked<u64> {
        let metadata = part(&self.source, extent.start, extent.metadata)?;
        let message = parse(flatbuffer(&metadata)?)?;
        let body = part(&self.source, extent.start + extent.metadata, extent.body)?;
        let dictionary = message.header_as_dictionary_batch().and_then(|batch| batch.data());
        match message.header_as_record_batch().or(dictionary) {
            Some(batch) => claimed_length(&batch, &body),
            None => Ok(0),
        }
    }

    fn decode_message(
        &self,
        extent: &Extent,
        roots: &[usize],
        dictionaries: &mut HashMap<i64, ArrayRef>,
    ) -> Checked<Vec<ArrayRef>> {
        let metadata = part(&self.source, extent.start, extent.metadata)?;
        let message = parse(flatbuffer(&metadata)?)?;
        let body = part(&self.source, extent.start + extent.metadata, extent.body)?;
        let version = message.version();
        if let Some(dictionary) = message.header_as_dictionary_batch() {
            dictionary.data().ok_or("a dictionary without data")?;
            read_dictionary(&body, dictionary, &self.schema, dictionaries, &version)
                .map_err(|error| error.to_string())?;
            return Ok(Vec::new());
        }
        let batch = message.header_as_record_batch().ok_or("a message of unknown kind")?;
        let schema = self.schema.clone();
        let batch = RecordBatchDecoder::try_new(&body, batch, schema, dictionaries, &version)
            .and_then(|decoder| decoder.with_projection(Some(roots)).read_record_batch())
            .map_err(|error| error.to_string())?;
        if let Some(array) = batch.columns().iter().find(|array| array.len() != batch.num_rows()) {
            return Err(format!("{} values in {} rows", array.len(), batch.num_rows()).into());
        }
        Ok(batch.columns().to_vec())
    }
}

/// Returns the schema and the messages with data that a file's footer lists, dictionaries first.
fn file_messages(source: &Source) -> Checked<Contents> {
    let length = source.body.length();
    let tail_start = length.checked_sub(10).ok_or("it ends in its first bytes")?;
    let tail = part(source, tail_start, 10)?;
    let tail = tail.as_slice().try_into().map_err(|_| "it ends in its first bytes")?;
    let footer_length = read_footer_length(tail).map_err(|error| error.to_string())? as u64;
    let footer_start = tail_start.checked_sub(footer_length).ok_or("its footer is cut off")?;
    let footer = part(source, footer_start, footer_length)?;
    let footer = arrow_ipc::root_as_footer(&footer).map_err(|error| error.to_string())?;
    let schema = convert(footer.schema().ok_or("a footer without schema")?)?;
    let dictionaries = footer.dictionaries().into_iter().flatten();
    let batches = footer.recordBatches().into_iter().flatten();
    let extents = dictionaries.chain(batches).map(|block| {
        let size = |value: i64| u64::try_from(value).map_err(|_| format!("a size of {value}"));
        Ok(Extent {
            start: size(block.offset())?,
            metadata: size(block.metaDataLength().into())?,
            body: size(block.bodyLength())?,
        })
    });
    Ok((schema, extents.collect::<Checked<_>>()?))
}

/// Returns the schema and the messages with data of a stream, in its order.
fn stream_messages(source: &Source) -> Checked<Contents> {
    let (mut schema, mut extents, mut start) = (None, Vec::new(), 0);
    while start < source.body.length() {
        let (prefix, size) = message_size(source, start)?;
        if size == 0 {
            break;
        }
        let metadata = part(source, start, prefix + size)?;
        let message = parse(flatbuffer(&metadata)?)?;
        let body = message.bodyLength();
        let body = u64::try_from(body).map_err(|_| format!("a body of {body} bytes"))?;
        let end = (start + prefix + size).checked_add(body);
        let end = end.filter(|end| *end <= source.body.length()).ok_or("a message is cut off")?;
        match message.header_as_schema() {
            Some(found) if schema.is_none() => schema = Some(convert(found)?),
            Some(_) => return Err("a second schema".into()),
            None => extents.push(Extent { start, metadata: prefix + size, body }),
        }
        start = end;
    }
    Ok((schema.ok_or("a stream without schema")?, extents))
}

/// Returns the lengths of a message's prefix and of its metadata.
fn message_size(source: &Source, start: u64) -> Checked<(u64, u64)> {
    let number = |at: u64| {
        let bytes = part(source, at, 4)?;
        let bytes = bytes.as_slice().try_into().map_err(|_| "a message is cut off")?;
        Ok::<u32, Message>(u32::from_le_bytes(bytes))
    };
    match number(start)? {
        CONTINUATION => Ok((8, number(start + 4)?.into())),
        size => Ok((4, size.into())),
    }
}

/// Returns a message's metadata without the prefix, which has 4 bytes in files from before 2019.
fn flatbuffer(metadata: &[u8]) -> Checked<&[u8]> {
    let prefix = if metadata.starts_with(&CONTINUATION.to_le_bytes()) { 8 } else { 4 };
    metadata.get(prefix..).ok_or_else(|| "a message is cut off".into())
}

fn parse(flatbuffer: &[u8]) -> Checked<arrow_ipc::Message<'_>> {
    arrow_ipc::root_as_message(flatbuffer).map_err(|error| error.to_string().into())
}

fn convert(schema: arrow_ipc::Schema<'_>) -> Checked<Schema> {
    if !schema.endianness().equals_to_target_endianness() {
        return Err("its bytes are in the order of another kind of processor".into());
    }
    arrow_ipc::convert::try_fb_to_schema(schema).map_err(|error| error.to_string().into())
}

fn part(source: &Source, start: u64, length: u64) -> Checked<Buffer> {
    Ok(Buffer::from(source.body.part(start, length).map_err(|error| error.to_string())?))
}

/// Returns how many bytes the buffers of a batch take when they are decompressed. A claim that the
/// codec cannot reach is an error.
fn claimed_length(batch: &arrow_ipc::RecordBatch<'_>, body: &[u8]) -> Checked<u64> {
    // Zstandard encodes 128 KiB of one byte in 4 bytes, LZ4 needs more.
    const MAX_RATIO: u64 = 1 << 16;
    if batch.compression().is_none() {
        return Ok(body.len() as u64);
    }
    let mut total = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let start = usize::try_from(buffer.offset()).map_err(|error| error.to_string())?;
        let length = u64::try_from(buffer.length()).map_err(|error| error.to_string())?;
        let Some(claimed) = body.get(start..).and_then(|rest| rest.first_chunk::<8>()) else {
            continue;
        };
        // An empty buffer has no length prefix; these bytes belong to the next buffer.
        if length < 8 {
            continue;
        }
        let claimed = u64::try_from(i64::from_le_bytes(*claimed)).unwrap_or(length);
        if claimed > length.saturating_mul(MAX_RATIO) {
            return Err(format!("{length} compressed bytes claim to hold {claimed}").into());
        }
        total = total.saturating_add(claimed);
    }
    Ok(total)
}
