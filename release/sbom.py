"""Puts an SBOM into wheels: what they hold that is not of this project. CycloneDX, as of PEP 770.

    python sbom.py WHEEL...

What is in a wheel is read off its binaries; the version of CUDA is that of the nvcc on the PATH.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import elf

_GCC = "GPL-3.0-or-later WITH GCC-exception-3.1"
_CUDA = "LicenseRef-NVIDIA-CUDA-EULA"
_CCCL = "Apache-2.0 WITH LLVM-exception"


def main(wheels: list[str]) -> None:
    for wheel in map(Path, wheels):
        with tempfile.TemporaryDirectory() as folder:
            _wheel("unpack", "--dest", folder, str(wheel))
            (root,) = Path(folder).iterdir()
            (information,) = root.glob("*.dist-info")
            target = information / "sboms" / "im2win.cdx.json"
            target.parent.mkdir(exist_ok=True)
            text = json.dumps(document(root, information), indent=2)
            target.write_text(text + "\n", encoding="utf-8")
            _wheel("pack", "--dest-dir", str(wheel.parent), str(root))


def document(root: Path, information: Path) -> dict[str, Any]:
    """Of an unpacked wheel. The same wheel has the same SBOM."""
    name, version = information.name.removesuffix(".dist-info").split("-")
    (library,) = (root / name).glob("lib*.so")
    package = _component(name, version, "Apache-2.0", f"pkg:pypi/{name}@{version}", library)
    parts = [*_linked(library), *_grafted(root)]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, _sha256(library))}",
        "version": 1,
        "metadata": {"component": package},
        "components": parts,
        "dependencies": [
            {"ref": package["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]}
        ],
    }


def _linked(library: Path) -> list[dict[str, Any]]:
    """What is inside of the library itself."""
    parts = []
    gcc = elf.gcc_version(library)
    if not any(name.startswith("libstdc++") for name in elf.needed(library)):
        parts.append(_component("libstdc++", gcc, _GCC, f"pkg:generic/libstdc%2B%2B@{gcc}"))
    if elf.device_code(library):
        cuda = _cuda_version()
        parts.append(_component("cudart_static", cuda, _CUDA, f"pkg:generic/cudart@{cuda}"))
        parts.append(_component("CCCL", cuda, _CCCL, f"pkg:generic/cccl@{cuda}"))
    return parts


def _grafted(root: Path) -> list[dict[str, Any]]:
    """The libraries that auditwheel has put beside it: GCC's, as the wheel links no other."""
    parts = []
    for library in sorted(root.glob("*.libs/*")):
        name = re.sub(r"(-\w+)?\.so.*", "", library.name)
        version = elf.gcc_version(library)
        parts.append(_component(name, version, _GCC, f"pkg:generic/{name}@{version}", library))
    return parts


def _component(
    name: str, version: str, license: str, purl: str, file: Path | None = None
) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": [{"expression": license}],
        "purl": purl,
    }
    if file is not None:
        component["hashes"] = [{"alg": "SHA-256", "content": _sha256(file)}]
    return component


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _cuda_version() -> str:
    output = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"release ([\d.]+)", output.stdout)
    assert found is not None, output.stdout
    return found[1]


def _wheel(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "wheel", *arguments], check=True, capture_output=True)


if __name__ == "__main__":
    main(sys.argv[1:])
