// What tiles are chosen for. Plain host code: see device.hpp for the device that there is.
#pragma once

namespace im2win::cuda {

struct DeviceLimits {
  int multiprocessors;
  int shared_bytes;  // of a block
};
inline constexpr DeviceLimits kH200 = {132, 227 * 1024};

}  // namespace im2win::cuda
