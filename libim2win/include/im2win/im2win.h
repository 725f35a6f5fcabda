/* libim2win: convolution by windows (im2win) on CPU and CUDA.
 *
 * The method is "Im2win: An Efficient Convolution Paradigm on GPU" (Lu, Chu, Guo, Liu, Euro-Par
 * 2023): the input is read in the order in which dot-product windows visit it, so that windows
 * overlap in memory instead of being copied (im2col) or gathered (direct).
 *
 *   plan once:   im2win_conv2d_desc_init -> fill -> im2win_plan_create
 *   run often:   im2win_conv2d(plan, input, filter, bias, residual, output, workspace, ..., stream)
 *
 * Conventions, which hold for every function here:
 * - Names: input N C H W (images, channels, height, width); filter K C/groups R S (filters,
 *   channels, height, width); output N K P Q. Byte counts end in `_bytes`; strides count elements.
 * - A call that can fail returns an im2win_status. On failure it has written nothing to the
 *   caller's tensors, and im2win_last_error() names the argument, its value and what was expected.
 * - Nothing prints, exits, aborts or throws across this interface.
 * - Thread-safe: every function may be called from any thread; a plan may be used by many at once.
 * - Device pointers belong to the device of the plan or the call. No pointer is kept after a call
 *   returns, but a CUDA call is asynchronous: its buffers must live until the stream has run it.
 *
 * This header is C99 and C++, and the Python bindings are generated from it.
 */
#ifndef IM2WIN_H
#define IM2WIN_H

#include <stddef.h>
#include <stdint.h>

#define IM2WIN_VERSION_MAJOR 0
#define IM2WIN_VERSION_MINOR 1
#define IM2WIN_VERSION_PATCH 0

#if defined(_WIN32)
#if defined(IM2WIN_BUILDING)
#define IM2WIN_API __declspec(dllexport)
#else
#define IM2WIN_API __declspec(dllimport)
#endif
#else
#define IM2WIN_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ---------------------------------------------------------------------------------- */

typedef enum im2win_status {
  IM2WIN_SUCCESS = 0,
  IM2WIN_INVALID_ARGUMENT = 1,    /* an argument is wrong whatever the algorithm or the machine */
  IM2WIN_UNSUPPORTED = 2,         /* legal, but the named algorithm or this version refuses it */
  IM2WIN_WORKSPACE_TOO_SMALL = 3, /* the workspace, or the limit on it, is below what is needed */
  IM2WIN_OUT_OF_MEMORY = 4,       /* host or device memory ran out */
  IM2WIN_NO_DEVICE = 5,           /* no CUDA in this build, no driver, or no such device */
  IM2WIN_CUDA_ERROR = 6,          /* the CUDA runtime reported an error */
  IM2WIN_INTERNAL_ERROR = 7       /* a defect in libim2win: please report it */
} im2win_status;

/* The name of a status, such as "IM2WIN_INVALID_ARGUMENT"; static storage, never NULL. */
IM2WIN_API const char* im2win_status_name(im2win_status status);

/* What went wrong in the last call of this thread that failed: one line, "" if none has. The text
 * is valid until the next call of this thread that fails. */
IM2WIN_API const char* im2win_last_error(void);

/* The library's version as MAJOR * 10000 + MINOR * 100 + PATCH; compare with the macros above. */
IM2WIN_API int32_t im2win_version(void);

/* ---- Devices --------------------------------------------------------------------------------- */

/* A device is an int32_t: a CUDA ordinal, or IM2WIN_CPU. */
enum { IM2WIN_CPU = -1 };

/* Sets *count to the number of CUDA devices. Where there is none, *count is 0, the status is
 * IM2WIN_NO_DEVICE and im2win_last_error() says why: not built in, no driver, or no device. */
IM2WIN_API im2win_status im2win_cuda_device_count(int32_t* count);

/* Writes a line that describes the device (name, instruction set or compute capability, threads or
 * memory) to text[0 .. text_bytes), cut to fit and always terminated. */
IM2WIN_API im2win_status im2win_device_describe(int32_t device, char* text, size_t text_bytes);

/* ---- The problem ----------------------------------------------------------------------------- */

/* Later versions add the two gradients. */
typedef enum im2win_operation { IM2WIN_FORWARD = 0 } im2win_operation;

typedef enum im2win_dtype {
  IM2WIN_NONE = 0, /* as bias_dtype: there is no bias */
  IM2WIN_FLOAT64 = 1,
  IM2WIN_FLOAT32 = 2,
  IM2WIN_FLOAT16 = 3, /* IEEE binary16 */
  IM2WIN_BFLOAT16 = 4
} im2win_dtype;

/* How float32 tensors may be multiplied. float64 accumulates in float64; float16 and bfloat16
 * accumulate in float32, whatever the mode. */
typedef enum im2win_math {
  IM2WIN_MATH_FP32 = 0, /* error against float64 no worse than that of an fp32 dot product */
  IM2WIN_MATH_IEEE = 1, /* every product and sum in IEEE fp32 or wider */
  IM2WIN_MATH_TF32 = 2  /* inputs may be rounded to 10 bits of mantissa */
} im2win_math;

/* How a four-dimensional tensor lies in memory. The names are those of input and output; for a
 * filter read K C R S for N C H W. */
typedef enum im2win_layout {
  IM2WIN_NCHW = 0,   /* dense, W fastest */
  IM2WIN_NHWC = 1,   /* dense, C fastest ("channels last") */
  IM2WIN_STRIDED = 2 /* as the strides say: any sign, zero for broadcast (not in an output) */
} im2win_layout;

/* y = activation(x), elementwise, before the one rounding to the output's dtype. NaN stays NaN. */
typedef enum im2win_activation {
  IM2WIN_IDENTITY = 0,
  IM2WIN_RELU = 1,
  IM2WIN_RELU6 = 2,
  IM2WIN_LEAKY_RELU = 3, /* activation_params[0]: slope below zero */
  IM2WIN_SILU = 4,
  IM2WIN_GELU = 5, /* exact, by erf */
  IM2WIN_SIGMOID = 6,
  IM2WIN_TANH = 7,
  IM2WIN_HARDSWISH = 8,
  IM2WIN_CLAMP = 9 /* activation_params[0]: lower bound, [1]: upper bound */
} im2win_activation;

/* One convolution (cross-correlation, as in every deep learning framework):
 *
 *   output = activation(alpha * conv(input, filter) + beta * residual + bias)
 *   conv[n, k, p, q] = sum over c, r, s of filter[k, c, r, s] *
 *     input[n, g(k) * C/groups + c, p * stride_h + r * dilation_h - padding_top,
 *                                   q * stride_w + s * dilation_w - padding_left]
 *
 * where g(k) = k / (K/groups), and positions outside the input contribute nothing.
 *
 * Set it up with im2win_conv2d_desc_init, then fill in the sizes. Fields are only ever added, at
 * the end; struct_size tells the library which of them the caller knows. */
typedef struct im2win_conv2d_desc {
  uint32_t struct_size; /* sizeof(im2win_conv2d_desc), set by im2win_conv2d_desc_init */
  int32_t operation;    /* im2win_operation */
  int32_t dtype;        /* im2win_dtype of input, filter, residual and output */
  int32_t math;         /* im2win_math */

  int64_t n, c, h, w; /* input: N >= 0, the others >= 1 */
  int64_t k, r, s;    /* filter [k, c / groups, r, s], >= 1 */
  int64_t stride_h, stride_w;
  int64_t padding_top, padding_bottom, padding_left, padding_right; /* >= 0 */
  int64_t dilation_h, dilation_w;
  int64_t groups; /* divides c and k */

  int32_t input_layout, filter_layout, output_layout, residual_layout; /* im2win_layout */
  /* In elements, in the order N C H W (K C R S for the filter); read where the layout is
   * IM2WIN_STRIDED. The pointer given to im2win_conv2d is that of element [0, 0, 0, 0]. */
  int64_t input_strides[4], filter_strides[4], output_strides[4], residual_strides[4];

  int32_t bias_dtype;   /* IM2WIN_NONE, dtype, or IM2WIN_FLOAT32 with 16-bit tensors; shape [k] */
  int32_t has_residual; /* 0 or 1; shape and dtype are the output's */
  int64_t bias_stride;  /* in elements */
  double alpha, beta;
  int32_t activation; /* im2win_activation */
  int32_t reserved;   /* 0 */
  double activation_params[2];
} im2win_conv2d_desc;

/* Fills *desc with the defaults: forward, float32, IM2WIN_MATH_FP32, NCHW, stride, dilation and
 * groups 1, no padding, bias, residual or activation, alpha and beta 1, and sizes 0, to be set by
 * the caller. Call it with sizeof *desc. */
IM2WIN_API im2win_status im2win_conv2d_desc_init(im2win_conv2d_desc* desc, size_t desc_bytes);

/* Checks the descriptor and sets *p and *q to the output's height and width,
 * (h + padding - dilation * (r - 1) - 1) / stride + 1. */
IM2WIN_API im2win_status im2win_conv2d_output_size(const im2win_conv2d_desc* desc, int64_t* p,
                                                   int64_t* q);

/* ---- Algorithms and plans -------------------------------------------------------------------- */

/* Where and how to run. Set it up with im2win_plan_options_init; fields are only ever added. */
typedef struct im2win_plan_options {
  uint32_t struct_size;           /* sizeof(im2win_plan_options), set by the init function */
  int32_t device;                 /* IM2WIN_CPU or a CUDA ordinal */
  int32_t threads;                /* of the CPU backend, up to 1024; 0: OpenMP's, if they pay */
  int32_t packed_filter;          /* 1: im2win_conv2d takes what im2win_pack_filter wrote; or 0 */
  uint64_t workspace_limit_bytes; /* a hard cap: the batch is split, or another algorithm chosen */
  const char* algorithm;          /* a name from im2win_algorithm_name; NULL: the best that fits */
} im2win_plan_options;

/* Fills *options with the defaults: CPU, OpenMP's threads, no limit, the best algorithm. Call it
 * with sizeof *options. */
IM2WIN_API im2win_status im2win_plan_options_init(im2win_plan_options* options,
                                                  size_t options_bytes);

/* Sets *name to the name of algorithm `index` of the device's backend, best first, the one that
 * takes every legal problem last, or to NULL where index is past the end. Static storage. Needs no
 * device: any ordinal >= 0 stands for the CUDA backend. */
IM2WIN_API im2win_status im2win_algorithm_name(int32_t device, int32_t index, const char** name);

/* IM2WIN_SUCCESS if the named algorithm of options->device takes this problem; IM2WIN_UNSUPPORTED,
 * with the reason in im2win_last_error(), if it refuses. options->algorithm and the workspace limit
 * are not looked at, nor is the device where there is none. */
IM2WIN_API im2win_status im2win_conv2d_supports(const im2win_conv2d_desc* desc,
                                                const im2win_plan_options* options,
                                                const char* algorithm);

/* A problem, the algorithm chosen for it and its configuration. Immutable. */
typedef struct im2win_plan im2win_plan;

/* Creates a plan in *plan, which the caller destroys; options NULL means the defaults. The choice
 * is a function of the arguments and the kind of device alone: the same every time. Errors: as
 * named by the status; *plan is then NULL. */
IM2WIN_API im2win_status im2win_plan_create(const im2win_conv2d_desc* desc,
                                            const im2win_plan_options* options, im2win_plan** plan);

/* Destroys a plan that no call is using; work that a stream still has from one is not affected.
 * NULL is fine. */
IM2WIN_API void im2win_plan_destroy(im2win_plan* plan);

/* shape[0 .. 4) = N K P Q. */
IM2WIN_API im2win_status im2win_plan_output_shape(const im2win_plan* plan, int64_t* shape);

/* The workspace that im2win_conv2d needs with this plan; 0 for many. */
IM2WIN_API im2win_status im2win_plan_workspace_bytes(const im2win_plan* plan,
                                                     size_t* workspace_bytes);

/* The size of the filter as the plan's algorithm lays it out; 0 if it takes it as it is. */
IM2WIN_API im2win_status im2win_plan_packed_filter_bytes(const im2win_plan* plan,
                                                         size_t* packed_filter_bytes);

/* Writes the filter to packed[0 .. im2win_plan_packed_filter_bytes) as the plan's algorithm lays it
 * out. A plan that differs in options->packed_filter alone then takes `packed`, aligned to 256
 * bytes and on the same device, in the place of the filter, any number of times: what a plan
 * without packed_filter does in its workspace in every call is done once. Where the size is 0 there
 * is nothing to pack: such a plan takes the filter itself. The workspace limit counts the packed
 * filter in both cases, so that both choose the same algorithm. Stream and asynchrony as in
 * im2win_conv2d. */
IM2WIN_API im2win_status im2win_pack_filter(const im2win_plan* plan, const void* filter,
                                            void* packed, size_t packed_bytes, void* stream);

/* The name of the plan's algorithm; static storage. */
IM2WIN_API im2win_status im2win_plan_algorithm(const im2win_plan* plan, const char** name);

/* Convolves. Pointers are to the first element of each tensor, on the plan's device, aligned to the
 * element's size (workspace: to 256 bytes); bias, residual and workspace are NULL where the plan
 * has none. The output may be the residual itself, in place, but overlaps no other tensor; every
 * element of it is written, and nothing between them. The workspace's content is undefined before
 * and after.
 *
 * On CUDA the call enqueues kernels on `stream` (a cudaStream_t of the plan's device; NULL: the
 * legacy default stream) and returns; it never allocates or synchronises, and may be captured in a
 * graph. On the CPU it returns when done, and `stream` is ignored. The same bits come out every
 * time.
 *
 * Two calls at once need two workspaces. An empty batch (n = 0) does nothing, successfully. */
IM2WIN_API im2win_status im2win_conv2d(const im2win_plan* plan, const void* input,
                                       const void* filter, const void* bias, const void* residual,
                                       void* output, void* workspace, size_t workspace_bytes,
                                       void* stream);

/* ---- The im2win tensor itself ---------------------------------------------------------------- */

/* The transform (the paper's equation 2, with padding and dilation) turns the input into the dense
 * tensor T of shape [N, C, P, Wp * R], Wp = w + padding_left + padding_right, of the input's dtype:
 *
 *   T[n, c, p, x * R + r] =
 *     input[n, c, p * stride_h + r * dilation_h - padding_top, x - padding_left]
 *
 * and zero where that lies outside the input. The window of output [p, q] starts at
 * x = q * stride_w, and with dilation_w = 1 it is S * R consecutive elements.
 *
 * Sets *output_bytes to the size of T. Only the input's and the window's fields of desc are
 * used. */
IM2WIN_API im2win_status im2win_transform_bytes(const im2win_conv2d_desc* desc,
                                                size_t* output_bytes);

/* Writes T to output[0 .. im2win_transform_bytes), which does not overlap the input. Pointers,
 * stream and asynchrony as in im2win_conv2d. */
IM2WIN_API im2win_status im2win_transform(const im2win_conv2d_desc* desc, int32_t device,
                                          const void* input, void* output, size_t output_bytes,
                                          void* stream);

/* ---- Device memory, for callers without a CUDA runtime of their own -------------------------- */

/* Sets *pointer to `bytes` bytes on the device, ordered on `stream`; free with im2win_cuda_free. */
IM2WIN_API im2win_status im2win_cuda_alloc(int32_t device, size_t bytes, void* stream,
                                           void** pointer);

/* Returns memory to the device once `stream` has done the work already enqueued. NULL is fine. */
IM2WIN_API im2win_status im2win_cuda_free(int32_t device, void* pointer, void* stream);

/* Copies between host and device memory, in any direction, on `stream`. Host memory must stay as it
 * is until the stream has run the copy. */
IM2WIN_API im2win_status im2win_cuda_copy(int32_t device, void* target, const void* source,
                                          size_t bytes, void* stream);

/* Waits until `stream` has done all work enqueued on it, and reports an error of that work. */
IM2WIN_API im2win_status im2win_cuda_synchronize(int32_t device, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* IM2WIN_H */
