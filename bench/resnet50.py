"""The convolutions of ResNet-50 (v1.5), each once."""

from dataclasses import dataclass

from im2win.layers import Layer


@dataclass(frozen=True)
class PaddedLayer(Layer):
    """A layer whose output is as large as its input, divided by the stride."""

    @property
    def padding(self) -> int:
        return self.kernel // 2

    @property
    def output_size(self) -> int:
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1


def _layer(channels: int, size: int, filters: int, kernel: int = 1, stride: int = 1) -> PaddedLayer:
    name = f"{channels}x{size}² to {filters}, {kernel}x{kernel}{'/2' if stride == 2 else ''}"
    return PaddedLayer(name, channels, size, filters, kernel, stride)


def _stage(channels: int, size: int, width: int) -> tuple[PaddedLayer, ...]:
    """Of bottlenecks, the first of which halves what `channels` channels give it."""
    return (
        _layer(channels, size, width),
        _layer(width, size, width, 3, 2),
        _layer(channels, size, 4 * width, 1, 2),
        _layer(4 * width, size // 2, width),
        _layer(width, size // 2, width, 3),
        _layer(width, size // 2, 4 * width),
    )


LAYERS = (
    _layer(3, 224, 64, 7, 2),
    _layer(64, 56, 64),
    _layer(64, 56, 64, 3),
    _layer(64, 56, 256),
    _layer(256, 56, 64),
    *_stage(256, 56, 128),
    *_stage(512, 28, 256),
    *_stage(1024, 14, 512),
)
