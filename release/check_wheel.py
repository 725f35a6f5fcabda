"""Holds a wheel to what is promised of it, and says what each GPU architecture costs.

python check_wheel.py WHEEL [RESULTS.json]
"""

import json
import re
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import elf

_LARGEST_BYTES = 20_000_000
_ARCHITECTURES = (75, 80, 90, 100, 120)
_CODE = {*(("cubin", each) for each in _ARCHITECTURES), ("PTX", _ARCHITECTURES[-1])}
_FILES = (
    r"im2win/libim2win\.so",
    r"im2win/_ffi\.py",
    r"im2win\.libs/libgomp-\w+\.so[.\d]*",
    r"im2win-[\d.]+\.dist-info/licenses/LICENSE",
    r"im2win-[\d.]+\.dist-info/licenses/.*/NVIDIA-CUDA-EULA\.txt",
    r"im2win-[\d.]+\.dist-info/licenses/.*/GCC-RUNTIME-LIBRARY-EXCEPTION\.txt",
    r"im2win-[\d.]+\.dist-info/sboms/im2win\.cdx\.json",
)


def main(wheel: Path, results: Path | None) -> None:
    assert re.fullmatch(r"im2win-[\d.]+-py3-none-manylinux_2_28_x86_64\.whl", wheel.name), wheel
    report = measure(wheel)
    print(json.dumps(report, indent=2))
    if results is not None:
        results.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    assert report["wheel_bytes"] <= _LARGEST_BYTES, "the wheel is too large"


def measure(wheel: Path) -> dict[str, Any]:
    """Sizes. Errors: AssertionError for what has to be there and is not."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        names = archive.namelist()
        for pattern in _FILES:
            assert any(re.fullmatch(pattern, name) for name in names), f"no {pattern}"
        library = Path(folder) / "im2win" / "libim2win.so"
        linked = elf.needed(library)
        code = elf.device_code(library)
        size = library.stat().st_size
    assert any(name.startswith("libgomp-") for name in linked), f"no OpenMP: {linked}"
    assert set(code) == _CODE, f"device code is for {sorted(code)}"
    code_order = sorted(code, key=lambda each: (each[0] == "PTX", each[1]))
    return {
        "wheel": wheel.name,
        "wheel_bytes": wheel.stat().st_size,
        "library_bytes": size,
        "device_code_bytes": {f"{kind} {each}": code[kind, each] for kind, each in code_order},
        "linked": linked,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
