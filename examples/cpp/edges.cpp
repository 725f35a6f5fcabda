/* Edges of an image: two filters with bias and ReLU, on the CPU and, where there is one, a GPU.
 *
 *   edges IMAGE.pgm
 */
#include <algorithm>
#include <exception>
#include <fstream>
#include <im2win/im2win.hpp>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace {

using Floats = std::vector<float>;

constexpr int filters = 2, size = 3;

// Changes of brightness from left to right and from top to bottom, above 100.
const Floats filter = {-1, 0,  1,  -2, 0, 2, -1, 0, 1,   // k = 0
                       -1, -2, -1, 0,  0, 0, 1,  2, 1};  // k = 1
const Floats bias = {-100, -100};

struct Image {
  int height, width;
  Floats pixels;
};

/// A PGM file of plain text.
Image read_image(const char* path) {
  std::ifstream file(path);
  std::string magic;
  int width = 0, height = 0, maximum = 0;
  if (!(file >> magic >> width >> height >> maximum) || magic != "P2")
    throw std::runtime_error("not a plain PGM file");
  Floats pixels(static_cast<std::size_t>(height) * width);
  for (float& pixel : pixels)
    if (!(file >> pixel)) throw std::runtime_error("the image is cut short");
  return {height, width, std::move(pixels)};
}

im2win::Plan make_plan(const Image& image, int device) {
  im2win::Conv2dDesc desc;
  desc.n = desc.c = 1;
  desc.h = image.height;
  desc.w = image.width;
  desc.k = filters;
  desc.r = desc.s = size;
  desc.padding_top = desc.padding_bottom = desc.padding_left = desc.padding_right = 1;
  desc.bias_dtype = IM2WIN_FLOAT32;
  desc.activation = IM2WIN_RELU;
  im2win::PlanOptions options;
  options.device = device;
  return im2win::Plan(desc, options);
}

im2win::Memory copied_to(int device, const Floats& values) {
  im2win::Memory memory(device, sizeof(float) * values.size());
  memory.upload(values.data());
  return memory;
}

Floats run(const im2win::Plan& plan, const Image& image, int device) {
  Floats result(filters * image.pixels.size());
  const auto input = copied_to(device, image.pixels);
  const auto weight = copied_to(device, filter);
  const auto offset = copied_to(device, bias);
  const im2win::Memory output(device, sizeof(float) * result.size());
  const im2win::Memory workspace(device, plan.workspace_bytes());
  im2win::Tensors tensors;
  tensors.input = input.get();
  tensors.filter = weight.get();
  tensors.bias = offset.get();
  tensors.output = output.get();
  plan.run(tensors, workspace.get(), workspace.bytes());
  output.download(result.data());
  return result;
}

float expected(const Image& image, int k, int p, int q) {
  float sum = bias[k];
  for (int r = 0; r < size; ++r)
    for (int s = 0; s < size; ++s) {
      const int y = p + r - 1, x = q + s - 1;
      if (y >= 0 && y < image.height && x >= 0 && x < image.width)
        sum += filter[(k * size + r) * size + s] * image.pixels[y * image.width + x];
    }
  return std::max(sum, 0.0f);
}

/// The outputs are whole numbers: they have to be right to the last bit.
void check(const Image& image, const Floats& output) {
  auto found = output.begin();
  for (int k = 0; k < filters; ++k)
    for (int p = 0; p < image.height; ++p)
      for (int q = 0; q < image.width; ++q)
        if (*found++ != expected(image, k, p, q)) throw std::runtime_error("wrong");
}

void find_edges(const Image& image, int device) {
  const auto plan = make_plan(image, device);
  const auto output = run(plan, image, device);
  check(image, output);
  std::cout << (device == IM2WIN_CPU ? "cpu" : "cuda") << ": " << plan.algorithm() << ", sum "
            << std::accumulate(output.begin(), output.end(), 0.0) << '\n';
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: edges IMAGE.pgm");
  const Image image = read_image(argv[1]);
  find_edges(image, IM2WIN_CPU);
  if (im2win::cuda_device_count() > 0)
    find_edges(image, 0);
  else
    std::cout << "no GPU: " << im2win_last_error() << '\n';
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
