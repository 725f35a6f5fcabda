#!/usr/bin/env bash
# Everything that needs a GPU, in one command: builds and installs the package for this machine's GPU,
# runs all tests, checks every CUDA kernel with compute-sanitizer on small problems, and runs the
# benchmarks.
#
#   tests/run_gpu.sh RESULTS_FOLDER [tests | benchmarks]    both parts, or one
#
# Needs nvcc, compute-sanitizer and, for the benchmark and the frameworks' tests, PyTorch with CUDA
# (CuPy, Numba and JAX are tested where they are installed).
set -euo pipefail
usage="usage: tests/run_gpu.sh RESULTS_FOLDER [tests | benchmarks]"
mkdir -p "${1:?$usage}"
results=$(realpath "$1")
part=${2:-all}
[[ $part =~ ^(all|tests|benchmarks)$ ]] || { echo "$usage" >&2; exit 2; }
cd "$(dirname "$0")/.."

python3 -m pip install -q ".[test]"
python3 -m im2win info

if [[ $part != benchmarks ]]; then
  python3 -m pytest -q
  for tool in memcheck racecheck; do
    compute-sanitizer --tool "$tool" --error-exitcode 1 python3 -m im2win check --device cuda
  done
fi

if [[ $part != tests ]]; then
  for dtype in fp32 tf32 fp16 bf16; do
    for layout in NCHW NHWC; do
      python3 bench/layers_gpu.py --dtype "$dtype" --layout "$layout" --algorithms im2win_fused --errors \
        --json "$results/twelve_${dtype}_${layout}_batch128.json"
    done
  done
  for layers in resnet50 vgg16; do
    python3 bench/layers_gpu.py --layers "$layers" --algorithms im2win_fused,im2win \
      --json "$results/${layers}_fp32_NCHW_batch128.json"
  done
  python3 bench/paper.py "$results/paper"
  python3 bench/host_time.py --json "$results/host_time.json"
  python3 bench/depthwise_gpu.py --json "$results/depthwise_batch128.json"
fi
