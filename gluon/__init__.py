"""Neural networks: blocks, layers, losses, data."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mxjax.display.wording import told
from mxjax.errors import no_name

from . import nn
from .block import Block
from .hybrid_block import HybridBlock
from .legacy import ParameterDict
from .parameter import Constant, DeferredInitializationError, Parameter

if TYPE_CHECKING:  # what is loaded when it is first used
    from . import data as data
    from . import functional as functional
    from . import loss as loss
    from . import metric as metric
    from . import model_zoo as model_zoo
    from . import probability as probability
    from . import rnn as rnn
    from . import utils as utils
    from .trainer import Trainer as Trainer

# Loaded when first used: name -> module.
_LAZY = {
    name: name
    for name in (
        "contrib",
        "data",
        "functional",
        "loss",
        "metric",
        "model_zoo",
        "probability",
        "rnn",
        "utils",
    )
}
_FROM = {
    "FlaxBlock": "interop.flax", "SymbolBlock": "symbol_block", "Trainer": "trainer", "tensor_types": "parameter",
    "from_flax_variables": "interop.interchange", "from_torch_state_dict": "interop.interchange",
    "to_flax_variables": "interop.interchange", "to_torch_state_dict": "interop.interchange",
    "load_checkpoint": "files.resuming", "save_checkpoint": "files.resuming",
}  # fmt: skip

__all__ = [
    "Block", "Constant", "DeferredInitializationError", "FlaxBlock", "HybridBlock", "Parameter", "ParameterDict",
    "SymbolBlock", "Trainer", "contrib", "data", "from_flax_variables", "from_torch_state_dict", "functional",
    "load_checkpoint", "loss", "metric", "model_zoo", "nn", "probability", "rnn", "save_checkpoint", "tensor_types",
    "to_flax_variables", "to_torch_state_dict", "utils",
]  # fmt: skip

told(Parameter)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        found: Any = importlib.import_module(f"{__name__}.{_LAZY[name]}")
    elif name in _FROM:
        found = getattr(importlib.import_module(f"{__name__}.{_FROM[name]}"), name)
    else:
        raise no_name(__name__, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_FROM})
