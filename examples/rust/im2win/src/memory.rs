use std::alloc::{alloc, dealloc, handle_alloc_error, Layout};
use std::ffi::c_void;
use std::ptr::null_mut;

use im2win_sys as sys;

use crate::error::{check, Error};
use crate::Device;

/// The alignment of a workspace.
const ALIGNMENT: usize = 256;

/// Bytes on a device, on CUDA ordered on the legacy default stream, as are the calls of a plan.
pub(crate) struct Memory {
    device: Device,
    bytes: usize,
    pointer: *mut c_void,
}

impl Memory {
    pub(crate) fn new(device: Device, bytes: usize) -> Result<Self, Error> {
        let mut memory = Memory { device, bytes, pointer: null_mut() };
        if bytes > 0 && device == Device::Cpu {
            // SAFETY: the layout's size is not 0.
            memory.pointer = unsafe { alloc(memory.layout()) }.cast();
            if memory.pointer.is_null() {
                handle_alloc_error(memory.layout());
            }
        } else if bytes > 0 {
            // SAFETY: `pointer` outlives the call.
            check(unsafe {
                sys::im2win_cuda_alloc(device.ordinal(), bytes, null_mut(), &mut memory.pointer)
            })?;
        }
        Ok(memory)
    }

    /// GPU memory that holds a copy of `values`.
    pub(crate) fn uploaded<T: Copy>(device: Device, values: &[T]) -> Result<Self, Error> {
        let memory = Memory::new(device, size_of_val(values))?;
        memory.copy(memory.pointer, values.as_ptr().cast())?;
        Ok(memory)
    }

    /// Copies GPU memory to `values`, once the work before has been done.
    pub(crate) fn download<T: Copy>(&self, values: &mut [T]) -> Result<(), Error> {
        assert_eq!(self.bytes, size_of_val(values));
        self.copy(values.as_mut_ptr().cast(), self.pointer)
    }

    pub(crate) fn pointer(&self) -> *mut c_void {
        self.pointer
    }

    /// All of it; done on return, as the host's memory may be gone then.
    fn copy(&self, target: *mut c_void, source: *const c_void) -> Result<(), Error> {
        let device = self.device.ordinal();
        // SAFETY: both sides are `bytes` long, as the two callers see to.
        unsafe {
            check(sys::im2win_cuda_copy(device, target, source, self.bytes, null_mut()))?;
            check(sys::im2win_cuda_synchronize(device, null_mut()))
        }
    }

    fn layout(&self) -> Layout {
        Layout::from_size_align(self.bytes, ALIGNMENT).expect("the library's sizes are addressable")
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.pointer.is_null() {
            return;
        }
        // SAFETY: it is what `new` allocated; a GPU frees it after the work before.
        unsafe {
            match self.device {
                Device::Cpu => dealloc(self.pointer.cast(), self.layout()),
                Device::Cuda(_) => {
                    sys::im2win_cuda_free(self.device.ordinal(), self.pointer, null_mut());
                }
            }
        }
    }
}
