"""Programs beside the tests' own: other interpreters, and what compilers make."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from im2win._library import PATH

ROOT = Path(__file__).parents[1]


def build(compiler: str, options: list[str], sources: list[Path], folder: Path) -> Path:
    """The program, linked with the library, in `folder`; skips the test without a compiler."""
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


def run_python(script: str, **environment: str) -> str:
    """The output of a new interpreter that loads this library."""
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
