"""What the libraries and the machine below can do, under MXNet's names.

>>> features = Features()
>>> features.is_enabled("LAPACK")
True
"""

from __future__ import annotations

import faulthandler
import functools
import importlib.util
import platform
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from . import _jax_private
from .errors import MXNetError, did_you_mean

__all__ = ["Feature", "Features", "feature_list", "get_branch", "get_commit_hash"]


class Feature:
    """One ability: its `name`, and whether it is `enabled`."""

    __slots__ = ("enabled", "name")

    def __init__(self, name: str, enabled: bool):
        self.name = name
        self.enabled = enabled

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


def _cuda() -> bool:
    from .device import num_gpus

    return num_gpus() > 0


@functools.cache
def _processor() -> frozenset[str]:
    """The abilities of the processor, as Linux names them; elsewhere those that every processor of its kind has."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, words = line.partition(":")
        if name.strip() == "flags":
            return frozenset(words.split())
    return frozenset({"sse", "sse2"} if platform.machine().lower() in ("x86_64", "amd64") else ())


def _has(flag: str) -> Callable[[], bool]:
    """XLA compiles for the processor that is there."""
    return lambda: flag in _processor()


def _no() -> bool:
    return False


def _yes() -> bool:
    return True


#: MXNet's names, 2.x's and 1.x's, and what answers for them.
_FEATURES: dict[str, Callable[[], bool]] = {
    "CUDA": _cuda,
    "CUDNN": _cuda,  # JAX's GPU builds bring cuDNN and NCCL
    "NCCL": _cuda,
    "CUDA_RTC": _no,
    "TENSORRT": _no,
    "CUTENSOR": _no,
    "CPU_SSE": _has("sse"),
    "CPU_SSE2": _has("sse2"),
    "CPU_SSE3": _has("pni"),
    "CPU_SSE4_1": _has("sse4_1"),
    "CPU_SSE4_2": _has("sse4_2"),
    "CPU_SSE4A": _has("sse4a"),
    "CPU_AVX": _has("avx"),
    "CPU_AVX2": _has("avx2"),
    "OPENMP": _no,  # XLA has threads of its own
    "SSE": _has("sse"),
    "F16C": _has("f16c"),
    "JEMALLOC": _no,
    "BLAS_OPEN": _no,  # XLA's own products
    "BLAS_ATLAS": _no,
    "BLAS_MKL": _no,
    "BLAS_APPLE": _no,
    "LAPACK": _yes,
    "ONEDNN": _no,
    "MKLDNN": _no,
    "OPENCV": lambda: importlib.util.find_spec("cv2") is not None,
    "CAFFE": _no,
    "PROFILER": _yes,
    "DIST_KVSTORE": _yes,
    "CXX14": _no,
    "INT64_TENSOR_SIZE": _yes,
    "SIGNAL_HANDLER": faulthandler.is_enabled,
    "DEBUG": _no,
    "TVM_OP": _no,
    "JAX_PRIVATE_NAMES": lambda: (
        not _jax_private.lost()
    ),  # ours: whether JAX is as fast here as it can be
}


def feature_list() -> list[Feature]:
    """All features; asking starts JAX's devices."""
    return [Feature(name, enabled()) for name, enabled in _FEATURES.items()]


class Features(OrderedDict[str, Feature]):
    """The features by name; there is one such object."""

    instance: Features | None = None

    def __new__(cls) -> Features:
        if cls.instance is None:
            made = super().__new__(cls)
            OrderedDict.__init__(made, [(feature.name, feature) for feature in feature_list()])
            cls.instance = made
        return cls.instance

    def __init__(self) -> None:
        """It is filled once, where it is made."""

    def __repr__(self) -> str:
        return str(list(self.values()))

    def is_enabled(self, feature_name: str) -> bool:
        """Whether a feature is there, by its name in any case.

        Raises:
          RuntimeError: no feature has this name.
        """
        name = feature_name.upper()
        if name not in self:
            raise MXNetError(
                f"Feature '{name}' is unknown{did_you_mean(name, self)}; known features are: {', '.join(self)}"
            )
        return self[name].enabled


def _git() -> Path | None:
    """The folder of git's records, where this package lies in a working copy."""
    found = Path(__file__).resolve().parents[1] / ".git"
    if found.is_file():  # a further working copy of a repository elsewhere
        found = Path(found.read_text().partition("gitdir:")[2].strip())
    return found if (found / "HEAD").is_file() else None


def get_branch() -> str:
    """The branch of the working copy that this package lies in; "" where it was installed from a package."""
    folder = _git()
    head = "" if folder is None else (folder / "HEAD").read_text().strip()
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head and "HEAD"


def get_commit_hash() -> str:
    """The commit of the working copy that this package lies in; "" where it was installed from a package."""
    folder = _git()
    if folder is None:
        return ""
    head = (folder / "HEAD").read_text().strip()
    if not head.startswith("ref:"):
        return head
    name = head.removeprefix("ref: ")
    common = folder / "commondir"
    root = (folder / common.read_text().strip()) if common.is_file() else folder
    if (root / name).is_file():
        return (root / name).read_text().strip()
    packed = root / "packed-refs"
    lines = packed.read_text().splitlines() if packed.is_file() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")
