// Plans shared by 16 threads, plans made and destroyed by all of them, errors of each to itself, a
// fork in the middle of it, and 100 000 plans that leave nothing behind.

#include <im2win/im2win.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 16;
constexpr int kCalls = 50;  // of a thread
constexpr int kPlans = 100'000;

std::atomic<int> failures = 0;

void expect(bool condition, const char* what) {
  if (condition) return;
  ++failures;
  std::printf("not so: %s (last error: %s)\n", what, im2win_last_error());
}

/// A convolution with its plan and data; its floats are small integers, and its halves their bits.
class Case {
 public:
  Case(int32_t dtype, int64_t channels, int64_t groups, const char* algorithm)
      : desc_(describe(dtype, channels, groups)), plan_(create(algorithm)) {
    int64_t shape[4];
    expect(im2win_plan_output_shape(plan_, shape) == IM2WIN_SUCCESS, "a plan has a shape");
    expect(im2win_plan_workspace_bytes(plan_, &workspace_bytes_) == IM2WIN_SUCCESS, "a workspace");
    input_.resize(static_cast<size_t>(desc_.n * desc_.c * desc_.h * desc_.w));
    filter_.resize(static_cast<size_t>(desc_.k * desc_.c / groups * desc_.r * desc_.s));
    for (size_t i = 0; i < input_.size(); ++i) input_[i] = static_cast<float>(i % 5) - 2;
    for (size_t i = 0; i < filter_.size(); ++i) filter_[i] = static_cast<float>(i % 7) - 3;
    outputs_ = static_cast<size_t>(shape[0] * shape[1] * shape[2] * shape[3]);
    expected_ = run();
  }
  ~Case() { im2win_plan_destroy(plan_); }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  im2win_plan* create(const char* algorithm) const {
    im2win_plan_options options;
    im2win_plan_options_init(&options, sizeof options);
    options.algorithm = algorithm;
    im2win_plan* plan = nullptr;
    expect(im2win_plan_create(&desc_, &options, &plan) == IM2WIN_SUCCESS, "a plan is made");
    return plan;
  }

  std::vector<float> run() const {
    std::vector<float> output(outputs_, -1);
    void* workspace = std::aligned_alloc(256, (workspace_bytes_ + 255) / 256 * 256);
    expect(im2win_conv2d(plan_, input_.data(), filter_.data(), nullptr, nullptr, output.data(),
                         workspace, workspace_bytes_, nullptr) == IM2WIN_SUCCESS,
           "a call succeeds");
    std::free(workspace);
    return output;
  }

  bool is_the_same() const {
    const std::vector<float> output = run();
    return std::memcmp(output.data(), expected_.data(), outputs_ * sizeof(float)) == 0;
  }

 private:
  static im2win_conv2d_desc describe(int32_t dtype, int64_t channels, int64_t groups) {
    im2win_conv2d_desc desc;
    im2win_conv2d_desc_init(&desc, sizeof desc);
    desc.dtype = dtype;
    desc.n = 2;
    desc.c = desc.k = channels;
    desc.h = 9;
    desc.w = 11;
    desc.r = desc.s = 3;
    desc.padding_top = desc.padding_bottom = desc.padding_left = desc.padding_right = 1;
    desc.groups = groups;
    return desc;
  }

  im2win_conv2d_desc desc_;
  im2win_plan* plan_;
  size_t workspace_bytes_ = 0;
  size_t outputs_ = 0;  // room for as many floats
  std::vector<float> input_, filter_, expected_;
};

/// What an error says is what its own thread did.
void fail_by(int64_t stride) {
  im2win_conv2d_desc desc;
  im2win_conv2d_desc_init(&desc, sizeof desc);
  desc.n = desc.c = desc.h = desc.w = desc.k = desc.r = desc.s = 1;
  desc.stride_h = -stride;
  int64_t p = 0;
  int64_t q = 0;
  expect(im2win_conv2d_output_size(&desc, &p, &q) == IM2WIN_INVALID_ARGUMENT, "it fails");
  const std::string wanted = "stride_h is -" + std::to_string(stride) + ":";
  expect(std::strncmp(im2win_last_error(), wanted.c_str(), wanted.size()) == 0,
         "of its own thread");
}

bool child_succeeds(const Case& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(work.is_the_same() ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Bytes in use on the heap; 0 where a sanitizer has its own.
size_t used_bytes() { return mallinfo2().uordblks; }

void make_and_destroy(const Case& work) {
  for (int i = 0; i < 100; ++i) im2win_plan_destroy(work.create(nullptr));
  const size_t before = used_bytes();
  for (int i = 0; i < kPlans; ++i) im2win_plan_destroy(work.create(nullptr));
  const size_t after = used_bytes();
  std::printf("%d plans: %zu bytes in use before, %zu after\n", kPlans, before, after);
  expect(after <= before + 1024, "plans leave nothing behind");
}

}  // namespace

int main() {
  const Case cases[] = {{IM2WIN_FLOAT32, 24, 1, "im2win"},
                        {IM2WIN_FLOAT32, 24, 24, "depthwise"},
                        {IM2WIN_FLOAT32, 6, 2, "direct"},
                        {IM2WIN_FLOAT16, 24, 1, "im2win"},
                        {IM2WIN_BFLOAT16, 24, 24, "depthwise"}};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&cases, thread] {
      for (int call = 0; call < kCalls; ++call) {
        const Case& work = cases[static_cast<size_t>(thread + call) % std::size(cases)];
        expect(work.is_the_same(), "calls side by side give the same bits");
        im2win_plan_destroy(work.create(nullptr));
        fail_by(1 + thread * kCalls + call);
      }
    });
  }
#if !defined(__SANITIZE_ADDRESS__)  // whose allocator may be locked when a child is forked
  expect(child_succeeds(cases[0]), "a child forked while others work can work");
#endif
  for (std::thread& thread : threads) thread.join();
  expect(child_succeeds(cases[0]), "a child forked after use can work");
  expect(cases[0].is_the_same(), "and its parent goes on");
  make_and_destroy(cases[0]);
  return failures == 0 ? 0 : 1;
}
