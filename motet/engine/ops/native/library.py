"""The compiled kernels as Python sees them: one plain C function each, found once, called without the GIL."""

from __future__ import annotations

import ctypes
import os
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from motet.engine.ops.native import build
from motet.errors import BadConfig, EngineFault

TYPES = {"i": ctypes.c_int, "q": ctypes.c_int64, "f": ctypes.c_float, "p": ctypes.c_void_p}
FUNCTIONS = {
    "pack": "ipqqp",
    "linear": "iiqqqqppqppqpppp",
    "linear_backward": "iiqqqqpppppqpppp",
    "kv_write": "ippqqqpqpqp",
    "paged_attention": "ipqppqqqfqppqpp",
    "packed_forward": "ipqpqpqqqqfqpppppp",
    "packed_backward": "ipqpqpqppqqqfqpppppppp",
    "rms_norm": "iqqpqpfp",
    "rms_norm_backward": "iqqpqpfpp",
    "rope": "iqqqpqppip",
    "swiglu": "iqqpp",
    "swiglu_backward": "iqqppp",
    "log_normalizer": "qqpp",
    "logits_gradient": "qqqpppp",
    "draw": "qqppppppp",
}
FLOAT32, BF16_FMA, BF16_DOT = 0, 1, 2


class Library:
    """The kernels, and which inner loop bfloat16 products use on this machine."""

    def __init__(self, path: Path) -> None:
        self._lib = ctypes.CDLL(str(path))
        for name, signature in FUNCTIONS.items():
            setattr(self, name, self._function(name, signature))
        self._probe = self._function("probe", "i")
        self._probe.restype = ctypes.c_double
        self.bf16_kind = self._choose_bf16(os.environ.get("MOTET_NATIVE_BF16", ""))

    def _function(self, name: str, signature: str) -> Any:
        function = getattr(self._lib, f"motet_{name}")
        function.argtypes = [TYPES[letter] for letter in signature]
        function.restype = None
        return function

    if TYPE_CHECKING:  # the functions of the table are set one by one

        def __getattr__(self, name: str) -> Any: ...

    def _choose_bf16(self, asked: str) -> int:
        """Bits depend on it, so it is chosen once; the two rates differ by half or more wherever they differ."""
        if asked not in ("", "fma", "dot"):
            raise BadConfig(f"MOTET_NATIVE_BF16 is fma or dot, not {asked!r}")
        dot = self._probe(BF16_DOT)
        if asked == "dot" and dot == 0:
            raise BadConfig("this CPU has no bfloat16 dot product: leave MOTET_NATIVE_BF16 out, or say fma")
        if asked:
            return BF16_DOT if asked == "dot" else BF16_FMA
        return BF16_DOT if dot > self._probe(BF16_FMA) else BF16_FMA

    def kind(self, dtype: torch.dtype) -> int:
        """The inner loop for weights of this type."""
        return FLOAT32 if dtype == torch.float32 else self.bf16_kind

    def rate(self, kind: int) -> float:
        """GFLOP/s of one core in the inner loop alone; 0 where this CPU lacks it."""
        return float(self._probe(kind))


@cache
def library() -> Library | None:
    """The kernels, compiled at the first call where need be; None without a compiler or under MOTET_NATIVE=off."""
    if os.environ.get("MOTET_NATIVE", "") == "off":
        return None
    if build.compiler() is None:
        warnings.warn(
            "no C++ compiler: the engine runs in plain torch, which is several times slower. Install g++.", stacklevel=2
        )
        return None
    try:
        return Library(build.build())
    except (EngineFault, OSError) as error:
        warnings.warn(f"the engine runs in plain torch, several times slower: {error}", stacklevel=2)
        return None


def usable(tensor: torch.Tensor) -> bool:
    """Whether the kernels take this tensor's device and type."""
    return tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.bfloat16) and library() is not None


@cache
def fingerprint() -> str:
    """What the bits of a result depend on besides its inputs: two equal fingerprints compute alike."""
    kernels = library()
    if kernels is None:
        return f"torch {torch.__version__} {build.cpu()}"
    path = "dot" if kernels.bf16_kind == BF16_DOT else "fma"
    return f"kernels {build.library_path().stem} bfloat16 by {path}\n{build.describe()}"
