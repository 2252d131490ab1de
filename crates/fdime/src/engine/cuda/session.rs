//! A program in the device's memory, and its execution.

use super::abi::TableSpec;
use super::device::{Device, describe, guarded};
use super::device_error;
use super::memory::DeviceSlice;
use super::network::Network;
use super::plan::RunSpec;
use super::program::{Launch, ParameterBlock, Program, padded};
use super::table::{Lists, RunTable};
use crate::critic::Batch;
use crate::error::{Error, Result};
use bytemuck::Pod;
use cudarc::driver::sys::CUfunction_attribute_enum as Attribute;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{
    CudaEvent, CudaFunction, CudaGraph, CudaModule, CudaSlice, DevicePtr, DriverError, result, sys,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

/// A program with its memory on the device.
pub(super) struct Session<'a> {
    device: &'a Device,
    program: Program,
    functions: RefCell<HashMap<String, CudaFunction>>,
    module: Arc<CudaModule>,
    /// The addresses of `_memory`.
    bounds: Range<u64>,
    /// All memory of the program. It outlives the work on the stream (see `Drop`).
    _memory: CudaSlice<u8>,
}

impl<'a> Session<'a> {
    /// Allocates `size` bytes of zeros; `program` lays itself out from the address it is given.
    pub(super) fn new(
        device: &'a Device,
        module: Arc<CudaModule>,
        size: u64,
        program: impl FnOnce(u64) -> Program,
    ) -> Result<Self> {
        let memory =
            guarded(|| device.stream.alloc_zeros::<u8>(size as usize)).map_err(|error| {
                let megabytes = size as f64 / 1e6;
                let name = &device.name;
                device_error(format!("{name} has no {megabytes:.0} MB of memory left: {error}"))
            })?;
        let start = memory.device_ptr(&device.stream).0;
        let bounds = start..start + size;
        let program = program(start);
        assert!(program.end <= bounds.end, "the program needs more memory than it measured");
        let functions = RefCell::default();
        Ok(Session { device, program, functions, module, bounds, _memory: memory })
    }

    /// Returns the address of a slice. Panics if it does not lie within the session's memory.
    fn checked<T: Pod>(&self, slice: DeviceSlice<T>) -> u64 {
        let bytes = slice.bytes();
        let inside = self.bounds.start <= bytes.start && bytes.end <= self.bounds.end;
        assert!(inside, "{bytes:?} lies outside of {:?}", self.bounds);
        bytes.start
    }

    /// Copies values to the start of a slice.
    fn write<T: Pod>(&self, to: DeviceSlice<T>, values: &[T]) -> Result<()> {
        let to = self.checked(to.part(0..values.len()));
        // SAFETY: the destination is as long as the values and lies within the session's memory;
        // the copy is finished when this returns.
        guarded(|| unsafe {
            result::memcpy_htod_async(to, values, self.device.stream.cu_stream())?;
            self.device.stream.synchronize()
        })
    }

    /// Copies a slice from the device, after all work started so far.
    fn read<T: Pod>(&self, from: DeviceSlice<T>) -> Result<Vec<T>> {
        let mut values = vec![T::zeroed(); from.len()];
        let from = self.checked(from);
        // SAFETY: the source is as long as the values and lies within the session's memory; any
        // bytes are valid values, and the copy is finished before they are used.
        guarded(|| unsafe {
            result::memcpy_dtoh_async(&mut values, from, self.device.stream.cu_stream())?;
            self.device.stream.synchronize()
        })?;
        Ok(values)
    }

    /// Fills all values of a slice.
    fn upload<T: Pod>(&self, to: DeviceSlice<T>, fill: impl FnOnce(&mut [T])) -> Result<()> {
        self.device.staging.with(&self.device.context, to.len(), |values| {
            fill(values);
            self.write(to, values)
        })
    }

    /// Returns what `use_values` makes of a slice from the device, after all work started so far.
    fn download<T: Pod, R>(
        &self,
        from: DeviceSlice<T>,
        use_values: impl FnOnce(&[T]) -> R,
    ) -> Result<R> {
        let address = self.checked(from);
        self.device.staging.with(&self.device.context, from.len(), |values| {
            // SAFETY: the source is as long as the values and lies within the session's memory; any
            // bytes are valid values, and the copy is finished before they are used.
            guarded(|| unsafe {
                result::memcpy_dtoh_async(values, address, self.device.stream.cu_stream())?;
                self.device.stream.synchronize()
            })?;
            Ok(use_values(values))
        })
    }

    /// Writes seeds, scenarios, objectives and initial parameters of the runs.
    pub(super) fn load_runs(&self, runs: &[&RunSpec], parameters: &[&[f32]]) -> Result<()> {
        let vectors = &self.program.vectors;
        let scenarios: Vec<_> = runs.iter().map(|run| run.scenario).collect();
        let objectives: Vec<_> = runs.iter().map(|run| run.objective).collect();
        let levels: Vec<_> = runs.iter().flat_map(|run| run.levels.iter().copied()).collect();
        self.write(vectors.scenario_specs, &scenarios)?;
        self.write(vectors.levels, &levels)?;
        self.write(vectors.objective_specs, &objectives)?;
        self.write(vectors.average, &vec![f64::NAN; runs.len()])?;
        if let Some(columns) = self.program.columns() {
            let all: Vec<i32> = runs.iter().flat_map(|run| run.columns.iter().copied()).collect();
            self.write(columns, &all)?;
        }
        if let Network::Classifier(network) = self.program.network() {
            let specs: Vec<_> = runs.iter().map(|run| run.classifier).collect();
            self.write(network.specs, &specs)?;
        }
        if let (Some(images), Some(run)) = (self.program.images(), runs.first()) {
            self.write(images, run.images)?;
        }
        let stride = self.program.parameters.stride as usize;
        self.upload(self.program.parameters.all(runs.len()), |padded| {
            padded.fill(0.0);
            let each = padded.chunks_exact_mut(stride).zip(runs.iter().zip(parameters));
            each.for_each(|(padded, (run, flat))| self.pad_parameters(flat, run.dims, padded));
        })?;
        self.start(&[self.program.pack()])
    }

    /// Calls `f` with the places of the parameters of a critic with inputs of these dimensions: in
    /// the flat buffer of the critic, and in the layout of the device.
    fn parameter_places(&self, dims: (usize, usize), mut f: impl FnMut(usize, Range<usize>)) {
        let mut flat = 0;
        for (index, block) in self.program.blocks().iter().enumerate() {
            let ParameterBlock { columns, ld, at, .. } = *block;
            for row in 0..self.program.network().rows_of(index, dims) {
                let first = at + row * ld;
                f(flat, first..first + columns);
                flat += columns;
            }
        }
        if let Some(at) = self.program.score_bias() {
            f(flat, at..at + 1);
        }
    }

    fn pad_parameters(&self, flat: &[f32], dims: (usize, usize), padded: &mut [f32]) {
        self.parameter_places(dims, |at, places| {
            let length = places.len();
            padded[places].copy_from_slice(&flat[at..at + length]);
        });
    }

    fn flat_parameters(&self, padded: &[f32], dims: (usize, usize)) -> Vec<f32> {
        let mut flat = Vec::with_capacity(self.program.parameter_count());
        self.parameter_places(dims, |_, places| flat.extend_from_slice(&padded[places]));
        flat
    }

    /// Starts launches of this session's program.
    fn start(&self, launches: &[Launch]) -> Result<()> {
        // SAFETY: only this file calls this function, with launches of the session's program.
        launches.iter().try_for_each(|launch| unsafe { self.launch(launch) })
    }

    /// Writes a batch of the program's sizes as the data of the first captured step.
    pub(super) fn load_batch(&self, batch: &Batch) -> Result<()> {
        let padded_rows = |values: &[f32], width: usize, ld: usize| -> Vec<f32> {
            let padding = vec![0.0; ld - width];
            let rows = values.chunks_exact(width).map(|row| [row, &padding].concat());
            rows.flatten().collect()
        };
        let dims = batch.dims;
        if let Network::Classifier(_) = self.program.network() {
            // Every run selects its inputs from all columns.
            if let Some((data, select)) = self.program.selected_samples() {
                for run in 0..self.program.tiling.runs {
                    let rows =
                        |values: &[f32], width: usize| padded_rows(values, width, padded(width));
                    self.write(data.0.run(run), &rows(&batch.x, dims.0))?;
                    self.write(data.1.run(run), &rows(&batch.y, dims.1))?;
                }
                self.start(&[select])?;
            }
            return Ok(());
        }
        let ld = self.program.ld;
        self.write(self.program.data.0.run(0), &padded_rows(&batch.x, dims.0, ld.0))?;
        self.write(self.program.data.1.run(0), &padded_rows(&batch.y, dims.1, ld.1))?;
        if let Some(partner) = self.program.partner {
            let mut inverse = vec![0u32; batch.n];
            for (i, &j) in (0u32..).zip(&batch.partner) {
                inverse[j as usize] = i;
            }
            self.write(partner, &[&batch.partner[..], &inverse].concat())?;
        }
        Ok(())
    }

    /// Returns the largest number of steps that are captured at once.
    pub(super) fn captured_steps(&self) -> usize {
        self.program.tiling.steps
    }

    /// Starts one training step on the data in memory.
    pub(super) fn train(&self) -> Result<()> {
        self.start(self.program.pairs_of_samples(0).as_slice())?;
        self.start(&self.program.train(0))
    }

    /// Writes the tables of all runs.
    pub(super) fn load_tables(&self, tables: &[RunTable], lists: &Lists) -> Result<()> {
        let Some(on_device) = &self.program.tables else { return Ok(()) };
        let stride = on_device.table.stride as usize;
        self.upload(on_device.table.all(tables.len()), |packed| {
            let each = packed.chunks_exact_mut(stride).zip(tables);
            each.for_each(|(packed, table)| on_device.pack(table.inputs, packed));
        })?;
        let specs = tables.iter().zip(&lists.places).map(|(table, places)| TableSpec {
            train: table.train as u32,
            held_out: (table.inputs.rows() - table.train) as u32,
            listed: places.len() as u32,
            padding: 0,
            first_listed: places.start as u64,
        });
        self.write(on_device.specs, &specs.collect::<Vec<_>>())?;
        self.write(on_device.listed, &lists.pairs)
    }

    /// Starts the scores of the listed pairs of all runs.
    pub(super) fn score_listed(&self) -> Result<()> {
        self.start(&self.program.score_listed())
    }

    /// Returns the scores of the first listed pairs of every run, `counts` of them.
    pub(super) fn scores(&self, counts: &[usize]) -> Result<Vec<Vec<f32>>> {
        let Some(tables) = &self.program.tables else { return Ok(Vec::new()) };
        self.download(tables.scores.all(counts.len()), |scores| {
            let runs = scores.chunks_exact(tables.scores.stride as usize);
            runs.zip(counts).map(|(scores, count)| scores[..*count].to_vec()).collect()
        })
    }

    /// Starts check number `check`: scores the held-out rows, and keeps these scores and the
    /// parameters. `first` is the smallest number of training rows of any run.
    pub(super) fn check(&self, check: usize, first: usize) -> Result<()> {
        self.start(&self.program.check(first))?;
        let Some(tables) = &self.program.tables else { return Ok(()) };
        let runs = self.program.tiling.runs;
        for (from, to) in [
            (tables.scores, tables.scores_of_checks),
            (self.program.parameters, tables.parameters_of_checks),
        ] {
            let from = from.all(runs);
            self.copy(from, to.part(check * from.len()..(check + 1) * from.len()))?;
        }
        Ok(())
    }

    /// Copies a slice to another of the same length.
    fn copy(&self, from: DeviceSlice<f32>, to: DeviceSlice<f32>) -> Result<()> {
        assert_eq!(from.len(), to.len());
        let bytes = from.bytes();
        let (from, to) = (self.checked(from), self.checked(to));
        let size = (bytes.end - bytes.start) as usize;
        // SAFETY: both slices have this size and lie within the session's memory.
        guarded(|| unsafe {
            result::memcpy_dtod_async(to, from, size, self.device.stream.cu_stream())
        })
    }

    /// Returns what `use_scores` makes of the scores of all checks: checks x runs x scores of a run.
    pub(super) fn scores_of_checks<R>(&self, use_scores: impl FnOnce(&[f32]) -> R) -> Result<R> {
        match &self.program.tables {
            Some(tables) => self.download(tables.scores_of_checks, use_scores),
            None => Ok(use_scores(&[])),
        }
    }

    /// Returns the parameters that each run had at the check that it selects, for critics with
    /// inputs of these dimensions.
    pub(super) fn parameters_of(
        &self,
        selected: &[u32],
        dims: (usize, usize),
    ) -> Result<Vec<Vec<f32>>> {
        let Some(tables) = &self.program.tables else { return Ok(Vec::new()) };
        let (places, result) = (tables.selected, tables.selected_parameters);
        self.write(places, selected)?;
        self.start(self.program.select_parameters().as_slice())?;
        self.download(result.all(selected.len()), |padded| {
            let runs = padded.chunks_exact(result.stride as usize);
            runs.map(|padded| self.flat_parameters(padded, dims)).collect()
        })
    }

    /// Returns the gradient of a run after a step, in the order of the critic's flat buffer.
    pub(super) fn gradient(&self, run: usize, dims: (usize, usize)) -> Result<Vec<f32>> {
        let mut flat = Vec::with_capacity(self.program.parameter_count());
        for (index, block) in self.program.blocks().iter().enumerate() {
            let length = block.pieces * block.piece_stride;
            let pieces = self.read(block.gradient.run(run).part(0..length))?;
            for row in 0..self.program.network().rows_of(index, dims) {
                for column in 0..block.columns {
                    let at = row * block.ld + column;
                    flat.push(pieces.iter().skip(at).step_by(block.piece_stride).sum());
                }
            }
        }
        if self.program.score_bias().is_some() {
            let bias = self.read(self.program.vectors.bias_gradient.part(run..run + 1))?;
            flat.push(bias[0] as f32);
        }
        Ok(flat)
    }

    /// Returns value and estimate of every run at every captured step.
    pub(super) fn trace(&self) -> Result<Vec<f64>> {
        self.read(self.program.vectors.trace)
    }

    /// Starts a kernel.
    ///
    /// # Safety
    /// The launch must be one of this session's program, so that the kernel only uses addresses
    /// within the session's memory.
    unsafe fn launch(&self, launch: &Launch) -> Result<()> {
        let function = self.function(launch)?;
        let (x, y, z) = launch.grid;
        let mut arguments = [launch.arguments.as_ptr().cast_mut().cast::<c_void>()];
        // From Hopper on, the device prepares a kernel while the previous one still runs; the
        // kernel waits for the end of that one before it reads or writes (begin() in common.cuh).
        let mut early = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: x as u32,
            gridDimY: y as u32,
            gridDimZ: z as u32,
            blockDimX: launch.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: launch.shared,
            hStream: self.device.stream.cu_stream(),
            attrs: &mut early,
            numAttrs: u32::from(self.device.architecture >= 90),
        };
        let none = std::ptr::null_mut();
        // SAFETY: the kernel takes one structure by value, which `arguments` holds (the kernels'
        // source asserts equal layouts) and which is copied before the call returns. By the
        // contract its addresses lie within the session's memory, which outlives the work on the
        // stream (see `Drop`).
        unsafe {
            sys::cuLaunchKernelEx(&config, function.cu_function(), arguments.as_mut_ptr(), none)
        }
        .result()
        .map_err(|error| failed(&launch.kernel, describe(error)))
    }

    /// Returns the function of a kernel, which is looked up when it is first launched.
    fn function(&self, Launch { kernel, shared, .. }: &Launch) -> Result<CudaFunction> {
        if let Some(function) = self.functions.borrow().get(kernel) {
            return Ok(function.clone());
        }
        let function = guarded(|| self.module.load_function(kernel))
            .map_err(|error| failed(kernel, error.to_string()))?;
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        guarded(|| function.set_attribute(attribute, *shared as i32))?;
        self.functions.borrow_mut().insert(kernel.clone(), function.clone());
        Ok(function)
    }

    /// Captures the first `steps` steps as one graph.
    pub(super) fn capture(&self, steps: usize) -> Result<CudaGraph> {
        let mut launches: Vec<Launch> = self.program.draw_partners().into_iter().collect();
        match self.program.train_small(steps) {
            Some(launch) => launches.extend([launch, self.program.pack()]),
            None => {
                for step in 0..steps {
                    launches.extend(self.program.draw_data(step));
                    launches.extend(self.program.train(step));
                }
            }
        }
        launches.push(self.program.advance(steps));
        let stream = Arc::clone(&self.device.stream);
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        guarded(|| stream.begin_capture(mode))?;
        let launched = self.start(&launches);
        let graph = guarded(|| stream.end_capture(CUgraphInstantiate_flags(0)));
        launched?;
        graph?.ok_or_else(|| device_error("the captured graph is empty"))
    }
}

fn failed(kernel: &str, reason: String) -> Error {
    device_error(format!("the GPU failed in kernel {kernel}: {reason}"))
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // No kernel may run when the memory is freed. An error here has been reported before, or
        // is reported by the next call.
        let _ = self.device.stream.synchronize();
    }
}

/// Replays graphs; the trace of each replay is copied to the host while the next one runs.
pub(super) struct Replay<'a, 'b> {
    session: &'b Session<'a>,
    slots: [Slot; 2],
    started: usize,
}

struct Slot {
    trace: cudarc::driver::PinnedHostSlice<f64>,
    done: CudaEvent,
}

impl<'a, 'b> Replay<'a, 'b> {
    pub(super) fn new(session: &'b Session<'a>) -> Result<Self> {
        let length = session.program.vectors.trace.len();
        let slot = || -> std::result::Result<Slot, DriverError> {
            let context = &session.device.context;
            // SAFETY: any bytes are valid numbers, and `finish` reads them only after `start` has
            // had them written.
            let trace = unsafe { context.alloc_pinned_with_flags::<f64>(length, 0)? };
            // A thread that waits for the event leaves the core to others.
            let flag = sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC;
            Ok(Slot { trace, done: context.new_event(Some(flag))? })
        };
        let slots = guarded(|| Ok([slot()?, slot()?]))?;
        Ok(Replay { session, slots, started: 0 })
    }

    /// Starts the steps of a graph of the session.
    pub(super) fn start(&mut self, graph: &CudaGraph) -> Result<()> {
        let slot = &mut self.slots[self.started % 2];
        let stream = &self.session.device.stream;
        let from = self.session.checked(self.session.program.vectors.trace);
        guarded(|| {
            graph.launch()?;
            let trace = slot.trace.as_mut_slice()?;
            // SAFETY: source and destination have the length of the trace, and the slot is neither
            // read nor freed before the copy is finished (`finish`, `Drop`).
            unsafe { result::memcpy_dtoh_async(trace, from, stream.cu_stream())? };
            slot.done.record(stream)
        })?;
        self.started += 1;
        Ok(())
    }

    /// Waits for replay `number`, counted from 0, and returns its trace. It must be one of the
    /// last two that were started.
    pub(super) fn finish(&mut self, number: usize) -> Result<&[f64]> {
        assert!(number < self.started && self.started <= number + 2, "replay {number}");
        let slot = &self.slots[number % 2];
        guarded(|| {
            slot.done.synchronize()?;
            slot.trace.as_slice()
        })
    }
}

impl Drop for Replay<'_, '_> {
    fn drop(&mut self) {
        // A copy into the slots may still run. An error here is reported by another call.
        let _ = self.session.device.stream.synchronize();
    }
}
