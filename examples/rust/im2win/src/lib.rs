//! Convolution by windows (im2win) on CPU and CUDA, over libim2win: a [`Conv2d`] says what to
//! compute, a [`Plan`] how, and [`Plan::run`] computes it.
//!
//! ```
//! use im2win::{Activation, Conv2d, Device, Plan};
//!
//! let conv = Conv2d { activation: Activation::Relu, ..Conv2d::new([1, 1, 2, 3], [1, 1, 1, 2]) };
//! let plan = Plan::<f32>::new(&conv, Device::Cpu)?;
//! assert_eq!(plan.output_shape(), [1, 1, 2, 2]);
//! let mut output = [f32::NAN; 4];
//! plan.run(&[1.0, 2.0, 4.0, 4.0, 2.0, 1.0], &[-1.0, 1.0], None, &mut output)?;
//! assert_eq!(output, [1.0, 2.0, 0.0, 0.0]);
//! # Ok::<(), im2win::Error>(())
//! ```

mod conv;
mod error;
mod memory;
mod plan;

pub use conv::{Activation, Conv2d, Element};
pub use error::Error;
pub use plan::Plan;

/// Where a plan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    Cpu,
    /// The GPU of this CUDA ordinal.
    Cuda(u16),
}

impl Device {
    fn ordinal(self) -> i32 {
        match self {
            Device::Cpu => im2win_sys::IM2WIN_CPU,
            Device::Cuda(ordinal) => i32::from(ordinal),
        }
    }
}

/// The number of GPUs; where there is none, the error says why.
pub fn cuda_device_count() -> Result<usize, Error> {
    let mut count = 0;
    // SAFETY: `count` outlives the call.
    error::check(unsafe { im2win_sys::im2win_cuda_device_count(&mut count) })?;
    Ok(usize::try_from(count).expect("counts are not negative"))
}
