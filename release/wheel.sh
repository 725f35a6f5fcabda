#!/usr/bin/env bash
# Usage: release/wheel.sh [FOLDER]
#
# The source distribution and the wheel that are published, into FOLDER, by default dist: what cibuildwheel
# does in manylinux_2_28's container, here. Needs nvcc 13 and Python; on a glibc newer than 2.28, a Debian
# or Ubuntu with GCC, of which release/manylinux.sh makes what the container has.
set -euo pipefail
mkdir -p "${1:-dist}"
target=$(cd "${1:-dist}" && pwd)
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 TMPDIR=$work CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1

python3 -m venv "$work/venv"
export PATH=$work/venv/bin:$PATH
pip install -q -r release/requirements.txt

if [[ $(ldd --version | head -n 1) != *" 2.28" ]]; then
  release/manylinux.sh "$work/manylinux"
  glibc=$work/manylinux/glibc openmp=$work/manylinux/openmp
  export LDFLAGS="-static-libstdc++ -L$glibc -Wl,-rpath-link,$glibc -L$openmp"
  export CMAKE_LIBRARY_PATH=$openmp
fi

# The wheel is built from the source distribution.
IM2WIN_RELEASE=1 CMAKE_GENERATOR=Ninja python3 -m build --outdir "$work/dist" .
cp "$work"/dist/*.tar.gz "$target"
LD_LIBRARY_PATH=${openmp:-} release/repair.sh "$work"/dist/*.whl "$target"

python3 -m venv "$work/user"
"$work/user/bin/pip" install -q "$target"/*-manylinux_2_28_x86_64.whl
(cd "$work" && user/bin/im2win info && user/bin/im2win check --device cpu)
