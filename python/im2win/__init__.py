"""libim2win: convolution by windows, on CPU and CUDA, for any tensor."""

from im2win._info import Info, algorithms, info
from im2win._library import Im2winError, OutOfMemoryError, version
from im2win._packed import PackedConv
from im2win._tensors.device_array import DeviceArray
from im2win._transform import transform
from im2win.conv import conv1d, conv2d, conv3d
from im2win.plan import Conv1dPlan, Conv2dPlan, Conv3dPlan

__all__ = [
    "Conv1dPlan",
    "Conv2dPlan",
    "Conv3dPlan",
    "DeviceArray",
    "Im2winError",
    "Info",
    "OutOfMemoryError",
    "PackedConv",
    "__version__",
    "algorithms",
    "conv1d",
    "conv2d",
    "conv3d",
    "info",
    "transform",
]

__version__ = version()
