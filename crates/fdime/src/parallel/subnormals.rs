//! Subnormal numbers as zeros.

use std::marker::PhantomData;

/// While it lives, the thread that created it treats subnormal floating-point numbers as zeros;
/// then the thread has its former mode again, also after a panic.
///
/// Numbers below 2^-126 (`f32`) have fewer bits, and many processors compute with them through slow
/// microcode. The gradients of a critic that tells joint from marginal pairs perfectly, for example
/// because y = x, underflow to such numbers: trainings were 10 to 30 times slower. They are far too
/// small to change a parameter. On processors other than x86-64 and AArch64 nothing changes.
pub(crate) struct FlushSubnormals {
    /// The thread's former mode.
    before: u64,
    /// The mode belongs to a thread, so the guard must not be sent to another one.
    on_this_thread: PhantomData<*const ()>,
}

impl FlushSubnormals {
    pub(crate) fn new() -> Self {
        let before = control::read() & control::FLUSH;
        set(control::FLUSH);
        FlushSubnormals { before, on_this_thread: PhantomData }
    }
}

impl Drop for FlushSubnormals {
    fn drop(&mut self) {
        set(self.before);
    }
}

/// Sets the bits of the mode and leaves all other bits of the control register as they are.
fn set(mode: u64) {
    let control = control::read();
    if control & control::FLUSH != mode {
        control::write(control & !control::FLUSH | mode);
    }
}

// Rust offers no other way to set this mode than assembly. The compiler assumes the default mode
// when it computes constants or moves an operation past `write`; then a subnormal number may or may
// not become zero, which is all the mode promises. Nothing else depends on it.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod control {
    use std::arch::asm;

    /// Results that are subnormal become zero (bit 15), and so do operands (bit 6).
    pub(super) const FLUSH: u64 = 1 << 15 | 1 << 6;

    /// Returns MXCSR, the control register of vector units.
    pub(super) fn read() -> u64 {
        let mut control = 0u32;
        // SAFETY: writes 4 bytes to a variable of 4 bytes.
        unsafe {
            asm!("stmxcsr [{}]", in(reg) &raw mut control, options(nostack, preserves_flags));
        }
        control.into()
    }

    /// Writes MXCSR.
    pub(super) fn write(control: u64) {
        let control = control as u32;
        // SAFETY: reads 4 bytes from a variable of 4 bytes; the value was read from the register,
        // except for the two bits of `FLUSH`, which every x86-64 processor has.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack, preserves_flags));
        }
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod control {
    use std::arch::asm;

    /// Operands and results that are subnormal become zero.
    pub(super) const FLUSH: u64 = 1 << 24;

    /// Returns FPCR, the control register of the floating-point unit.
    pub(super) fn read() -> u64 {
        let control;
        // SAFETY: reads a register that user programs may read.
        unsafe { asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack)) };
        control
    }

    /// Writes FPCR.
    pub(super) fn write(control: u64) {
        // SAFETY: the value was read from the register, except for the bit of `FLUSH`, which every
        // processor has.
        unsafe { asm!("msr fpcr, {}", in(reg) control, options(nostack)) };
    }
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
mod control {
    pub(super) const FLUSH: u64 = 0;

    pub(super) fn read() -> u64 {
        0
    }

    pub(super) fn write(_control: u64) {}
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod tests {
    use super::*;
    use crate::parallel::{Workers, run_jobs};
    use std::hint::black_box;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Returns whether subnormal results and operands count as zeros on this thread.
    fn flushes() -> bool {
        let result = black_box(f32::MIN_POSITIVE) * black_box(0.5);
        let operand = black_box(f32::from_bits(1)) * black_box(1e30);
        assert_eq!(result.to_bits() == 0, operand == 0.0);
        operand == 0.0
    }

    #[test]
    fn guards_nest_and_restore_the_mode_even_after_a_panic() {
        assert!(!flushes());
        let outcome = catch_unwind(|| {
            let _outer = FlushSubnormals::new();
            drop(FlushSubnormals::new());
            assert!(flushes());
            panic!("on purpose");
        });
        assert!(outcome.is_err() && !flushes());
    }

    #[test]
    fn jobs_and_workers_flush_and_the_caller_does_not() {
        for threads in [1, 3] {
            assert_eq!(run_jobs(threads, 4, |_, _| flushes()), [true; 4]);
            assert!(!flushes());
            let mut workers = Workers::new(threads);
            let mut flushed = [false; 12];
            workers.for_each(&mut flushed, &mut [(); 12], &mut [(); 3], |_, flushed, (), ()| {
                *flushed = flushes();
            });
            assert_eq!(flushed, [true; 12]);
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                workers.for_each(&mut flushed, &mut [(); 12], &mut [(); 3], |_, _, (), ()| {
                    panic!("on purpose");
                });
            }));
            assert!(panicked.is_err() && !flushes());
        }
    }
}
