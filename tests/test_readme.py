"""README's Python examples, run as they stand there."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
EXAMPLES = dict(re.findall(r"^## (\w+)\n\n```python\n(.*?)^```", README.read_text(), re.M | re.S))


@pytest.mark.parametrize(
    ("section", "module"),
    [("NumPy", "numpy"), ("PyTorch", "torch"), pytest.param("CuPy", "cupy", marks=pytest.mark.gpu)],
)
def test_example(section: str, module: str) -> None:
    pytest.importorskip(module)
    exec(compile(EXAMPLES[section], f"README: {section}", "exec"), {})
