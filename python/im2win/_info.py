"""What this installation and this machine have."""

from dataclasses import dataclass

from im2win._library import PATH, Im2winError, ffi, last_error, lib, version
from im2win._native import algorithm_names, describe_device
from im2win._tensors.spec import CPU, device_name, parse_device


@dataclass(frozen=True)
class Info:
    """What `info()` found.

    Attributes:
        version: of the library.
        library: path of the shared library.
        devices: name, such as "cpu" or "cuda:0", -> one line of what it is; the CPU first.
        algorithms: "cpu" and "cuda" -> names, best first, whether or not there is a device.
        no_cuda: why there is no CUDA device; None if there is one.
    """

    version: str
    library: str
    devices: dict[str, str]
    algorithms: dict[str, tuple[str, ...]]
    no_cuda: str | None


def algorithms(device: str = "cpu") -> tuple[str, ...]:
    """The names of the algorithms of "cpu" or "cuda", best first, the one for everything last."""
    return algorithm_names(parse_device(device))


def info() -> Info:
    """The library, the devices of this machine and the algorithms."""
    count = ffi.new("int32_t *")
    status = lib.im2win_cuda_device_count(count)
    return Info(
        version=version(),
        library=str(PATH),
        devices={device_name(device): _describe(device) for device in (CPU, *range(count[0]))},
        algorithms={kind: algorithms(kind) for kind in ("cpu", "cuda")},
        no_cuda=None if status == lib.IM2WIN_SUCCESS else last_error(),
    )


def _describe(device: int) -> str:
    try:
        return describe_device(device)
    except Im2winError as error:
        return str(error)
