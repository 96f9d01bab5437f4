//! The one file with pointers into the packet. Every access is checked against the end that the kernel gave.
//!
//! Plain reads and writes of wide words at any address: the BPF target allows unaligned access to packet memory, and
//! `read_unaligned` would become a load per octet.

use core::arch::asm;

use aya_ebpf::programs::XdpContext;
use responder_common::{
    layout::PerCpu,
    wire::{Sink, Source},
};

/// Keeps the compiler from proving a bounds check away that the verifier needs to see, and from rearranging it into
/// arithmetic on the end of the packet, which the verifier refuses.
#[inline(always)]
pub fn opaque(mut value: usize) -> usize {
    // SAFETY: moves a register onto itself.
    unsafe { asm!("{0} = {0}", inout(reg) value, options(pure, nomem, nostack, preserves_flags)) };
    value
}

/// Larger than any frame; lets the verifier see that an offset is small.
const MAX_OFFSET: usize = 0x3fff;

/// What may stand in a packet: integers, which every bit pattern is a value of.
pub trait Word: Copy + integer::Sealed {}

impl<T: Copy + integer::Sealed> Word for T {}

mod integer {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// The frame as it is now. Worthless after the kernel has changed its length.
#[derive(Clone, Copy)]
pub struct Frame {
    data: usize,
    end: usize,
}

impl Frame {
    /// The frame of a context.
    #[inline(always)]
    pub fn of(ctx: &XdpContext) -> Self {
        Self { data: ctx.data(), end: ctx.data_end() }
    }

    /// Octets of the frame.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.end - self.data
    }

    /// True for a frame without octets.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads at a place that the caller knows as a constant on each path.
    #[inline(always)]
    pub fn get<T: Word>(&self, at: usize) -> Option<T> {
        let from = self.data + at;
        if opaque(from + size_of::<T>()) > self.end {
            return None;
        }
        // SAFETY:
        // - `from` lies in the packet and `T` ends before its end, checked above;
        // - `T` is an integer, valid for every bit pattern;
        // - the BPF target allows unaligned loads from packet memory.
        Some(unsafe { *(from as *const T) })
    }

    /// Writes at such a place.
    #[inline(always)]
    pub fn put<T: Word>(&self, at: usize, value: T) -> Option<()> {
        let from = self.data + at;
        if opaque(from + size_of::<T>()) > self.end {
            return None;
        }
        // SAFETY:
        // - `from` lies in the packet and `T` ends before its end, checked above;
        // - the program has the packet for itself while it runs;
        // - the BPF target allows unaligned stores to packet memory.
        unsafe { *(from as *mut T) = value };
        Some(())
    }

    /// `N` octets, checked once.
    #[inline(always)]
    pub fn window<const N: usize>(&self, at: usize) -> Option<Window<N>> {
        let from = self.data + at;
        if opaque(from + N) > self.end { None } else { Some(Window(from)) }
    }

    /// The message of `len` octets at `at`. `scratch` is for [`Source::forget`].
    #[inline(always)]
    pub fn message(&self, at: usize, len: usize, scratch: Scratch) -> Message {
        Message { start: self.data + (at & MAX_OFFSET), end: self.end, len, scratch }
    }
}

/// `N` octets of the packet.
#[derive(Clone, Copy)]
pub struct Window<const N: usize>(usize);

impl<const N: usize> Window<N> {
    /// Reads at a constant place.
    #[inline(always)]
    pub fn get<T: Word>(&self, at: usize) -> T {
        assert!(at + size_of::<T>() <= N);
        // SAFETY:
        // - the window was checked as a whole, and the place lies in it: asserted, which costs nothing for a constant;
        // - `T` is an integer, valid for every bit pattern;
        // - the BPF target allows unaligned loads from packet memory.
        unsafe { *((self.0 + at) as *const T) }
    }

    /// Writes at a constant place.
    #[inline(always)]
    pub fn put<T: Word>(&self, at: usize, value: T) {
        assert!(at + size_of::<T>() <= N);
        // SAFETY: as in `get`; the program has the packet for itself while it runs.
        unsafe { *((self.0 + at) as *mut T) = value };
    }
}

/// A DNS message inside a frame.
///
/// Reads end at the end of the frame, not of the message: what lies between is padding, which `parse` refuses by
/// comparing where the message ends with [`Source::len`].
#[derive(Clone, Copy)]
pub struct Message {
    start: usize,
    end: usize,
    len: usize,
    scratch: Scratch,
}

/// A number of which the verifier knows nothing, because it comes from a map.
#[derive(Clone, Copy)]
pub struct Scratch(u64);

impl Scratch {
    /// The word of this CPU's element.
    #[inline(always)]
    pub fn of(cpu: &PerCpu) -> Self {
        // SAFETY: a live word; it is volatile so that the compiler does not learn that nobody writes it.
        Self(unsafe { (&raw const cpu.scratch).read_volatile() })
    }

    /// The same, without a claim on the rest of the element.
    ///
    /// # Safety
    /// `cpu` is this CPU's element.
    #[inline(always)]
    pub unsafe fn of_ptr(cpu: *const PerCpu) -> Self {
        // SAFETY: a live word, as in `of`.
        Self(unsafe { (&raw const (*cpu).scratch).read_volatile() })
    }

    /// For programs whose paths need not meet.
    #[inline(always)]
    pub const fn none() -> Self {
        Self(0)
    }

    /// The same value, of which the verifier knows nothing any more: it does not see that the second operation undoes
    /// the first. Not `pure`, for the compiler must not use the result of another place.
    #[inline(always)]
    pub fn forget(self, mut value: usize) -> usize {
        // SAFETY: changes one register, twice.
        unsafe {
            asm!("{0} ^= {1}", "{0} ^= {1}", inout(reg) value, in(reg) self.0,
                options(nomem, nostack, preserves_flags));
        }
        value
    }
}

impl Message {
    #[inline(always)]
    fn get<T: Word>(&self, at: usize) -> Option<T> {
        let from = self.start + (opaque(at) & MAX_OFFSET);
        if opaque(from + size_of::<T>()) > self.end {
            return None;
        }
        // SAFETY: as in `Frame::get`.
        Some(unsafe { *(from as *const T) })
    }

    #[inline(always)]
    fn put<T: Word>(&self, at: usize, value: T) -> Option<()> {
        let from = self.start + (opaque(at) & MAX_OFFSET);
        if opaque(from + size_of::<T>()) > self.end {
            return None;
        }
        // SAFETY: as in `Frame::put`.
        unsafe { *(from as *mut T) = value };
        Some(())
    }
}

impl Source for Message {
    #[inline(always)]
    fn head(&self) -> Option<(u64, u32)> {
        if opaque(self.start + 12) > self.end {
            return None;
        }
        // SAFETY: as in `Frame::get`, for both parts.
        Some(unsafe { (*(self.start as *const u64), *((self.start + 8) as *const u32)) })
    }

    #[inline(always)]
    fn forget(&self, value: usize) -> usize {
        self.scratch.forget(value)
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn u8_at(&self, at: usize) -> Option<u8> {
        self.get(at)
    }

    #[inline(always)]
    fn u16_at(&self, at: usize) -> Option<u16> {
        self.get(at)
    }

    #[inline(always)]
    fn u32_at(&self, at: usize) -> Option<u32> {
        self.get(at)
    }

    #[inline(always)]
    fn u64_at(&self, at: usize) -> Option<u64> {
        self.get(at)
    }
}

impl Sink for Message {
    #[inline(always)]
    fn put_head(&mut self, low: u64, high: u32) -> Option<()> {
        if opaque(self.start + 12) > self.end {
            return None;
        }
        // SAFETY: as in `Frame::put`, for both parts.
        unsafe {
            *(self.start as *mut u64) = low;
            *((self.start + 8) as *mut u32) = high;
        }
        Some(())
    }

    #[inline(always)]
    fn forget(&self, value: usize) -> usize {
        self.scratch.forget(value)
    }

    #[inline(always)]
    fn put_u8(&mut self, at: usize, value: u8) -> Option<()> {
        self.put(at, value)
    }

    #[inline(always)]
    fn put_u16(&mut self, at: usize, value: u16) -> Option<()> {
        self.put(at, value)
    }

    #[inline(always)]
    fn put_u32(&mut self, at: usize, value: u32) -> Option<()> {
        self.put(at, value)
    }

    #[inline(always)]
    fn put_u64(&mut self, at: usize, value: u64) -> Option<()> {
        self.put(at, value)
    }

    #[inline(always)]
    fn put_u128(&mut self, at: usize, low: u64, high: u64) -> Option<()> {
        let from = self.start + (opaque(at) & MAX_OFFSET);
        if opaque(from + 16) > self.end {
            return None;
        }
        // SAFETY: as in `Frame::put`, for both halves.
        unsafe {
            *(from as *mut u64) = low;
            *((from + 8) as *mut u64) = high;
        }
        Some(())
    }
}
