use std::mem::size_of;

use im2win_sys as sys;

use crate::error::{check, Error};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// What tensors are made of.
pub trait Element: Copy + sealed::Sealed {
    #[doc(hidden)]
    const DTYPE: i32;
}

impl Element for f32 {
    const DTYPE: i32 = sys::IM2WIN_FLOAT32;
}

impl Element for f64 {
    const DTYPE: i32 = sys::IM2WIN_FLOAT64;
}

/// What is done to every output at last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    Identity,
    Relu,
    Relu6,
    /// With its slope below zero.
    LeakyRelu(f64),
    Silu,
    Gelu,
    Sigmoid,
    Tanh,
    Hardswish,
    /// Between a lower and an upper bound.
    Clamp(f64, f64),
}

impl Activation {
    fn code(self) -> (i32, [f64; 2]) {
        match self {
            Activation::Identity => (sys::IM2WIN_IDENTITY, [0.0; 2]),
            Activation::Relu => (sys::IM2WIN_RELU, [0.0; 2]),
            Activation::Relu6 => (sys::IM2WIN_RELU6, [0.0; 2]),
            Activation::LeakyRelu(slope) => (sys::IM2WIN_LEAKY_RELU, [slope, 0.0]),
            Activation::Silu => (sys::IM2WIN_SILU, [0.0; 2]),
            Activation::Gelu => (sys::IM2WIN_GELU, [0.0; 2]),
            Activation::Sigmoid => (sys::IM2WIN_SIGMOID, [0.0; 2]),
            Activation::Tanh => (sys::IM2WIN_TANH, [0.0; 2]),
            Activation::Hardswish => (sys::IM2WIN_HARDSWISH, [0.0; 2]),
            Activation::Clamp(lower, upper) => (sys::IM2WIN_CLAMP, [lower, upper]),
        }
    }
}

/// activation(convolution + bias) of dense tensors, the last index fastest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv2d {
    /// Images, channels, height, width.
    pub input_shape: [usize; 4],
    /// Filters, channels of a group, height, width.
    pub filter_shape: [usize; 4],
    /// Down, across; as are the other pairs.
    pub stride: [usize; 2],
    /// Zeros on both sides.
    pub padding: [usize; 2],
    pub dilation: [usize; 2],
    pub groups: usize,
    /// Whether there is one, of a number a filter.
    pub bias: bool,
    pub activation: Activation,
}

impl Conv2d {
    /// The plain convolution: stride, dilation and groups are 1, and there is nothing else.
    pub fn new(input_shape: [usize; 4], filter_shape: [usize; 4]) -> Self {
        Conv2d {
            input_shape,
            filter_shape,
            stride: [1; 2],
            padding: [0; 2],
            dilation: [1; 2],
            groups: 1,
            bias: false,
            activation: Activation::Identity,
        }
    }

    pub(crate) fn descriptor(&self, dtype: i32) -> Result<sys::im2win_conv2d_desc, Error> {
        let [_, channels, ..] = self.input_shape;
        if self.filter_shape[1].checked_mul(self.groups) != Some(channels) {
            return Err(Error::invalid(format!(
                "filter_shape[1] is {} in {} groups: expected {channels} channels in all",
                self.filter_shape[1], self.groups
            )));
        }
        let mut desc = sys::im2win_conv2d_desc::default();
        // SAFETY: `desc` is of the size given.
        check(unsafe {
            sys::im2win_conv2d_desc_init(&mut desc, size_of::<sys::im2win_conv2d_desc>())
        })?;
        desc.dtype = dtype;
        [desc.n, desc.c, desc.h, desc.w] = integers(self.input_shape)?;
        [desc.k, _, desc.r, desc.s] = integers(self.filter_shape)?;
        [desc.stride_h, desc.stride_w] = integers(self.stride)?;
        [desc.padding_top, desc.padding_left] = integers(self.padding)?;
        [desc.padding_bottom, desc.padding_right] = integers(self.padding)?;
        [desc.dilation_h, desc.dilation_w] = integers(self.dilation)?;
        [desc.groups] = integers([self.groups])?;
        desc.bias_dtype = if self.bias { dtype } else { sys::IM2WIN_NONE };
        (desc.activation, desc.activation_params) = self.activation.code();
        Ok(desc)
    }
}

fn integers<const N: usize>(sizes: [usize; N]) -> Result<[i64; N], Error> {
    let mut integers = [0; N];
    for (integer, size) in integers.iter_mut().zip(sizes) {
        *integer = i64::try_from(size)
            .map_err(|_| Error::invalid(format!("{size} is too large a size")))?;
    }
    Ok(integers)
}
