/* A plain C program over the installed library: results, errors, and what they leave untouched. */

#include <im2win/im2win.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define EXPECT(condition)                                                            \
  do {                                                                               \
    if (!(condition)) {                                                              \
      ++failures;                                                                    \
      printf("%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
             im2win_last_error());                                                   \
    }                                                                                \
  } while (0)

enum { N = 2, C = 3, H = 7, W = 9, K = 5, R = 3, S = 2, STRIDE = 2, PADDING = 1 };
enum { P = (H + 2 * PADDING - R) / STRIDE + 1, Q = (W + 2 * PADDING - S) / STRIDE + 1 };
enum { OUTPUTS = N * K * P * Q, GUARD = 64 };

static float input[N * C * H * W];
static float filter[K * C * R * S];
static float bias[K];
static float expected[OUTPUTS];

static void fill(float* values, int count) {
  static unsigned state = 1;
  int i;
  for (i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = (float)((int)(state >> 28) - 8); /* small integers: every sum is exact */
  }
}

static float input_at(int n, int c, int y, int x) {
  if (y < 0 || y >= H || x < 0 || x >= W) return 0;
  return input[((n * C + c) * H + y) * W + x];
}

static float relu_of_convolution(int n, int k, int p, int q) {
  float sum = bias[k];
  int c, r, s;
  for (c = 0; c < C; ++c)
    for (r = 0; r < R; ++r)
      for (s = 0; s < S; ++s)
        sum += filter[((k * C + c) * R + r) * S + s] *
               input_at(n, c, p * STRIDE + r - PADDING, q * STRIDE + s - PADDING);
  return sum < 0 ? 0 : sum;
}

static void compute_expected(void) {
  int n, k, p, q, i = 0;
  for (n = 0; n < N; ++n)
    for (k = 0; k < K; ++k)
      for (p = 0; p < P; ++p)
        for (q = 0; q < Q; ++q) expected[i++] = relu_of_convolution(n, k, p, q);
}

static im2win_conv2d_desc make_desc(void) {
  im2win_conv2d_desc desc;
  EXPECT(im2win_conv2d_desc_init(&desc, sizeof desc) == IM2WIN_SUCCESS);
  desc.n = N;
  desc.c = C;
  desc.h = H;
  desc.w = W;
  desc.k = K;
  desc.r = R;
  desc.s = S;
  desc.stride_h = desc.stride_w = STRIDE;
  desc.padding_top = desc.padding_bottom = desc.padding_left = desc.padding_right = PADDING;
  desc.bias_dtype = IM2WIN_FLOAT32;
  desc.activation = IM2WIN_RELU;
  return desc;
}

static void* aligned(char* bytes) { return bytes + (256 - (size_t)bytes % 256) % 256; }

static void check_algorithm(const char* name) {
  const im2win_conv2d_desc desc = make_desc();
  im2win_plan_options options;
  im2win_plan* plan = NULL;
  const char* chosen = NULL;
  size_t bytes = 0;
  float output[GUARD + OUTPUTS + GUARD];
  char* workspace;
  int64_t shape[4];
  im2win_status support;
  int i;

  EXPECT(im2win_plan_options_init(&options, sizeof options) == IM2WIN_SUCCESS);
  options.algorithm = name;
  support = im2win_conv2d_supports(&desc, &options, name);
  if (support == IM2WIN_UNSUPPORTED && strcmp(name, "direct") != 0) return;
  EXPECT(support == IM2WIN_SUCCESS);
  EXPECT(im2win_plan_create(&desc, &options, &plan) == IM2WIN_SUCCESS);
  EXPECT(im2win_plan_algorithm(plan, &chosen) == IM2WIN_SUCCESS && strcmp(chosen, name) == 0);
  EXPECT(im2win_plan_output_shape(plan, shape) == IM2WIN_SUCCESS);
  EXPECT(shape[0] == N && shape[1] == K && shape[2] == P && shape[3] == Q);
  EXPECT(im2win_plan_workspace_bytes(plan, &bytes) == IM2WIN_SUCCESS);

  workspace = malloc(bytes + 512);
  memset(output, 0xff, sizeof output); /* NaN */
  if (bytes > 0) {
    EXPECT(im2win_conv2d(plan, input, filter, bias, NULL, output + GUARD, aligned(workspace),
                         bytes - 1, NULL) == IM2WIN_WORKSPACE_TOO_SMALL);
    EXPECT(output[GUARD] != output[GUARD]); /* untouched */
  }
  EXPECT(im2win_conv2d(plan, input, filter, bias, NULL, output + GUARD, aligned(workspace), bytes,
                       NULL) == IM2WIN_SUCCESS);
  EXPECT(memcmp(output + GUARD, expected, sizeof expected) == 0);
  for (i = 0; i < GUARD; ++i) {
    EXPECT(output[i] != output[i]);
    EXPECT(output[GUARD + OUTPUTS + i] != output[GUARD + OUTPUTS + i]);
  }
  im2win_plan_destroy(plan);
  free(workspace);
}

static void check_errors(void) {
  im2win_conv2d_desc desc = make_desc();
  im2win_plan* plan = (im2win_plan*)&desc;
  int64_t p = 0, q = 0;

  desc.stride_w = 0;
  EXPECT(im2win_conv2d_output_size(&desc, &p, &q) == IM2WIN_INVALID_ARGUMENT);
  EXPECT(strstr(im2win_last_error(), "stride_w is 0") != NULL);
  EXPECT(im2win_plan_create(&desc, NULL, &plan) == IM2WIN_INVALID_ARGUMENT && plan == NULL);
  desc.stride_w = 1;
  desc.struct_size = 4;
  EXPECT(im2win_conv2d_output_size(&desc, &p, &q) == IM2WIN_INVALID_ARGUMENT);
  EXPECT(im2win_conv2d_output_size(NULL, &p, &q) == IM2WIN_INVALID_ARGUMENT);
  EXPECT(im2win_conv2d(NULL, input, filter, NULL, NULL, expected, NULL, 0, NULL) ==
         IM2WIN_INVALID_ARGUMENT);
  EXPECT(strcmp(im2win_status_name(IM2WIN_NO_DEVICE), "IM2WIN_NO_DEVICE") == 0);
  im2win_plan_destroy(NULL);
}

static void check_transform(void) {
  const im2win_conv2d_desc desc = make_desc();
  float windows[N * C * P * (W + 2 * PADDING) * R];
  size_t bytes = 0;
  int n, c, p, x, r, i = 0;
  EXPECT(im2win_transform_bytes(&desc, &bytes) == IM2WIN_SUCCESS && bytes == sizeof windows);
  EXPECT(im2win_transform(&desc, IM2WIN_CPU, input, windows, bytes, NULL) == IM2WIN_SUCCESS);
  for (n = 0; n < N; ++n)
    for (c = 0; c < C; ++c)
      for (p = 0; p < P; ++p)
        for (x = 0; x < W + 2 * PADDING; ++x)
          for (r = 0; r < R; ++r)
            EXPECT(windows[i++] == input_at(n, c, p * STRIDE + r - PADDING, x - PADDING));
}

int main(void) {
  const char* name = NULL;
  int32_t index;
  EXPECT(im2win_version() ==
         IM2WIN_VERSION_MAJOR * 10000 + IM2WIN_VERSION_MINOR * 100 + IM2WIN_VERSION_PATCH);
  fill(input, N * C * H * W);
  fill(filter, K * C * R * S);
  fill(bias, K);
  compute_expected();
  for (index = 0; im2win_algorithm_name(IM2WIN_CPU, index, &name) == IM2WIN_SUCCESS && name;
       ++index)
    check_algorithm(name);
  EXPECT(index > 0);
  check_errors();
  check_transform();
  printf("%d algorithms, %d failures\n", (int)index, failures);
  return failures != 0;
}
