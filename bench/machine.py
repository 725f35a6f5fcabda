"""What a benchmark ran on, for its results file."""

import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import im2win

_PACKAGES = ("numpy", "torch", "cupy-cuda13x", "cupy-cuda12x", "nvidia-cudnn-cu13", "onnxruntime")


def describe() -> dict[str, object]:
    """Commit, time, processor, GPUs, driver and versions. Needs neither git nor a GPU.

    Where the tree is no git checkout, the environment variable IM2WIN_COMMIT may name its commit.
    """
    commit = _output_of("git", "describe", "--always", "--dirty", "--abbrev=12")
    return {
        "commit": commit or os.environ.get("IM2WIN_COMMIT"),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "im2win": im2win.__version__,
        "devices": im2win.info().devices,
        "gpus": _output_of(
            "nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"
        ),
        "python": platform.python_version(),
        "packages": _installed(),
    }


def _output_of(*command: str) -> str | None:
    """What the command prints; None where it is missing or fails."""
    here = Path(__file__).parent
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=here)
    except (OSError, subprocess.CalledProcessError):
        return None
    return result.stdout.strip()


def _installed() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
