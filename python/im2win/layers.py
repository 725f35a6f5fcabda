"""Layers to measure on: the im2win paper's twelve (its Table 2), and those of two networks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """A convolution of square images by square filters, with the same padding on all sides."""

    name: str
    channels: int
    size: int  # height and width
    filters: int
    kernel: int  # height and width
    stride: int
    padding: int = 0
    count: int = 1  # how often the network has it

    @property
    def output_size(self) -> int:
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1

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


def _layer(channels: int, size: int, filters: int, kernel: int, stride: int, count: int) -> Layer:
    """Padded so that stride 1 keeps the size."""
    name = f"{channels}x{size}-{filters}k{kernel}" + f"s{stride}" * (stride > 1)
    return Layer(name, channels, size, filters, kernel, stride, (kernel - 1) // 2, count)


# He et al., "Deep Residual Learning for Image Recognition", with the strides of implementations,
# in the 3x3 convolutions: 53 convolutions.
RESNET50 = (
    _layer(3, 224, 64, 7, 2, count=1),
    _layer(64, 56, 64, 1, 1, count=1),
    _layer(64, 56, 64, 3, 1, count=3),
    _layer(64, 56, 256, 1, 1, count=4),
    _layer(256, 56, 64, 1, 1, count=2),
    _layer(256, 56, 128, 1, 1, count=1),
    _layer(128, 56, 128, 3, 2, count=1),
    _layer(128, 28, 512, 1, 1, count=4),
    _layer(256, 56, 512, 1, 2, count=1),
    _layer(512, 28, 128, 1, 1, count=3),
    _layer(128, 28, 128, 3, 1, count=3),
    _layer(512, 28, 256, 1, 1, count=1),
    _layer(256, 28, 256, 3, 2, count=1),
    _layer(256, 14, 1024, 1, 1, count=6),
    _layer(512, 28, 1024, 1, 2, count=1),
    _layer(1024, 14, 256, 1, 1, count=5),
    _layer(256, 14, 256, 3, 1, count=5),
    _layer(1024, 14, 512, 1, 1, count=1),
    _layer(512, 14, 512, 3, 2, count=1),
    _layer(512, 7, 2048, 1, 1, count=3),
    _layer(1024, 14, 2048, 1, 2, count=1),
    _layer(2048, 7, 512, 1, 1, count=2),
    _layer(512, 7, 512, 3, 1, count=2),
)

# Simonyan and Zisserman, "Very Deep Convolutional Networks", configuration D: 13 convolutions.
VGG16 = (
    _layer(3, 224, 64, 3, 1, count=1),
    _layer(64, 224, 64, 3, 1, count=1),
    _layer(64, 112, 128, 3, 1, count=1),
    _layer(128, 112, 128, 3, 1, count=1),
    _layer(128, 56, 256, 3, 1, count=1),
    _layer(256, 56, 256, 3, 1, count=2),
    _layer(256, 28, 512, 3, 1, count=1),
    _layer(512, 28, 512, 3, 1, count=2),
    _layer(512, 14, 512, 3, 1, count=3),
)

NETWORKS = {"twelve": LAYERS, "resnet50": RESNET50, "vgg16": VGG16}
