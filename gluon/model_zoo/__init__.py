"""Networks with names that everybody knows, and their trained weights."""

from __future__ import annotations

from mxjax.errors import explain_names as _explain_names

from . import model_store, transformers, vision
from .by_name import get_model
from .hub import from_pretrained, save_pretrained
from .torch_weights import from_torch_state_dict, match_torch_state_dict

__all__ = [
    "from_pretrained", "from_torch_state_dict", "get_model", "match_torch_state_dict", "model_store", "save_pretrained",
    "transformers", "vision",
]  # fmt: skip

_explain_names(__name__)
