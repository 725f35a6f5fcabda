//! libim2win's C interface, as it is: `im2win.h` says what everything means.

#![no_std]
#![allow(non_camel_case_types)]

use core::ffi::{c_char, c_int, c_void};

pub type im2win_status = c_int;
pub const IM2WIN_SUCCESS: im2win_status = 0;
pub const IM2WIN_INVALID_ARGUMENT: im2win_status = 1;
pub const IM2WIN_UNSUPPORTED: im2win_status = 2;
pub const IM2WIN_WORKSPACE_TOO_SMALL: im2win_status = 3;
pub const IM2WIN_OUT_OF_MEMORY: im2win_status = 4;
pub const IM2WIN_NO_DEVICE: im2win_status = 5;
pub const IM2WIN_CUDA_ERROR: im2win_status = 6;
pub const IM2WIN_INTERNAL_ERROR: im2win_status = 7;

pub const IM2WIN_CPU: i32 = -1;

pub const IM2WIN_FORWARD: i32 = 0;

pub const IM2WIN_NONE: i32 = 0;
pub const IM2WIN_FLOAT64: i32 = 1;
pub const IM2WIN_FLOAT32: i32 = 2;
pub const IM2WIN_FLOAT16: i32 = 3;
pub const IM2WIN_BFLOAT16: i32 = 4;

pub const IM2WIN_MATH_FP32: i32 = 0;
pub const IM2WIN_MATH_IEEE: i32 = 1;
pub const IM2WIN_MATH_TF32: i32 = 2;

pub const IM2WIN_NCHW: i32 = 0;
pub const IM2WIN_NHWC: i32 = 1;
pub const IM2WIN_STRIDED: i32 = 2;

pub const IM2WIN_IDENTITY: i32 = 0;
pub const IM2WIN_RELU: i32 = 1;
pub const IM2WIN_RELU6: i32 = 2;
pub const IM2WIN_LEAKY_RELU: i32 = 3;
pub const IM2WIN_SILU: i32 = 4;
pub const IM2WIN_GELU: i32 = 5;
pub const IM2WIN_SIGMOID: i32 = 6;
pub const IM2WIN_TANH: i32 = 7;
pub const IM2WIN_HARDSWISH: i32 = 8;
pub const IM2WIN_CLAMP: i32 = 9;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct im2win_conv2d_desc {
    pub struct_size: u32,
    pub operation: i32,
    pub dtype: i32,
    pub math: i32,
    pub n: i64,
    pub c: i64,
    pub h: i64,
    pub w: i64,
    pub k: i64,
    pub r: i64,
    pub s: i64,
    pub stride_h: i64,
    pub stride_w: i64,
    pub padding_top: i64,
    pub padding_bottom: i64,
    pub padding_left: i64,
    pub padding_right: i64,
    pub dilation_h: i64,
    pub dilation_w: i64,
    pub groups: i64,
    pub input_layout: i32,
    pub filter_layout: i32,
    pub output_layout: i32,
    pub residual_layout: i32,
    pub input_strides: [i64; 4],
    pub filter_strides: [i64; 4],
    pub output_strides: [i64; 4],
    pub residual_strides: [i64; 4],
    pub bias_dtype: i32,
    pub has_residual: i32,
    pub bias_stride: i64,
    pub alpha: f64,
    pub beta: f64,
    pub activation: i32,
    pub reserved: i32,
    pub activation_params: [f64; 2],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct im2win_plan_options {
    pub struct_size: u32,
    pub device: i32,
    pub threads: i32,
    pub packed_filter: i32,
    pub workspace_limit_bytes: u64,
    pub algorithm: *const c_char,
}

#[repr(C)]
pub struct im2win_plan {
    _opaque: [u8; 0],
}

extern "C" {
    pub fn im2win_status_name(status: im2win_status) -> *const c_char;
    pub fn im2win_last_error() -> *const c_char;
    pub fn im2win_version() -> i32;
    pub fn im2win_cuda_device_count(count: *mut i32) -> im2win_status;
    pub fn im2win_device_describe(
        device: i32,
        text: *mut c_char,
        text_bytes: usize,
    ) -> im2win_status;
    pub fn im2win_conv2d_desc_init(
        desc: *mut im2win_conv2d_desc,
        desc_bytes: usize,
    ) -> im2win_status;
    pub fn im2win_conv2d_output_size(
        desc: *const im2win_conv2d_desc,
        p: *mut i64,
        q: *mut i64,
    ) -> im2win_status;
    pub fn im2win_plan_options_init(
        options: *mut im2win_plan_options,
        options_bytes: usize,
    ) -> im2win_status;
    pub fn im2win_algorithm_name(
        device: i32,
        index: i32,
        name: *mut *const c_char,
    ) -> im2win_status;
    pub fn im2win_conv2d_supports(
        desc: *const im2win_conv2d_desc,
        options: *const im2win_plan_options,
        algorithm: *const c_char,
    ) -> im2win_status;
    pub fn im2win_plan_create(
        desc: *const im2win_conv2d_desc,
        options: *const im2win_plan_options,
        plan: *mut *mut im2win_plan,
    ) -> im2win_status;
    pub fn im2win_plan_destroy(plan: *mut im2win_plan);
    pub fn im2win_plan_output_shape(plan: *const im2win_plan, shape: *mut i64) -> im2win_status;
    pub fn im2win_plan_workspace_bytes(
        plan: *const im2win_plan,
        workspace_bytes: *mut usize,
    ) -> im2win_status;
    pub fn im2win_plan_packed_filter_bytes(
        plan: *const im2win_plan,
        packed_filter_bytes: *mut usize,
    ) -> im2win_status;
    pub fn im2win_pack_filter(
        plan: *const im2win_plan,
        filter: *const c_void,
        packed: *mut c_void,
        packed_bytes: usize,
        stream: *mut c_void,
    ) -> im2win_status;
    pub fn im2win_plan_algorithm(
        plan: *const im2win_plan,
        name: *mut *const c_char,
    ) -> im2win_status;
    pub fn im2win_conv2d(
        plan: *const im2win_plan,
        input: *const c_void,
        filter: *const c_void,
        bias: *const c_void,
        residual: *const c_void,
        output: *mut c_void,
        workspace: *mut c_void,
        workspace_bytes: usize,
        stream: *mut c_void,
    ) -> im2win_status;
    pub fn im2win_transform_bytes(
        desc: *const im2win_conv2d_desc,
        output_bytes: *mut usize,
    ) -> im2win_status;
    pub fn im2win_transform(
        desc: *const im2win_conv2d_desc,
        device: i32,
        input: *const c_void,
        output: *mut c_void,
        output_bytes: usize,
        stream: *mut c_void,
    ) -> im2win_status;
    pub fn im2win_cuda_alloc(
        device: i32,
        bytes: usize,
        stream: *mut c_void,
        pointer: *mut *mut c_void,
    ) -> im2win_status;
    pub fn im2win_cuda_free(
        device: i32,
        pointer: *mut c_void,
        stream: *mut c_void,
    ) -> im2win_status;
    pub fn im2win_cuda_copy(
        device: i32,
        target: *mut c_void,
        source: *const c_void,
        bytes: usize,
        stream: *mut c_void,
    ) -> im2win_status;
    pub fn im2win_cuda_synchronize(device: i32, stream: *mut c_void) -> im2win_status;
}
