"""Automatic mixed precision: `mx.amp` (`mx.contrib.amp` in MXNet 1)."""

from mxjax.errors import explain_names as _explain_names

from . import lists
from .amp import (
    init,
    init_trainer,
    list_conditional_fp32_ops,
    list_fp32_ops,
    list_loss_output_functions,
    list_lp16_fp32_ops,
    list_lp16_ops,
    list_lp16_use_fp32_params,
    list_widest_type_cast,
    scale_loss,
    unscale,
)
from .convert import convert_bucketing_module, convert_hybrid_block, convert_model, convert_symbol
from .loss_scaler import LossScaler

__all__ = [
    "LossScaler",
    "convert_bucketing_module",
    "convert_hybrid_block",
    "convert_model",
    "convert_symbol",
    "init",
    "init_trainer",
    "list_conditional_fp32_ops",
    "list_fp32_ops",
    "list_loss_output_functions",
    "list_lp16_fp32_ops",
    "list_lp16_ops",
    "list_lp16_use_fp32_params",
    "list_widest_type_cast",
    "lists",
    "scale_loss",
    "unscale",
]

_explain_names(__name__)
