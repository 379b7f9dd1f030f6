"""Operators written in Python: CustomOp, CustomOpProp, the registry behind ``nd.Custom``; and what operators exist."""

from .. import errors
from .custom_op import CustomOp, CustomOpProp, register
from .listing import (
    OperatorArguments,
    get_all_registered_operators,
    get_all_registered_operators_grouped,
    get_operator_arguments,
)
from .python_op import NDArrayOp, NumpyOp, PythonOp
from .running import custom as custom

__all__ = [
    "CustomOp",
    "CustomOpProp",
    "NDArrayOp",
    "NumpyOp",
    "OperatorArguments",
    "PythonOp",
    "get_all_registered_operators",
    "get_all_registered_operators_grouped",
    "get_operator_arguments",
    "register",
]

errors.explain_names(__name__)
