#!/usr/bin/env bash
# Every CUDA kernel under compute-sanitizer (see sanitize.py), a few processes at a time: most of the
# work is the host's. A log each, and a line for each that found something or failed.
#
#   tests/sanitize.sh LOGS [TOOL...]    memcheck, racecheck, initcheck and synccheck; or some
set -euo pipefail
mkdir -p "${1:?usage: tests/sanitize.sh LOGS [TOOL...]}"
logs=$(realpath "$1")
shift
(($#)) || set -- memcheck racecheck initcheck synccheck
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1 logs

sanitize() {  # tool, algorithm, kind of numbers
  local log=$logs/$1_$2_$3.log
  local options=(--tool "$1" --error-exitcode 1 --print-limit 20)
  [[ $1 != memcheck ]] || options+=(--padding 512)  # so that no two tensors are neighbours
  if ! timeout 600 compute-sanitizer "${options[@]}" python3 tests/sanitize.py "$2" "$3" >"$log" 2>&1
  then
    echo "$1 $2 $3: $(grep -E 'SUMMARY|Error:' "$log" | tail -1)"
    return 1
  fi
}
export -f sanitize

python3 tests/sanitize.py --list |
  while read -r algorithm kind; do
    for tool in "$@"; do echo "$tool $algorithm $kind"; done
  done |
  xargs -P "${JOBS:-8}" -L 1 bash -c 'sanitize "$@"' sanitize
echo "no findings of $* in $logs"
