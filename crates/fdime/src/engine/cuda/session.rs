//! A program in the device's memory, and its execution.

use super::device::{Device, describe, guarded};
use super::device_error;
use super::memory::DeviceSlice;
use super::plan::RunSpec;
use super::program::{Launch, ParameterBlock, Program};
use crate::critic::Batch;
use crate::error::Result;
use bytemuck::Pod;
use cudarc::driver::sys::CUfunction_attribute_enum as Attribute;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{
    CudaEvent, CudaFunction, CudaGraph, CudaModule, CudaSlice, DevicePtr, DriverError, result, sys,
};
use std::collections::HashMap;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

/// A program with its memory on the device.
pub(super) struct Session<'a> {
    device: &'a Device,
    program: Program,
    functions: HashMap<String, CudaFunction>,
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
                let gigabytes = size as f64 / 1e9;
                device_error(format!("{gigabytes:.1} GB of {}'s memory: {error}", device.name))
            })?;
        let start = memory.device_ptr(&device.stream).0;
        let bounds = start..start + size;
        let program = program(start);
        assert!(program.end <= bounds.end, "the program needs more memory than it measured");
        let functions = HashMap::new();
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

    /// Writes seeds, scenarios, objectives and initial parameters of the runs.
    pub(super) fn load_runs(&mut self, runs: &[RunSpec], parameters: &[Vec<f32>]) -> Result<()> {
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
        if let (Some(images), Some(run)) = (self.program.images(), runs.first()) {
            self.write(images, run.images)?;
        }
        for (index, (run, flat)) in runs.iter().zip(parameters).enumerate() {
            let padded = self.padded_parameters(flat, run.dims);
            self.write(self.program.parameters.run(index), &padded)?;
        }
        let pack = self.program.pack();
        // SAFETY: a launch of this session's program.
        unsafe { self.launch(&pack) }
    }

    /// Returns the parameters of a critic with inputs of these dimensions, given as a flat buffer, in
    /// the layout of the device.
    fn padded_parameters(&self, flat: &[f32], dims: (usize, usize)) -> Vec<f32> {
        let mut padded = vec![0f32; self.program.parameters.stride as usize];
        let mut rest = flat;
        for (index, block) in self.program.blocks().iter().enumerate() {
            let ParameterBlock { columns, ld, at, .. } = block;
            let (block, after) = rest.split_at(self.program.rows_of(index, dims) * columns);
            for (row, values) in block.chunks_exact(*columns).enumerate() {
                padded[at + row * ld..][..*columns].copy_from_slice(values);
            }
            rest = after;
        }
        if let (Some(at), [bias]) = (self.program.score_bias(), rest) {
            padded[at] = *bias;
        }
        padded
    }

    /// Writes a batch of the program's sizes as the data of the first captured step.
    pub(super) fn load_batch(&self, batch: &Batch) -> Result<()> {
        let padded_rows = |values: &[f32], width: usize, ld: usize| -> Vec<f32> {
            let padding = vec![0.0; ld - width];
            let rows = values.chunks_exact(width).map(|row| [row, &padding].concat());
            rows.flatten().collect()
        };
        let (dims, ld) = (batch.dims, self.program.ld);
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

    /// Starts one training step on the data in memory.
    pub(super) fn train(&mut self) -> Result<()> {
        let launches = self.program.train(0);
        // SAFETY: launches of this session's program.
        launches.iter().try_for_each(|launch| unsafe { self.launch(launch) })
    }

    /// Returns the gradient of a run after a step, in the order of the critic's flat buffer.
    pub(super) fn gradient(&self, run: usize, dims: (usize, usize)) -> Result<Vec<f32>> {
        let mut flat = Vec::with_capacity(self.program.parameter_count());
        for (index, block) in self.program.blocks().iter().enumerate() {
            let length = block.pieces * block.piece_stride;
            let pieces = self.read(block.gradient.run(run).part(0..length))?;
            for row in 0..self.program.rows_of(index, dims) {
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
    unsafe fn launch(&mut self, launch: &Launch) -> Result<()> {
        self.load_function(launch)?;
        let function = &self.functions[&launch.kernel];
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
        .map_err(|error| device_error(format!("kernel {}: {}", launch.kernel, describe(error))))
    }

    /// Looks up the function of a kernel when it is first launched.
    fn load_function(&mut self, Launch { kernel, shared, .. }: &Launch) -> Result<()> {
        if !self.functions.contains_key(kernel) {
            let function = guarded(|| self.module.load_function(kernel))
                .map_err(|error| device_error(format!("kernel {kernel}: {error}")))?;
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            guarded(|| function.set_attribute(attribute, *shared as i32))?;
            self.functions.insert(kernel.clone(), function);
        }
        Ok(())
    }

    /// Captures the steps as one graph.
    pub(super) fn capture(&mut self) -> Result<CudaGraph> {
        let mut launches: Vec<Launch> = self.program.draw_partners().into_iter().collect();
        for step in 0..self.program.tiling.steps {
            launches.extend(self.program.draw_data(step));
            launches.extend(self.program.train(step));
        }
        launches.push(self.program.advance());
        let stream = Arc::clone(&self.device.stream);
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        guarded(|| stream.begin_capture(mode))?;
        // SAFETY: launches of this session's program.
        let launched = launches.iter().try_for_each(|launch| unsafe { self.launch(launch) });
        let graph = guarded(|| stream.end_capture(CUgraphInstantiate_flags(0)));
        launched?;
        graph?.ok_or_else(|| device_error("the captured graph is empty"))
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // No kernel may run when the memory is freed. An error here has been reported before, or
        // is reported by the next call.
        let _ = self.device.stream.synchronize();
    }
}

/// Replays a graph; the trace of each replay is copied to the host while the next one runs.
pub(super) struct Replay<'a, 'b> {
    session: &'b Session<'a>,
    graph: CudaGraph,
    slots: [Slot; 2],
    started: usize,
}

struct Slot {
    trace: cudarc::driver::PinnedHostSlice<f64>,
    done: CudaEvent,
}

impl<'a, 'b> Replay<'a, 'b> {
    pub(super) fn new(session: &'b Session<'a>, graph: CudaGraph) -> Result<Self> {
        let length = session.program.vectors.trace.len();
        let slot = || -> std::result::Result<Slot, DriverError> {
            let context = &session.device.context;
            // SAFETY: any bytes are valid numbers, and `finish` reads them only after `start` has
            // had them written.
            let trace = unsafe { context.alloc_pinned_with_flags::<f64>(length, 0)? };
            Ok(Slot { trace, done: context.new_event(None)? })
        };
        let slots = guarded(|| Ok([slot()?, slot()?]))?;
        Ok(Replay { session, graph, slots, started: 0 })
    }

    /// Starts the captured steps once more.
    pub(super) fn start(&mut self) -> Result<()> {
        let slot = &mut self.slots[self.started % 2];
        let stream = &self.session.device.stream;
        let from = self.session.checked(self.session.program.vectors.trace);
        guarded(|| {
            self.graph.launch()?;
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
