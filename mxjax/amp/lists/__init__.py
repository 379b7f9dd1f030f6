"""The lists of operators that mixed precision goes by, under MXNet's names; they come from the operator table."""

from . import symbol_bf16, symbol_fp16

__all__ = ["symbol_bf16", "symbol_fp16"]
