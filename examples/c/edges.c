/* Edges of an image: two filters with bias and ReLU, on the CPU and, where there is one, a GPU.
 *
 *   edges IMAGE.pgm
 */
#include <im2win/im2win.h>
#include <stdio.h>
#include <stdlib.h>

enum { FILTERS = 2, SIZE = 3 };

/* Changes of brightness from left to right and from top to bottom, above 100. */
static const float filter[FILTERS][SIZE][SIZE] = {{{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}},
                                                  {{-1, -2, -1}, {0, 0, 0}, {1, 2, 1}}};
static const float bias[FILTERS] = {-100, -100};

typedef struct {
  int height, width;
  float* pixels;
} Image;

static void fail(const char* what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void check(im2win_status status) {
  if (status != IM2WIN_SUCCESS) fail(im2win_last_error());
}

static void* allocate(size_t bytes) {
  void* memory = malloc(bytes);
  if (memory == NULL) fail("out of memory");
  return memory;
}

/* A PGM file of plain text. */
static Image read_image(const char* path) {
  Image image = {0, 0, NULL};
  FILE* file = fopen(path, "r");
  int i;
  if (file == NULL) fail("cannot open the image");
  if (fscanf(file, "P2 %d %d %*d", &image.width, &image.height) != 2) fail("not a plain PGM file");
  image.pixels = allocate(sizeof(float) * image.height * image.width);
  for (i = 0; i < image.height * image.width; ++i)
    if (fscanf(file, "%f", &image.pixels[i]) != 1) fail("the image is cut short");
  fclose(file);
  return image;
}

static im2win_plan* create_plan(const Image* image, int32_t device) {
  im2win_conv2d_desc desc;
  im2win_plan_options options;
  im2win_plan* plan = NULL;
  check(im2win_conv2d_desc_init(&desc, sizeof desc));
  desc.n = desc.c = 1;
  desc.h = image->height;
  desc.w = image->width;
  desc.k = FILTERS;
  desc.r = desc.s = SIZE;
  desc.padding_top = desc.padding_bottom = desc.padding_left = desc.padding_right = 1;
  desc.bias_dtype = IM2WIN_FLOAT32;
  desc.activation = IM2WIN_RELU;
  check(im2win_plan_options_init(&options, sizeof options));
  options.device = device;
  check(im2win_plan_create(&desc, &options, &plan));
  return plan;
}

static void run_on_cpu(const im2win_plan* plan, const Image* image, float* output) {
  size_t bytes = 0;
  char* workspace;
  check(im2win_plan_workspace_bytes(plan, &bytes));
  workspace = allocate(bytes + 256); /* it is aligned to 256 bytes */
  check(im2win_conv2d(plan, image->pixels, filter, bias, NULL, output,
                      workspace + (256 - (size_t)workspace % 256), bytes, NULL));
  free(workspace);
}

/* Device memory with a copy of the source, if there is one. */
static void* on_gpu(const void* source, size_t bytes) {
  void* memory = NULL;
  if (bytes == 0) return NULL;
  check(im2win_cuda_alloc(0, bytes, NULL, &memory));
  if (source != NULL) check(im2win_cuda_copy(0, memory, source, bytes, NULL));
  return memory;
}

static void run_on_gpu(const im2win_plan* plan, const Image* image, float* output) {
  const size_t input_bytes = sizeof(float) * image->height * image->width;
  size_t workspace_bytes = 0;
  void* memory[5];
  int i;
  check(im2win_plan_workspace_bytes(plan, &workspace_bytes));
  memory[0] = on_gpu(image->pixels, input_bytes);
  memory[1] = on_gpu(filter, sizeof filter);
  memory[2] = on_gpu(bias, sizeof bias);
  memory[3] = on_gpu(NULL, FILTERS * input_bytes);
  memory[4] = on_gpu(NULL, workspace_bytes);
  check(im2win_conv2d(plan, memory[0], memory[1], memory[2], NULL, memory[3], memory[4],
                      workspace_bytes, NULL));
  check(im2win_cuda_copy(0, output, memory[3], FILTERS * input_bytes, NULL));
  check(im2win_cuda_synchronize(0, NULL));
  for (i = 0; i < 5; ++i) check(im2win_cuda_free(0, memory[i], NULL));
}

static float expected(const Image* image, int k, int p, int q) {
  float sum = bias[k];
  int r, s;
  for (r = 0; r < SIZE; ++r)
    for (s = 0; s < SIZE; ++s) {
      const int y = p + r - 1, x = q + s - 1;
      if (y >= 0 && y < image->height && x >= 0 && x < image->width)
        sum += filter[k][r][s] * image->pixels[y * image->width + x];
    }
  return sum > 0 ? sum : 0;
}

/* The outputs are whole numbers: they have to be right to the last bit. */
static void check_output(const Image* image, const float* output) {
  int k, p, q;
  for (k = 0; k < FILTERS; ++k)
    for (p = 0; p < image->height; ++p)
      for (q = 0; q < image->width; ++q)
        if (*output++ != expected(image, k, p, q)) fail("wrong");
}

static void find_edges(const Image* image, int32_t device) {
  const int outputs = FILTERS * image->height * image->width;
  float* output = allocate(sizeof(float) * outputs);
  im2win_plan* plan = create_plan(image, device);
  const char* algorithm = NULL;
  double sum = 0;
  int i;
  if (device == IM2WIN_CPU)
    run_on_cpu(plan, image, output);
  else
    run_on_gpu(plan, image, output);
  check_output(image, output);
  for (i = 0; i < outputs; ++i) sum += output[i];
  check(im2win_plan_algorithm(plan, &algorithm));
  printf("%s: %s, sum %.0f\n", device == IM2WIN_CPU ? "cpu" : "cuda", algorithm, sum);
  im2win_plan_destroy(plan);
  free(output);
}

int main(int argc, char** argv) {
  int32_t gpus = 0;
  Image image;
  if (argc != 2) fail("usage: edges IMAGE.pgm");
  image = read_image(argv[1]);
  find_edges(&image, IM2WIN_CPU);
  if (im2win_cuda_device_count(&gpus) == IM2WIN_SUCCESS)
    find_edges(&image, 0);
  else
    printf("no GPU: %s\n", im2win_last_error());
  free(image.pixels);
  return 0;
}
