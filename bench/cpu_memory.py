"""What a call takes of a Linux machine's memory, measured: the process's peak over what it had."""

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

_STATUS = Path("/proc/self/status")
_RESET_PEAK = Path("/proc/self/clear_refs")


def peak_bytes(call: Callable[[], Any]) -> int | None:
    """Above what was resident before the call; None where the system does not tell."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # GNU's
    if trim is None:
        return None
    trim(0)  # or the call would find memory that is resident already
    try:
        _RESET_PEAK.write_text("5")
        before = _resident("VmRSS")
        result = call()
        peak = _resident("VmHWM")
    except OSError:
        return None
    del result
    return max(0, peak - before)


def _resident(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    return 0 if found is None else int(found[1]) * 1024
