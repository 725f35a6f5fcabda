"""What the evaluation of the paper consists of: its rows in order, and what it printed itself.

Lu, Chu, Guo, Liu: "Im2win: An Efficient Convolution Paradigm on GPU", Euro-Par 2023; RTX 3090.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from im2win.layers import LAYERS, Layer

LABELS = {
    "direct": "direct",
    "im2col_cublas": "im2col + cuBLAS (PyTorch)",
    "unfold_cupy": "unfold + cuBLAS (CuPy)",
    "im2col_numpy": "im2col + BLAS (NumPy)",
    "cudnn_implicit_gemm": "cuDNN IMPLICIT_GEMM",
    "cudnn_implicit_precomp_gemm": "cuDNN IMPLICIT_PRECOMP_GEMM",
    "cudnn_gemm": "cuDNN GEMM",
    "cudnn_direct": "cuDNN DIRECT",
    "cudnn_fft": "cuDNN FFT",
    "cudnn_fft_tiling": "cuDNN FFT_TILING",
    "cudnn_winograd": "cuDNN WINOGRAD",
    "cudnn_winograd_nonfused": "cuDNN WINOGRAD_NONFUSED",
    "cudnn_pick": "cuDNN's pick",
    "cudnn_micro_batches": "cuDNN, micro-batches",
    "pytorch": "PyTorch with cuDNN",
    "onednn": "oneDNN (PyTorch)",
    "onnxruntime": "ONNX Runtime",
    "implicit_gemm": "implicit GEMM (Algorithm 1)",
    "im2win_basic": "im2win, basic (Algorithm 2)",
    "im2win": "im2win (Algorithm 3)",
    "im2win_no_prefetch": "without prefetch",
    "im2win_no_vector": "without vector loads",
    "im2win_no_microkernel": "without micro-kernel",
    "im2win_micro_batches": "im2win, micro-batches",
    "im2win_packed": "im2win, packed filter",
    "mec": "MEC",
    "im2win_fused": "im2win_fused",
    "im2win_fused_packed": "im2win_fused, packed filter",
}
ABLATION = ("im2win", "im2win_no_prefetch", "im2win_no_vector", "im2win_no_microkernel")

# Table 3: what cuDNN 8.0.1 chose.
PRINTED_PICKS = (
    *("IMPLICIT_GEMM",) * 4,
    "WINOGRAD",
    *("IMPLICIT_GEMM",) * 2,
    "FFT",
    *("WINOGRAD",) * 3,
    "IMPLICIT_GEMM",
)


@dataclass(frozen=True)
class Row:
    """One layer by one algorithm."""

    layer: str
    algorithm: str  # of LABELS
    runs: int
    wall_best_ms: float
    wall_median_ms: float
    device_best_ms: float | None  # None on the CPU
    device_median_ms: float | None
    extra_bytes: int | None  # beside input, filter and output; None if it could not be measured
    largest_error: float

    @property
    def milliseconds(self) -> float:
        """What the figures are made of: the median on the device; on a CPU, which is never idle,
        the best."""
        return self.wall_best_ms if self.device_median_ms is None else self.device_median_ms


@dataclass
class Study:
    """One run of the evaluation. Its JSON has these fields, and `machine`."""

    device: str  # "cuda" or "cpu"
    dtype: str
    batch: int
    rows: list[Row] = field(default_factory=list)
    picks: dict[str, str] = field(default_factory=dict)  # of cuDNN, by layer
    missing: dict[str, str] = field(default_factory=dict)  # why a peer is not here
    refusals: list[dict[str, str]] = field(default_factory=list)  # layer, algorithm, reason
    is_wrong: bool = False  # whether one of ours failed, or computed something else
    machine: dict[str, Any] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Study":
        return cls(**{**document, "rows": [Row(**row) for row in document["rows"]]})

    @property
    def layers(self) -> list[Layer]:
        measured = {row.layer for row in self.rows}
        return [layer for layer in LAYERS if layer.name in measured]

    @property
    def algorithms(self) -> list[str]:
        """In the paper's order."""
        measured = {row.algorithm for row in self.rows}
        return [name for name in LABELS if name in measured]

    def row(self, layer: Layer, algorithm: str) -> Row | None:
        found = (r for r in self.rows if (r.layer, r.algorithm) == (layer.name, algorithm))
        return next(found, None)

    def flops_per_second(self, layer: Layer, algorithm: str) -> float | None:
        """2 x MACs over Row.milliseconds."""
        row = self.row(layer, algorithm)
        return None if row is None else layer.flops(self.batch) / row.milliseconds * 1e3

    @property
    def element_bytes(self) -> int:
        return 2 if self.dtype in ("fp16", "bf16") else 4

    def tensor_bytes(self, layer: Layer) -> int:
        """Of input, filter and output."""
        n, c, h, w = layer.input_shape(self.batch)
        k, _, r, s = layer.weight_shape
        return self.element_bytes * (n * c * h * w + k * c * r * s + n * k * layer.output_size**2)

    def memory_bytes(self, layer: Layer, algorithm: str) -> int | None:
        """The tensors, and all that a call needs beside them."""
        row = self.row(layer, algorithm)
        if row is None or row.extra_bytes is None:
            return None
        return self.tensor_bytes(layer) + row.extra_bytes
