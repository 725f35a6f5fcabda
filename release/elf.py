"""What a shared library holds: its compilers, what it links, and the GPU code inside of it."""

import re
import struct
from collections import Counter
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

# Fat binaries, as nvcc embeds them in .nv_fatbin: a header (magic, version, its own size, size),
# then entries, each of a header (kind, flags, its own size, size; at byte 28 the architecture) and
# code.
_FATBIN_MAGIC = 0xBA55ED50
_FATBIN = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ")
_ARCHITECTURE_OFFSET = 28
_KINDS = {1: "PTX", 2: "cubin"}


def needed(library: Path) -> list[str]:
    """The libraries that it links."""
    with library.open("rb") as file:
        dynamic = ELFFile(file).get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        return [vars(tag)["needed"] for tag in dynamic.iter_tags("DT_NEEDED")]


def gcc_version(library: Path) -> str:
    """Of the compiler that made its first object."""
    found = re.search(rb"GCC: \(.*?\) ([\d.]+)", _section(library, ".comment"))
    if found is None:
        raise ValueError(f"{library} was not compiled by GCC")
    return found[1].decode()


def device_code(library: Path) -> Counter[tuple[str, int]]:
    """Bytes, as they are stored, of each kind of code ("cubin" or "PTX") and architecture."""
    data = _section(library, ".nv_fatbin")
    sizes: Counter[tuple[str, int]] = Counter()
    position = 0
    while position < len(data):
        magic, _, header, size = _FATBIN.unpack_from(data, position)
        if magic != _FATBIN_MAGIC:  # padding
            position += 8
            continue
        entry, position = position + header, position + header + size
        while entry < position:
            kind, _, header, size = _ENTRY.unpack_from(data, entry)
            (architecture,) = struct.unpack_from("<I", data, entry + _ARCHITECTURE_OFFSET)
            sizes[_KINDS[kind], architecture] += header + size
            entry += header + size
    return sizes


def _section(library: Path, name: str) -> bytes:
    """Empty if there is none."""
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(name)
        return b"" if section is None else bytes(section.data())
