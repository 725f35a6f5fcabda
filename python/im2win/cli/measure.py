"""One layer by one algorithm: first checked, then timed."""

import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

from im2win import reference
from im2win._library import Im2winError
from im2win._tensors.device_array import DeviceArray
from im2win._tensors.spec import CPU, parse_device
from im2win.cli.timing import samples, seconds_per_call
from im2win.layers import Layer
from im2win.plan import Conv2dPlan

_SECONDS_PER_MEASUREMENT = 0.5

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Measurement:
    """Times are of whole calls, workspace allocation included."""

    layer: str
    algorithm: str
    median_seconds: float
    samples: int
    gflops: float  # 10^9 FLOP a second, 2 for each multiplication with its addition
    workspace_bytes: int
    error: float  # the largest |y - reference| / (sum |x||w| + |reference|)
    error_bound: float


@dataclass(frozen=True)
class Refusal:
    layer: str
    algorithm: str
    reason: str


class Case:
    """A layer with its data on a device, and what is right for the images that are checked."""

    def __init__(self, layer: Layer, batch: int, device: str) -> None:
        rng = np.random.default_rng(0)
        self.layer, self.batch, self.device = layer, batch, device
        input = rng.standard_normal(layer.input_shape(batch), np.float32)
        weight = rng.standard_normal(layer.weight_shape, np.float32)
        self._images = checked_images(batch)
        checked = input[self._images]
        window: dict[str, Any] = {"stride": layer.stride, "padding": layer.padding}
        self._expected = reference.conv2d(checked, weight, **window)
        self._scale = reference.magnitude(checked, weight, **window)
        self._tensors = (self._on_device(input), self._on_device(weight))

    def measure(self, algorithm: str, repeats: int) -> Measurement | Refusal:
        """Errors: those of the library, but for a refusal."""
        layer = self.layer
        try:
            plan = Conv2dPlan(
                layer.input_shape(self.batch),
                layer.weight_shape,
                stride=layer.stride,
                padding=layer.padding,
                device=self.device,
                algorithm=algorithm,
            )
        except Im2winError as refusal:
            return Refusal(layer.name, algorithm, str(refusal))
        out = self._on_device(np.full(plan.output_shape, np.nan, np.float32))

        def call() -> object:
            return plan(*self._tensors, out=out)

        device = parse_device(self.device)
        first_seconds = seconds_per_call(call, device)
        error = self._error(out)
        found = samples(call, device, first_seconds, repeats, _SECONDS_PER_MEASUREMENT)
        seconds = statistics.median(found)
        return Measurement(
            layer.name,
            algorithm,
            seconds,
            len(found),
            layer.flops(self.batch) / seconds / 1e9,
            plan.workspace_bytes,
            error,
            reference.bound("float32", layer.channels * layer.kernel**2),
        )

    def _on_device(self, array: Array) -> Any:
        if parse_device(self.device) == CPU:
            return array
        return DeviceArray.from_numpy(array, self.device)

    def _error(self, out: Any) -> float:
        host = out.numpy() if isinstance(out, DeviceArray) else out
        errors = reference.relative_error(host[self._images], self._expected, self._scale)
        return float(errors.max())


def checked_images(batch: int) -> list[int]:
    """The images whose outputs are checked: all of a few, else the first and the last."""
    return list(range(batch)) if batch <= 2 else [0, batch - 1]
