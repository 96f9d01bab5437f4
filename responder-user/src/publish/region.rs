//! Memory that several may read while one writes: a BPF array mapped into this process, or plain pages of the same
//! layout when there is no XDP. The one file of the user side with pointers into it.

#![expect(unsafe_code, reason = "typed views of shared memory")]

use std::{
    marker::PhantomData,
    os::fd::{AsFd, AsRawFd},
    sync::atomic::AtomicU64,
};

use aya::maps::MapData;
use bytemuck::Pod;
use memmap2::{MmapMut, MmapOptions, MmapRaw};

use super::PublishError;

/// `len` elements of one type. Elements are multiples of eight octets, so that every one of them is whole words.
pub struct Region<T> {
    name: &'static str,
    memory: MmapRaw,
    len: u32,
    element: PhantomData<T>,
}

impl<T: Pod> Region<T> {
    const CHECK: () =
        assert!(size_of::<T>().is_multiple_of(8) && size_of::<T>() > 0 && align_of::<T>() <= 4096);

    /// Zeroed pages of this process.
    pub fn plain(name: &'static str, len: u32) -> Result<Self, PublishError> {
        let octets = Self::octets(len);
        let memory =
            MmapMut::map_anon(octets).map_err(|source| PublishError::Memory { name, octets, source })?;
        Ok(Self { name, memory: memory.into(), len, element: PhantomData })
    }

    /// A BPF array that was made with BPF_F_MMAPABLE and has this element type.
    pub fn of_map(name: &'static str, map: &MapData) -> Result<Self, PublishError> {
        let info = map.info().map_err(|e| PublishError::Program(format!("map {name}: {e}")))?;
        if info.value_size() as usize != size_of::<T>() {
            return Err(PublishError::Program(format!(
                "map {name}: elements of {} octets, expected {}",
                info.value_size(),
                size_of::<T>()
            )));
        }
        let len = info.max_entries();
        let octets = Self::octets(len);
        let fd = map.fd().as_fd().as_raw_fd();
        let memory = MmapOptions::new().len(octets).map_raw(fd).map_err(|source| PublishError::Memory {
            name,
            octets,
            source,
        })?;
        Ok(Self { name, memory, len, element: PhantomData })
    }

    fn octets(len: u32) -> usize {
        let () = Self::CHECK;
        len.max(1) as usize * size_of::<T>()
    }

    /// Name of the map.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Elements.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True for a region without elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn element(&self, index: u32) -> Option<*mut T> {
        if index >= self.len {
            return None;
        }
        // SAFETY: the mapping holds `len` elements, and the index was checked.
        Some(unsafe { self.memory.as_mut_ptr().cast::<T>().add(index as usize) })
    }

    /// An element that some word leads to, or one of the caller's own.
    ///
    /// The rule of the writer makes this sound: an element is not written while a reader can hold it.
    pub fn get(&self, index: u32) -> Option<&T> {
        // SAFETY:
        // - the pointer is inside the mapping and aligned (page-aligned base, size a multiple of the alignment);
        // - every bit pattern is a `T` (Pod);
        // - it is not written while referenced: see the module and `Table`.
        self.element(index).map(|element| unsafe { &*element })
    }

    /// Writes an element.
    ///
    /// # Safety
    /// No reader can hold it: no word leads to it, and a grace period has passed since one did.
    pub(super) unsafe fn write(&self, index: u32, value: &T) -> Option<()> {
        let element = self.element(index)?;
        // SAFETY: inside the mapping, aligned, and nobody else looks at it: the caller's promise.
        unsafe { element.write(*value) };
        Some(())
    }

    /// The words of an element, for those that change one at a time while others read.
    pub fn words(&self, index: u32) -> Option<&[AtomicU64]> {
        let element = self.element(index)?;
        // SAFETY:
        // - the element is inside the mapping, its size a multiple of eight, its address at least 8-aligned;
        // - all access to elements that change goes through this function.
        Some(unsafe { std::slice::from_raw_parts(element.cast::<AtomicU64>(), size_of::<T>() / 8) })
    }

    /// One word of an element.
    pub fn word(&self, index: u32, word: usize) -> Option<&AtomicU64> {
        self.words(index)?.get(word)
    }
}
