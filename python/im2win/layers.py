"""The twelve layers on which the im2win paper measures (its Table 2)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """A square convolution without padding: the sizes of one image, filter and output."""

    name: str
    channels: int
    size: int  # height and width
    filters: int
    kernel: int  # height and width
    stride: int

    @property
    def output_size(self) -> int:
        return (self.size - self.kernel) // self.stride + 1

    def input_shape(self, batch: int) -> tuple[int, int, int, int]:
        return batch, self.channels, self.size, self.size

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        return self.filters, self.channels, self.kernel, self.kernel

    def flops(self, batch: int) -> int:
        """Two for each multiplication and its addition."""
        terms = self.channels * self.kernel**2
        return 2 * batch * self.filters * self.output_size**2 * terms


LAYERS = (
    Layer("conv1", channels=3, size=227, filters=96, kernel=11, stride=4),
    Layer("conv2", channels=3, size=231, filters=96, kernel=11, stride=4),
    Layer("conv3", channels=3, size=227, filters=64, kernel=7, stride=2),
    Layer("conv4", channels=64, size=224, filters=64, kernel=7, stride=2),
    Layer("conv5", channels=96, size=24, filters=256, kernel=5, stride=1),
    Layer("conv6", channels=256, size=12, filters=512, kernel=3, stride=1),
    Layer("conv7", channels=3, size=224, filters=64, kernel=3, stride=1),
    Layer("conv8", channels=64, size=112, filters=128, kernel=3, stride=1),
    Layer("conv9", channels=64, size=56, filters=64, kernel=3, stride=1),
    Layer("conv10", channels=128, size=28, filters=128, kernel=3, stride=1),
    Layer("conv11", channels=256, size=14, filters=256, kernel=3, stride=1),
    Layer("conv12", channels=512, size=7, filters=512, kernel=3, stride=1),
)
