"""Programs in other languages, compiled against the library under test."""

import shutil
import subprocess
from pathlib import Path

import pytest

from im2win._library import PATH

ROOT = Path(__file__).parents[1]


def build(compiler: str, options: list[str], sources: list[Path], folder: Path) -> Path:
    """The program, in `folder`. Skips the test where there is no such compiler."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    if PATH.suffix != ".so":
        pytest.skip("needs ELF")
    library, program = PATH.resolve(), folder / "program"
    include = ROOT / "libim2win/include"
    subprocess.run(
        [
            *(compiler, *options, f"-I{include}", *map(str, sources)),
            *("-o", str(program), str(library), f"-Wl,-rpath,{library.parent}"),
        ],
        cwd=folder,
        check=True,
    )
    return program
