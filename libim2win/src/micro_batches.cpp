#include "micro_batches.hpp"

#include <algorithm>

#include "part_buffers.hpp"

namespace im2win {
namespace {

/// The same problem with another number of images.
Problem with_images(const Problem& problem, int64_t images) {
  Problem part = problem;
  part.n = part.input.size[0] = part.output.size[0] = part.residual.size[0] = images;
  return part;
}

/// Parts of `images` images each, and a last one of what remains. The remainder is a problem of its
/// own, which the algorithm may configure, and pack the filter for, in another way.
class MicroBatches final : public Convolution {
 public:
  MicroBatches(const Algorithm& algorithm, const Problem& problem, const Target& target,
               int64_t images)
      : problem_(problem),
        images_(images),
        whole_(algorithm.configure(with_images(problem, images), target)) {
    if (const int64_t rest = problem.n % images; rest > 0)
      rest_ = algorithm.configure(with_images(problem, rest), target);
  }

  int64_t workspace_bytes() const override {
    return std::max(whole_->workspace_bytes(), rest_ ? rest_->workspace_bytes() : 0);
  }

  int64_t packed_filter_bytes() const override {
    return rest_filter_offset() + (rest_ ? rest_->packed_filter_bytes() : 0);
  }

  void pack_filter(const void* filter, void* packed, void* stream) const override {
    whole_->pack_filter(filter, packed, stream);
    if (rest_) rest_->pack_filter(filter, advance(packed, rest_filter_offset()), stream);
  }

  void run(const Buffers& buffers, void* stream) const override {
    int64_t first = 0;
    for (; first + images_ <= problem_.n; first += images_)
      whole_->run(from_image(buffers, first), stream);
    if (!rest_) return;
    Buffers last = from_image(buffers, first);
    last.filter = advance(last.filter, rest_filter_offset());
    rest_->run(last, stream);
  }

 private:
  int64_t rest_filter_offset() const {
    return round_up(whole_->packed_filter_bytes(), kBufferAlignment);
  }

  Buffers from_image(const Buffers& buffers, int64_t image) const {
    return part_buffers(buffers, problem_, 0, image, image);
  }

  Problem problem_;
  int64_t images_;
  std::unique_ptr<const Convolution> whole_;
  std::unique_ptr<const Convolution> rest_;
};

}  // namespace

std::unique_ptr<const Convolution> split_batch(const Algorithm& algorithm, const Problem& problem,
                                               const Target& target, uint64_t limit_bytes) {
  std::unique_ptr<const Convolution> best;
  int64_t fitting = 0;            // images of a part, known to fit
  int64_t exceeding = problem.n;  // known not to
  while (exceeding - fitting > 1) {
    const int64_t images = fitting > 0 ? fitting + (exceeding - fitting) / 2 : 1;
    auto parts = std::make_unique<MicroBatches>(algorithm, problem, target, images);
    if (static_cast<uint64_t>(parts->total_bytes()) <= limit_bytes) {
      fitting = images;
      best = std::move(parts);
    } else if (fitting == 0) {
      return nullptr;
    } else {
      exceeding = images;
    }
  }
  return best;
}

int64_t least_bytes(const Algorithm& algorithm, const Problem& problem, const Target& target) {
  const int64_t whole = algorithm.configure(problem, target)->total_bytes();
  if (problem.n <= 1) return whole;
  return std::min(whole, MicroBatches(algorithm, problem, target, 1).total_bytes());
}

}  // namespace im2win
