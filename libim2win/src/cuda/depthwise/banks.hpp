// How lanes of a warp meet in the banks of shared memory. Plain host code, for choices of tiles.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace im2win::cuda {

inline constexpr int64_t kBanks = 32;  // of shared memory, a float wide
inline constexpr int kLanes = 32;      // of a warp

/// How many times a warp's lanes take to access these floats of shared memory.
template <class Address>
int64_t accesses(Address address) {
  std::array<int64_t, kBanks> at{}, most{};
  for (int lane = 0; lane < kLanes; ++lane) at[static_cast<size_t>(lane)] = address(lane);
  std::sort(at.begin(), at.end());
  const auto end = std::unique(at.begin(), at.end());
  for (auto each = at.begin(); each != end; ++each) ++most[static_cast<size_t>(*each % kBanks)];
  return *std::max_element(most.begin(), most.end());
}

}  // namespace im2win::cuda
