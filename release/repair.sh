#!/usr/bin/env bash
# Usage: release/repair.sh WHEEL FOLDER
#
# Makes of a wheel just built one that runs elsewhere: takes in the libraries that manylinux_2_28 does not
# allow it to link, writes down what it holds, and checks it. Needs auditwheel, patchelf and wheel.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
auditwheel repair --plat manylinux_2_28_x86_64 --only-plat -w "$2" "$1"
repaired=$(ls -t "$2"/*-manylinux_2_28_x86_64.whl | head -n 1)
python3 "$here/sbom.py" "$repaired"
auditwheel show "$repaired"
python3 "$here/check_wheel.py" "$repaired" "$2/wheel.json"
