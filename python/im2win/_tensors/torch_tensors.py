"""PyTorch tensors; torch itself is never imported, as whoever has a tensor has done that."""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from im2win._tensors.spec import CPU, DTYPE_CODES, Axes, Shape, TensorSpec, View, dtype_error, new


class TorchFramework:
    """torch.Tensor, on the CPU and CUDA devices, from its caching allocators."""

    def __init__(self) -> None:
        self._torch: Any = sys.modules["torch"]
        cuda = self._torch.cuda
        self._dtype_names = {getattr(self._torch, name): name for name in DTYPE_CODES}
        self._devices = {self._torch.device("cpu"): CPU}
        for ordinal in range(cuda.device_count()):
            self._devices[self._torch.device("cuda", ordinal)] = ordinal
        self._current_stream = getattr(
            self._torch._C,
            "_cuda_getCurrentRawStream",  # private, and ten times as fast as the public way
            lambda device: cuda.current_stream(device).cuda_stream,
        )

    def view(self, tensor: Any, name: str, stream: int | None) -> View:
        try:
            dtype = self._dtype_names[tensor.dtype]
            device = self._devices[tensor.device]
            spec = new(TensorSpec, (tensor.shape, tensor.stride(), dtype, device, False))
            address = tensor.data_ptr()
        except (KeyError, RuntimeError):
            raise self._refusal(tensor, name) from None
        if tensor.is_neg():
            raise TypeError(f"{name} has its negative bit set: pass {name}.resolve_neg()")
        if tensor.requires_grad and self._torch.is_grad_enabled():
            raise ValueError(
                f"{name} requires grad, and no gradients are computed here: call under "
                f"torch.no_grad(), or pass {name}.detach()"
            )
        return View(address, spec, self, tensor)

    def _refusal(self, tensor: Any, name: str) -> TypeError:
        if tensor.layout != self._torch.strided:
            return TypeError(f"{name} has layout {tensor.layout}, expected torch.strided")
        if tensor.dtype not in self._dtype_names:
            return dtype_error(name, tensor.dtype)
        if tensor.device not in self._devices:
            return TypeError(f"{name} is on device {tensor.device}, expected cpu or cuda")
        return TypeError(f"{name} is a {type(tensor).__name__} without memory")

    def address(self, tensor: Any) -> int:
        return int(tensor.data_ptr())

    def empty(self, like: View, shape: Shape, stream: int, axes: Axes = None) -> Any:
        tensor = like.tensor.new_empty(shape)
        return tensor if axes is None else tensor.permute(axes)

    def empty_bytes(self, like: View, size: int, stream: int) -> Any:
        return like.tensor.new_empty(size, dtype=self._torch.uint8)

    def current_stream(self, device: int) -> int:
        return 0 if device == CPU else int(self._current_stream(device))

    def using_stream(self, stream: int, device: int) -> AbstractContextManager[Any]:
        if device == CPU:
            return nullcontext()
        cuda = self._torch.cuda
        # ExternalStream takes 0 for "a new one".
        default = cuda.default_stream(device) if stream == 0 else None
        context: AbstractContextManager[Any] = cuda.stream(
            default or cuda.ExternalStream(stream, device=device)
        )
        return context
