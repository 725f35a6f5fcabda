"""The documentation's code, run as it stands there: what is under one heading is one program."""

import re
import subprocess
from pathlib import Path

import pytest

from programs import ROOT, build

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs(language: str) -> list[tuple[str, str]]:
    """(name, code) of each section that has some."""
    found = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        for section in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
            code = "".join(body for kind, body in FENCE.findall(section) if kind == language)
            if code:
                found.append((f"{page.stem}: {section.splitlines()[0]}", code))
    return found


def python_param(name: str, code: str) -> object:
    marks = [pytest.mark.gpu] if "import cupy" in code else []
    return pytest.param(name, code, marks=marks, id=name)


PYTHON = programs("python")
C = [program for program in programs("c") if "int main" in program[1]]


def test_there_are_programs() -> None:
    assert len(PYTHON) > 5
    assert len(C) == 1


@pytest.mark.parametrize(("name", "code"), [python_param(*program) for program in PYTHON])
def test_python(name: str, code: str) -> None:
    for module in re.findall(r"^import (\w+)$", code, re.MULTILINE):
        pytest.importorskip(module)
    exec(compile(code, name, "exec"), {})


@pytest.mark.parametrize(("name", "code"), C)
def test_c(name: str, code: str, tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text(code)
    options = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([str(build("cc", options, [source], tmp_path))], check=True)
