"""CUDA arrays of CuPy, Numba and others, and NumPy arrays that are sent to the GPU."""

from typing import Any

import numpy as np
import pytest

import im2win
from frameworks import PROBLEM, arrays, convolve
from numerics import DTYPES, Array, assert_convolved
from targets import NO_ALGORITHM

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_cupy(cupy: Any, dtype: str) -> None:
    x, weight = arrays(PROBLEM, dtype)
    y = convolve(PROBLEM, cupy.asarray(x), cupy.asarray(weight))
    assert type(y) is cupy.ndarray
    assert_convolved(y.get(), x, weight, PROBLEM)
    out = cupy.full_like(y, np.nan)
    assert convolve(PROBLEM, cupy.asarray(x), cupy.asarray(weight), out=out) is out
    assert out.get().tobytes() == y.get().tobytes()


def test_cupy_views(cupy: Any) -> None:
    x, weight = arrays(PROBLEM, "float32")
    flipped = cupy.asarray(np.ascontiguousarray(x[:, ::-1, :, ::-1]))[:, ::-1, :, ::-1]
    y = convolve(PROBLEM, flipped, cupy.asarray(weight))
    assert_convolved(y.get(), x, weight, PROBLEM)


def test_cupy_allocator_and_stream(cupy: Any) -> None:
    x, weight = arrays(PROBLEM, "float32")
    pool = cupy.cuda.MemoryPool()
    stream = cupy.cuda.Stream(non_blocking=True)
    with cupy.cuda.using_allocator(pool.malloc), stream:
        given = cupy.asarray(x), cupy.asarray(weight)
        before = pool.used_bytes()
        y = convolve(PROBLEM, *given)
        assert pool.used_bytes() > before
    stream.synchronize()
    assert_convolved(y.get(), x, weight, PROBLEM)
    other = convolve(PROBLEM, *given, stream=stream)
    stream.synchronize()
    assert other.get().tobytes() == y.get().tobytes()


@pytest.mark.parametrize("algorithm", im2win.algorithms("cuda") or (NO_ALGORITHM,))
def test_cupy_graph(cupy: Any, algorithm: str) -> None:
    x, weight = (cupy.asarray(array) for array in arrays(PROBLEM, "float32"))
    static, out = cupy.zeros_like(x), cupy.empty(PROBLEM.output_shape, np.float32)
    options = {"out": out, "algorithm": algorithm}
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        try:
            convolve(PROBLEM, static, weight, **options)
        except im2win.Im2winError as refusal:
            pytest.skip(str(refusal))
        stream.begin_capture()
        convolve(PROBLEM, static, weight, **options)
        graph = stream.end_capture()
        for scale in (1, -2):
            static[...] = scale * x
            out[...] = np.nan
            graph.launch(stream)
            stream.synchronize()
            assert_convolved(out.get(), static.get(), weight.get(), PROBLEM)


def test_cupy_bad_input_writes_nothing(cupy: Any) -> None:
    x, weight = (cupy.asarray(array) for array in arrays(PROBLEM, "float32"))
    out = cupy.full(PROBLEM.output_shape, np.nan, np.float32)
    with pytest.raises(ValueError, match="weight has shape"):
        im2win.conv2d(x, weight, groups=3, out=out)
    with pytest.raises(ValueError, match="weight is on cpu, expected cuda:0"):
        convolve(PROBLEM, x, weight.get(), out=out)
    assert cupy.isnan(out).all()


def test_numba() -> None:
    cuda = pytest.importorskip("numba.cuda")
    x, weight = arrays(PROBLEM, "float32")
    y = convolve(PROBLEM, cuda.to_device(x), cuda.to_device(weight))
    assert_convolved(y.numpy(), x, weight, PROBLEM)
    assert_convolved(cuda.as_cuda_array(y).copy_to_host(), x, weight, PROBLEM)


class InterfaceOnly:
    """A CUDA array of which nothing is known but `__cuda_array_interface__`."""

    def __init__(self, array: im2win.DeviceArray, **changes: Any) -> None:
        self._owner = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **changes}


def sent(dtype: str) -> tuple[Array, Array, list[im2win.DeviceArray]]:
    x, weight = arrays(PROBLEM, dtype)
    return x, weight, [im2win.DeviceArray.from_numpy(array) for array in (x, weight)]


def test_cuda_array_interface() -> None:
    x, weight, (sent_x, sent_weight) = sent("float32")
    given = InterfaceOnly(sent_x, strides=None), InterfaceOnly(sent_weight, stream=None)
    y = convolve(PROBLEM, *given)
    assert type(y) is im2win.DeviceArray
    assert_convolved(y.numpy(), x, weight, PROBLEM)
    out = im2win.DeviceArray.from_numpy(np.full(PROBLEM.output_shape, np.nan, np.float32))
    convolve(PROBLEM, *given, out=InterfaceOnly(out))
    assert out.numpy().tobytes() == y.numpy().tobytes()


def test_cuda_array_interface_read_only_and_masked() -> None:
    _, _, (x, weight) = sent("float32")
    out = im2win.DeviceArray.from_numpy(np.full(PROBLEM.output_shape, np.nan, np.float32))
    locked = InterfaceOnly(out, data=(out.address, True))
    with pytest.raises(ValueError, match="out is read-only"):
        convolve(PROBLEM, x, weight, out=locked)
    with pytest.raises(TypeError, match="input is a masked array"):
        convolve(PROBLEM, InterfaceOnly(x, mask=object()), weight)
    assert np.isnan(out.numpy()).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_on_the_gpu(dtype: str) -> None:
    x, weight = arrays(PROBLEM, dtype)
    y = convolve(PROBLEM, x, weight, device="cuda")
    assert type(y) is np.ndarray
    assert_convolved(y, x, weight, PROBLEM)
    out = np.full_like(y, np.nan)
    assert convolve(PROBLEM, x, weight, device="cuda:0", out=out) is out
    assert out.tobytes() == y.tobytes()


def test_numpy_views_on_the_gpu() -> None:
    x, weight = arrays(PROBLEM, "float32")
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    y = convolve(PROBLEM, last, weight[::1], device="cuda")
    assert y.transpose(0, 2, 3, 1).flags.c_contiguous
    assert_convolved(y, x, weight, PROBLEM)
    flipped = np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    y = convolve(PROBLEM, flipped, weight, device="cuda")
    assert_convolved(y, x, weight, PROBLEM)


def test_numpy_errors_on_the_gpu() -> None:
    x, weight = arrays(PROBLEM, "float32")
    locked = np.full(PROBLEM.output_shape, np.nan, np.float32)
    locked.flags.writeable = False
    with pytest.raises(ValueError, match=r"out|read-only"):
        convolve(PROBLEM, x, weight, device="cuda", out=locked)
    with pytest.raises(im2win.Im2winError) as missing:
        convolve(PROBLEM, x, weight, device="cuda:99")
    assert missing.value.status == "IM2WIN_NO_DEVICE"


def test_device_arrays() -> None:
    """What a DeviceArray says of itself, and an empty one."""
    x, _, (copy, _) = sent("float16")
    assert (copy.shape, copy.dtype, copy.device) == (x.shape, "float16", 0)
    assert copy.strides == x.strides
    assert copy.numpy().tobytes() == x.tobytes()
    empty = im2win.DeviceArray.from_numpy(np.empty((0, 6, 7, 9), np.float32))
    weight = im2win.DeviceArray.from_numpy(arrays(PROBLEM, "float32")[1])
    assert convolve(PROBLEM, empty, weight).numpy().shape[0] == 0


def test_large_memory_is_refused_not_fatal() -> None:
    with pytest.raises(MemoryError) as error:
        im2win.DeviceArray((2**45,), "float64")
    assert error.value.status == "IM2WIN_OUT_OF_MEMORY"  # type: ignore[attr-defined]
