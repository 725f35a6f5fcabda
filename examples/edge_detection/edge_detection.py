"""Edges of an image: an image in, an image out, on the CPU or, through CuPy, on a GPU.

    python edge_detection.py IN.png OUT.png [--cuda]

Channels are blurred, each by itself; then their changes of brightness from left to right and from
top to bottom make the strength of an edge, and bias and ReLU leave the weak ones out. Needs Pillow.
"""

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import im2win

BLUR = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]) / 256
SOBEL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8
DIRECTIONS = np.stack([SOBEL, -SOBEL, SOBEL.T, -SOBEL.T])  # as ReLU takes one sign only
THRESHOLD = 2.0  # of 255
GAIN = 4.0


def edges(image: Any, xp: Any) -> Any:
    """Brightness [H, W] of the edges of an image [H, W, channels], 0 to 255."""
    channels = image.shape[2]
    planes = xp.asarray(image, dtype=xp.float32).transpose(2, 0, 1)  # a view
    x = xp.pad(planes, ((0, 0), (3, 3), (3, 3)), mode="edge")  # as both windows together need
    blur = xp.broadcast_to(xp.asarray(BLUR, dtype=xp.float32), (channels, 1, 5, 5))
    blurred = im2win.conv2d(x, blur, groups=channels)

    weight = xp.asarray(DIRECTIONS, dtype=xp.float32)[:, None]
    bias = xp.full(len(DIRECTIONS), -THRESHOLD, dtype=xp.float32)
    changes = im2win.conv2d(blurred[:, None], weight, bias, activation="relu")
    strength = xp.sqrt((changes**2).sum(axis=1)).max(axis=0)
    return xp.minimum(GAIN * strength, 255)


def main() -> None:
    parser = argparse.ArgumentParser(description="Edges of an image.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--cuda", action="store_true", help="on a GPU, through CuPy")
    arguments = parser.parse_args()

    xp = import_module("cupy" if arguments.cuda else "numpy")
    with Image.open(arguments.source) as picture:
        image = np.asarray(picture.convert("RGB"))
    found = edges(xp.asarray(image), xp)
    result = found.get() if arguments.cuda else found
    Image.fromarray(result.astype(np.uint8)).save(arguments.target)


if __name__ == "__main__":
    main()
