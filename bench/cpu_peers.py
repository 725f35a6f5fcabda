"""What the CPU backend is compared with."""

import ctypes
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Call = Callable[[], Array]
Peer = Callable[[Array, Array, int, int], Call]  # input and weight in NCHW, stride, padding


def reuse_freed_memory() -> None:
    """Has the C library keep what is freed, so that PyTorch's outputs, which it allocates in every
    call, are memory that is mapped already, as an output that is given would be."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # GNU's
    if mallopt is not None:
        m_trim_threshold, m_mmap_max = -1, -4
        mallopt(m_mmap_max, 0)
        mallopt(m_trim_threshold, 2**31 - 1)


def pytorch(input: Any, weight: Any, stride: int, padding: int) -> Callable[[], Any]:
    """Of its tensors, of any dtype: by oneDNN, with which its CPU builds convolve."""
    import torch

    def call() -> Any:
        with torch.no_grad():
            return torch.nn.functional.conv2d(input, weight, stride=stride, padding=padding)

    return call


def onednn(input: Array, weight: Array, stride: int, padding: int) -> Call:
    import torch

    call = pytorch(torch.from_numpy(input), torch.from_numpy(weight), stride, padding)
    return lambda: call().numpy()


def onnxruntime(input: Array, weight: Array, stride: int, padding: int) -> Call:
    """A model of one Conv, its weight packed beforehand, with input and output bound."""
    from onnx import TensorProto, helper, numpy_helper

    ort = import_module("onnxruntime")

    size = (input.shape[2] + 2 * padding - weight.shape[2]) // stride + 1
    shape = (input.shape[0], weight.shape[0], size, size)
    conv = helper.make_node("Conv", ["x", "w"], ["y"], strides=[stride] * 2, pads=[padding] * 4)
    graph = helper.make_graph(
        [conv],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, input.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    output = np.empty(shape, np.float32)
    binding = session.io_binding()
    for bind, name, array in (
        (binding.bind_input, "x", input),
        (binding.bind_output, "y", output),
    ):
        bind(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)

    def call() -> Array:
        session.run_with_iobinding(binding)
        return output

    return call


PEERS: dict[str, Peer] = {"oneDNN": onednn, "ONNX Runtime": onnxruntime}
_MODULES = {"oneDNN": ("torch",), "ONNX Runtime": ("onnxruntime", "onnx")}


def missing(peer: str) -> str | None:
    """Why a peer is not here; None if it is."""
    absent = [module for module in _MODULES[peer] if find_spec(module) is None]
    return f"no module {absent[0]}" if absent else None
