"""`mx.th`: where MXNet 1.x puts the functions of Torch 7 (in Lua) that it was built with: here there are none.

PyTorch's arrays come and go by DLPack: `mx.np.from_dlpack`, `torch.from_dlpack`.
"""

from __future__ import annotations

from typing import NoReturn

from .errors import MXNetAttributeError

__all__: list[str] = []


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise MXNetAttributeError(
        f"mx.th has no function {name!r}: these are Torch 7's, in Lua; arrays of PyTorch come and go by DLPack, as in "
        "mx.np.from_dlpack(tensor)"
    )
