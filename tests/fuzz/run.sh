#!/usr/bin/env bash
# Fuzzes the C ABI on the CPU: tests/fuzz/run.sh [SECONDS] [BUILD_FOLDER]. Needs Clang. Starts from
# the inputs in corpus/, which are tried first. A finding is left in the build folder as crash-*: once
# fixed, it belongs in corpus/. OpenMP is left out, as its runtime is not instrumented.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
seconds=${1:-600}
build=${2:-$here/../../build/fuzz}

cmake -S "$here/../.." -B "$build" -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang \
  -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O1 -DCMAKE_DISABLE_FIND_PACKAGE_OpenMP=ON -DIM2WIN_CUDA=OFF \
  -DIM2WIN_SANITIZE=address,undefined,fuzzer-no-link >/dev/null
cmake --build "$build" --target conv2d_fuzz -j "$(nproc)"
mkdir -p "$build/corpus"
cd "$build"
exec ./tests/fuzz/conv2d_fuzz -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 \
  -max_len=256 -print_final_stats=1 corpus "$here/corpus"
