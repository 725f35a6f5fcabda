"""SigPy's `convolve`, of NumPy and CuPy arrays alike: what cupy.cudnn did for it until CuPy 14.

    python convolve.py [cupy]

Shapes, modes and strides are those of https://sigpy.readthedocs.io: data [..., m_1, ..., m_D] and
filter [n_1, ..., n_D], or [..., c_i, m_1, ..., m_D] and [c_o, c_i, n_1, ..., n_D] with
multi_channel; D is 1, 2 or 3.
"""

import sys
from functools import partial
from importlib import import_module
from typing import Any

import im2win


def convolve(
    data: Any, filt: Any, mode: str = "full", strides: Any = None, multi_channel: bool = False
) -> Any:
    """The convolution of signal processing, which turns the filter round."""
    filt = filt.astype(data.dtype, copy=False)
    if data.dtype.kind == "c":
        of = partial(convolve, mode=mode, strides=strides, multi_channel=multi_channel)
        real = of(data.real, filt.real) - of(data.imag, filt.imag)
        return real + 1j * (of(data.real, filt.imag) + of(data.imag, filt.real))
    if not multi_channel:
        filt = filt[None, None]
    dims = filt.ndim - 2
    turned = filt[(slice(None), slice(None)) + (slice(None, None, -1),) * dims]  # a view
    padding = [(n - 1, n - 1) for n in filt.shape[2:]] if mode == "full" else "valid"
    images = data.reshape(-1, filt.shape[1], *data.shape[-dims:])
    conv = (im2win.conv1d, im2win.conv2d, im2win.conv3d)[dims - 1]
    output = conv(images, turned, stride=strides or 1, padding=padding)
    return output.reshape(*data.shape[: -dims - multi_channel], *output.shape[2 - multi_channel :])


def main() -> None:
    """What sigpy#151 reports to fail."""
    xp = import_module(sys.argv[1] if len(sys.argv) > 1 else "numpy")
    y = convolve(xp.ones((4, 8, 8), dtype=xp.float32), xp.ones((3, 3), dtype=xp.float32))
    print(type(y), y.shape)
    print(y[0])


if __name__ == "__main__":
    main()
