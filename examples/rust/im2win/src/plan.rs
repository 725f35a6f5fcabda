use std::ffi::{c_void, CStr};
use std::marker::PhantomData;
use std::mem::{size_of, MaybeUninit};
use std::ptr::{null, null_mut, NonNull};

use im2win_sys as sys;

use crate::error::{check, Error};
use crate::memory::Memory;
use crate::{Conv2d, Device, Element};

/// A convolution with the algorithm chosen for it. Threads may share it.
pub struct Plan<T: Element> {
    plan: NonNull<sys::im2win_plan>,
    conv: Conv2d,
    device: Device,
    output_shape: [usize; 4],
    workspace_bytes: usize,
    element: PhantomData<T>,
}

// SAFETY: a plan is immutable, and im2win.h allows any thread to use it, many at once.
unsafe impl<T: Element> Send for Plan<T> {}
unsafe impl<T: Element> Sync for Plan<T> {}

impl<T: Element> Plan<T> {
    pub fn new(conv: &Conv2d, device: Device) -> Result<Self, Error> {
        let desc = conv.descriptor(T::DTYPE)?;
        let mut options = MaybeUninit::<sys::im2win_plan_options>::uninit();
        let mut pointer = null_mut();
        // SAFETY: `options` is of the size given; init has filled it where it succeeds.
        unsafe {
            let bytes = size_of::<sys::im2win_plan_options>();
            check(sys::im2win_plan_options_init(options.as_mut_ptr(), bytes))?;
            options.assume_init_mut().device = device.ordinal();
            check(sys::im2win_plan_create(&desc, options.as_ptr(), &mut pointer))?;
        }
        let mut plan = Plan {
            plan: NonNull::new(pointer).expect("success gives a plan"),
            conv: *conv,
            device,
            output_shape: [0; 4],
            workspace_bytes: 0,
            element: PhantomData,
        };
        let mut shape = [0; 4];
        // SAFETY: the plan is alive, and the results outlive the calls.
        unsafe {
            check(sys::im2win_plan_output_shape(pointer, shape.as_mut_ptr()))?;
            check(sys::im2win_plan_workspace_bytes(pointer, &mut plan.workspace_bytes))?;
        }
        plan.output_shape =
            shape.map(|size| usize::try_from(size).expect("sizes are not negative"));
        Ok(plan)
    }

    /// Images, filters, height, width.
    pub fn output_shape(&self) -> [usize; 4] {
        self.output_shape
    }

    /// What `run` allocates on the plan's device and frees again.
    pub fn workspace_bytes(&self) -> usize {
        self.workspace_bytes
    }

    /// The name of the algorithm.
    pub fn algorithm(&self) -> &'static str {
        let mut name = null();
        // SAFETY: the plan is alive; the name is static, and ASCII.
        unsafe {
            check(sys::im2win_plan_algorithm(self.plan.as_ptr(), &mut name))
                .expect("a plan has an algorithm");
            CStr::from_ptr(name).to_str().expect("names are ASCII")
        }
    }

    /// Convolves. Tensors are the host's: to and from a GPU they are copied.
    pub fn run(
        &self,
        input: &[T],
        filter: &[T],
        bias: Option<&[T]>,
        output: &mut [T],
    ) -> Result<(), Error> {
        let [filters, ..] = self.conv.filter_shape;
        expect_length("input", input, &self.conv.input_shape)?;
        expect_length("filter", filter, &self.conv.filter_shape)?;
        expect_length("bias", bias.unwrap_or(&[]), &[if self.conv.bias { filters } else { 0 }])?;
        expect_length("output", output, &self.output_shape)?;
        match self.device {
            Device::Cpu => self.run_on_cpu(input, filter, bias, output),
            Device::Cuda(_) => self.run_on_gpu(input, filter, bias, output),
        }
    }

    fn run_on_cpu(
        &self,
        input: &[T],
        filter: &[T],
        bias: Option<&[T]>,
        output: &mut [T],
    ) -> Result<(), Error> {
        let bias = bias.map_or(null(), |values| values.as_ptr().cast());
        let output = output.as_mut_ptr().cast();
        // SAFETY: lengths have been checked, and a CPU's plan is done on return.
        unsafe { self.enqueue(input.as_ptr().cast(), filter.as_ptr().cast(), bias, output) }
    }

    fn run_on_gpu(
        &self,
        input: &[T],
        filter: &[T],
        bias: Option<&[T]>,
        output: &mut [T],
    ) -> Result<(), Error> {
        let input = Memory::uploaded(self.device, input)?;
        let filter = Memory::uploaded(self.device, filter)?;
        let bias = bias.map(|values| Memory::uploaded(self.device, values)).transpose()?;
        let result = Memory::new(self.device, size_of_val(output))?;
        let bias = bias.as_ref().map_or(null(), |memory| memory.pointer().cast_const());
        // SAFETY: lengths have been checked, and GPU memory is freed after the work that uses it.
        unsafe { self.enqueue(input.pointer(), filter.pointer(), bias, result.pointer())? };
        result.download(output)
    }

    /// # Safety
    /// The pointers are on the plan's device, to as many elements as the plan's shapes have.
    unsafe fn enqueue(
        &self,
        input: *const c_void,
        filter: *const c_void,
        bias: *const c_void,
        output: *mut c_void,
    ) -> Result<(), Error> {
        let workspace = Memory::new(self.device, self.workspace_bytes)?;
        check(sys::im2win_conv2d(
            self.plan.as_ptr(),
            input,
            filter,
            bias,
            null(),
            output,
            workspace.pointer(),
            self.workspace_bytes,
            null_mut(),
        ))
    }
}

impl<T: Element> Drop for Plan<T> {
    fn drop(&mut self) {
        // SAFETY: no call can be using it.
        unsafe { sys::im2win_plan_destroy(self.plan.as_ptr()) }
    }
}

fn expect_length<T>(name: &str, values: &[T], shape: &[usize]) -> Result<(), Error> {
    // The plan exists: its sizes in bytes fit 64 bits.
    let expected: usize = shape.iter().product();
    if values.len() == expected {
        return Ok(());
    }
    let length = values.len();
    Err(Error::invalid(format!("{name} has {length} elements: expected {expected}")))
}
