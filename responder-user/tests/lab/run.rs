//! BPF_PROG_TEST_RUN, one frame at a time: a bare system call, for a million of them.

#![expect(unsafe_code, reason = "one bpf(2) command without allocation on the way")]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use aya::programs::Xdp;
use nix::libc;

const BPF_PROG_TEST_RUN: libc::c_long = 10;

/// Octets that a frame of a test run can have, reply included.
pub const MOST: usize = 4096;

/// The part of `union bpf_attr` for BPF_PROG_TEST_RUN.
#[repr(C)]
#[derive(Default)]
struct TestAttr {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

/// What the program did with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// XDP_ABORTED
    Aborted,
    /// XDP_DROP
    Drop,
    /// XDP_PASS
    Pass,
    /// XDP_TX
    Tx,
    /// Anything else.
    Other(u32),
}

impl From<u32> for Verdict {
    fn from(code: u32) -> Self {
        match code {
            0 => Self::Aborted,
            1 => Self::Drop,
            2 => Self::Pass,
            3 => Self::Tx,
            other => Self::Other(other),
        }
    }
}

/// A loaded program.
pub struct Runner {
    program: OwnedFd,
}

impl Runner {
    /// Of a program that is loaded.
    pub fn new(program: &Xdp) -> Self {
        let fd = program.fd().expect("the program is loaded");
        Self { program: fd.as_fd().try_clone_to_owned().expect("a file descriptor") }
    }

    fn call(&self, attr: &mut TestAttr) -> io::Result<()> {
        attr.prog_fd = self.program.as_raw_fd() as u32;
        // SAFETY: the attribute is a live, initialised struct whose size is given; its pointers are to buffers of the
        // callers below, which outlive the call and have the sizes that stand beside them.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, &raw mut *attr, size_of::<TestAttr>()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Runs the program once. What the frame has become stands in `out`, its length is returned.
    pub fn run(&self, frame: &[u8], out: &mut [u8; MOST]) -> (Verdict, usize) {
        let mut attr = TestAttr {
            data_in: frame.as_ptr() as u64,
            data_size_in: frame.len() as u32,
            data_out: out.as_mut_ptr() as u64,
            data_size_out: MOST as u32,
            repeat: 1,
            ..TestAttr::default()
        };
        if let Err(error) = self.call(&mut attr) {
            panic!("BPF_PROG_TEST_RUN with {} octets: {error}", frame.len());
        }
        (attr.retval.into(), attr.data_size_out as usize)
    }

    /// As [`Self::run`], with new buffers.
    pub fn once(&self, frame: &[u8]) -> (Verdict, Vec<u8>) {
        let mut out = Box::new([0; MOST]);
        let (verdict, len) = self.run(frame, &mut out);
        (verdict, out[..len].to_vec())
    }

    /// Runs the program `repeat` times on one frame; the return value of the last run.
    pub fn repeat(&self, frame: &[u8], repeat: u32) -> u32 {
        let mut attr = TestAttr {
            data_in: frame.as_ptr() as u64,
            data_size_in: frame.len() as u32,
            repeat,
            ..TestAttr::default()
        };
        if let Err(error) = self.call(&mut attr) {
            panic!("BPF_PROG_TEST_RUN, {repeat} times: {error}");
        }
        attr.retval
    }
}
