#!/usr/bin/env bash
# Everything that needs a GPU, in one command: builds and installs the package for this machine's GPU,
# runs all tests, every CUDA kernel under compute-sanitizer, ten thousand random problems of each dtype,
# and the benchmarks.
#
#   tests/run_gpu.sh RESULTS_FOLDER [tests | sanitizers | soak | benchmarks]    all parts, or one
#
# Needs nvcc, compute-sanitizer and, for the benchmark and the frameworks' tests, PyTorch with CUDA
# (CuPy, Numba and JAX are tested where they are installed).
set -euo pipefail
usage="usage: tests/run_gpu.sh RESULTS_FOLDER [tests | sanitizers | soak | benchmarks]"
mkdir -p "${1:?$usage}"
results=$(realpath "$1")
part=${2:-all}
[[ $part =~ ^(all|tests|sanitizers|soak|benchmarks)$ ]] || { echo "$usage" >&2; exit 2; }
cd "$(dirname "$0")/.."

python3 -m pip install -q ".[test]"
python3 -m im2win info

if [[ $part =~ ^(all|tests)$ ]]; then
  python3 -m pytest -q
fi

if [[ $part =~ ^(all|sanitizers)$ ]]; then
  tests/sanitize.sh "$results/sanitize"
fi

if [[ $part =~ ^(all|soak)$ ]]; then
  PYTHONPATH=bench python3 tests/soak.py --device cuda --jobs "$(nproc)" --json "$results/soak.json"
fi

if [[ $part =~ ^(all|benchmarks)$ ]]; then
  for dtype in fp32 tf32 fp16 bf16; do
    for layout in NCHW NHWC; do
      python3 bench/layers_gpu.py --dtype "$dtype" --layout "$layout" --errors \
        --algorithms im2win_fused,im2win_stem \
        --json "$results/twelve_${dtype}_${layout}_batch128.json"
    done
  done
  for layers in resnet50 vgg16; do
    python3 bench/layers_gpu.py --layers "$layers" --algorithms im2win_fused,im2win,im2win_stem \
      --json "$results/${layers}_fp32_NCHW_batch128.json"
  done
  python3 bench/paper.py "$results/paper"
  python3 bench/host_time.py --json "$results/host_time.json"
  python3 bench/depthwise_gpu.py --json "$results/depthwise_batch128.json"
  python3 bench/epilogues_gpu.py --json "$results/epilogues_batch128.json"
fi
