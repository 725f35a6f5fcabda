"""What release/ reads off a library, and writes of a wheel."""

import hashlib
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("elftools")

import check_wheel
import elf
import im2win
import sbom
from im2win._library import PATH

HAS_CUDA = bool(im2win.algorithms("cuda"))

pytestmark = [
    pytest.mark.skipif(PATH.suffix != ".so", reason="needs ELF"),
    pytest.mark.skipif(HAS_CUDA and shutil.which("nvcc") is None, reason="needs nvcc"),
]


def test_device_code_is_all_of_the_fat_binaries() -> None:
    code = elf.device_code(PATH)
    assert bool(code) == HAS_CUDA
    assert all(kind in ("cubin", "PTX") and 75 <= number < 200 for kind, number in code)
    whole = len(elf._section(PATH, ".nv_fatbin"))
    assert 0.99 * whole <= sum(code.values()) <= whole


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """A wheel's content, with one library grafted."""
    root = tmp_path / "im2win-1.2.3"
    (root / "im2win").mkdir(parents=True)
    (root / "im2win.libs").mkdir()
    shutil.copy(PATH, root / "im2win" / "libim2win.so")
    shutil.copy(PATH, root / "im2win.libs" / "libgomp-0123abcd.so.1.0.0")
    return root


def test_sbom_lists_what_is_there(unpacked: Path) -> None:
    information = unpacked / "im2win-1.2.3.dist-info"
    document = sbom.document(unpacked, information)
    assert document == sbom.document(unpacked, information)
    package = document["metadata"]["component"]
    digest = hashlib.sha256(PATH.read_bytes()).hexdigest()
    assert (package["name"], package["version"]) == ("im2win", "1.2.3")
    assert package["hashes"] == [{"alg": "SHA-256", "content": digest}]
    parts: dict[str, Any] = {part["name"]: part for part in document["components"]}
    is_static = not any(name.startswith("libstdc++") for name in elf.needed(PATH))
    expected = {"libgomp", *["libstdc++"] * is_static, *["cudart_static", "CCCL"] * HAS_CUDA}
    assert set(parts) == expected
    assert parts["libgomp"]["hashes"] == package["hashes"]
    assert document["dependencies"][0]["dependsOn"] == [p["purl"] for p in parts.values()]


def test_a_wheel_that_lacks_something_is_refused(unpacked: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "im2win-1.2.3-py3-none-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in unpacked.rglob("*.so*"):
            archive.write(file, file.relative_to(unpacked))
        archive.writestr("im2win/_ffi.py", "")
    with pytest.raises(AssertionError, match="licenses/LICENSE"):
        check_wheel.measure(wheel)
