//! Places in the device's memory.

use super::abi::Buffer;
use bytemuck::Pod;
use std::marker::PhantomData;
use std::ops::Range;

/// A place for `length` values of type `T` in device memory. It gives no access by itself:
/// `Session` reads and writes it after checking that it lies within the session's own memory.
#[derive(Debug)]
pub(super) struct DeviceSlice<T> {
    address: u64,
    length: usize,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for DeviceSlice<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceSlice<T> {}

impl<T: Pod> DeviceSlice<T> {
    fn new(address: u64, length: usize) -> Self {
        DeviceSlice { address, length, element: PhantomData }
    }

    /// Returns the address, for kernel arguments.
    pub(super) fn address(self) -> u64 {
        self.address
    }

    pub(super) fn len(self) -> usize {
        self.length
    }

    /// Returns the addresses of its bytes.
    pub(super) fn bytes(self) -> Range<u64> {
        self.address..self.address + (size_of::<T>() * self.length) as u64
    }

    /// Returns the elements in `range`. Panics if there are fewer.
    pub(super) fn part(self, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.length,
            "{range:?} of {}",
            self.length
        );
        Self::new(self.address + (size_of::<T>() * range.start) as u64, range.len())
    }
}

impl Buffer {
    /// Returns the array of one run.
    pub(super) fn run(self, run: usize) -> DeviceSlice<f32> {
        DeviceSlice::new(self.data + 4 * self.stride * run as u64, self.stride as usize)
    }

    /// Returns the arrays of the first `runs` runs, which lie one after the other.
    pub(super) fn all(self, runs: usize) -> DeviceSlice<f32> {
        DeviceSlice::new(self.data, self.stride as usize * runs)
    }
}

/// Hands out device memory from `next` on, in multiples of 256 bytes. An arena that starts at 0
/// measures how much a program needs.
pub(super) struct Arena {
    pub(super) next: u64,
}

impl Arena {
    /// Returns a place for `length` values.
    pub(super) fn slice<T: Pod>(&mut self, length: usize) -> DeviceSlice<T> {
        let slice = DeviceSlice::new(self.next, length);
        self.next += (slice.bytes().end - slice.bytes().start).next_multiple_of(256);
        slice
    }

    /// Returns a place for `length` numbers for each run.
    pub(super) fn floats(&mut self, length: usize, runs: usize) -> Buffer {
        let stride = length.next_multiple_of(64);
        Buffer { data: self.slice::<f32>(stride * runs).address(), stride: stride as u64 }
    }
}
