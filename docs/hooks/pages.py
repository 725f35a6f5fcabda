"""The parts of the pages that are made from the code: tables of results, the C API, drawings."""

import re
from collections.abc import Callable
from typing import Any

from mkdocs.structure.files import File, Files

import c_api
import drawings
import evaluation
import results

_PARTS: dict[str, Callable[[], str]] = {
    "c_api": c_api.markdown,
    "glance": results.glance,
    "gpu_layers": results.gpu_layers,
    "depthwise": results.depthwise,
    "epilogues": results.epilogues,
    "cpu_layers": results.cpu_layers,
    "host_time": results.host_time,
    "wheel": results.wheel,
    **evaluation.PARTS,
}


def on_files(files: Files, config: Any) -> Files:
    for name, svg in (drawings.all_drawings() | evaluation.all_figures()).items():
        files.append(File.generated(config, f"drawings/{name}.svg", content=svg))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Puts the part `name` in the place of the line `<!-- generated: name -->`."""
    return re.sub(
        r"^<!-- generated: (\w+) -->$",
        lambda match: _PARTS[match[1]](),
        markdown,
        flags=re.MULTILINE,
    )
