"""What code of MXNet's users imports from `mxnet.base` and has no use inside of this package."""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from . import util
from .errors import MXNetAssertionError, MXNetError, MXNetNotImplementedError, MXNetValueError

__all__: list[str] = []


class _NullType:
    """The type of `_Null`, which stands for an argument that is left out."""

    def __repr__(self) -> str:
        return "_Null"


_Null = _NullType()

# ---- what `mxnet.util` has beside its functions ----------------------------------------------------------

_MAX_VALUE_64_BIT_UNSIGNED_ = 2**64 - 1
_MAX_VALUE_64_BIT_SIGNED_ = 2**63 - 1
#: Up to here every whole number is one of float32.
_MAX_VALUE_FLOAT32_REPRESENT_ = 2**24


#: What a call of CUDA gives that went well.
_CUDA_SUCCESS = 0
#: Whether a mode's change was logged: none is here.
_set_np_shape_logged = _set_np_array_logged = _set_np_default_dtype_logged = False


class _NumpyDefaultDtypeScope:
    """The scope of `np_default_dtype`, as a class; None changes nothing."""

    def __init__(self, is_np_default_dtype: bool | None):
        self._scope = (
            nullcontext()
            if is_np_default_dtype is None
            else util.np_default_dtype(is_np_default_dtype)
        )

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._scope.__exit__(*error)


def _sanity_check_params(
    func_name: str, unsupported_params: Iterable[str], param_dict: Mapping[str, Any]
) -> None:
    """Raise a NotImplementedError if a function was given one of the options that it does not have."""
    for name in unsupported_params:
        if name in param_dict:
            raise MXNetNotImplementedError(
                f"function {func_name} does not support parameter {name}"
            )


# ---- types of C, for libraries that programs load by ctypes -----------------------------------------------

mx_int = ctypes.c_int
mx_uint = ctypes.c_uint
mx_int64 = ctypes.c_int64
mx_float = ctypes.c_float
mx_float_p = ctypes.POINTER(ctypes.c_float)


def check_call(ret: int) -> None:
    """Raise an error if a function of a C library has failed, which it says by a number that is not 0."""
    if ret != 0:
        raise MXNetError(f"a call of a C library failed: it returned {ret}")


def c_str(string: str) -> ctypes.c_char_p:
    """A text as a pointer for C."""
    return ctypes.c_char_p(string.encode("utf-8"))


def c_str_array(strings: Iterable[str]) -> Any:
    """Texts as an array of pointers for C."""
    encoded = [string.encode("utf-8") for string in strings]
    return (ctypes.c_char_p * len(encoded))(*encoded)


def c_array(ctype: Any, values: Sequence[Any]) -> Any:
    """Values as an array for C.

    >>> list(c_array(mx_uint, [1, 2]))
    [1, 2]
    """
    return (ctype * len(values))(*values)


def c_array_buf(ctype: Any, buf: Any) -> Any:
    """An `array.array` as an array for C, without a copy."""
    return (ctype * len(buf)).from_buffer(buf)


def ctypes2buffer(cptr: Any, length: int) -> bytearray:
    """A copy of memory that C points to.

    Raises:
      TypeError: no pointer to characters.
    """
    if not isinstance(cptr, ctypes.POINTER(ctypes.c_char)):
        raise TypeError("expected char pointer")
    return bytearray(ctypes.string_at(cptr, length))


# ---- classes ---------------------------------------------------------------------------------------------


class _MXClassPropertyDescriptor:
    """A property of a class."""

    def __init__(self, fget: Any, fset: Any = None):
        self.fget = fget
        self.fset = fset

    def __get__(self, obj: Any, clas: type | None = None) -> Any:
        return self.fget.__get__(obj, type(obj) if clas is None else clas)()

    def __set__(self, obj: Any, value: Any) -> None:
        if not self.fset:
            raise MXNetError(f"cannot use the setter: {obj.__name__} to set attribute")
        self.fset.__get__(None, obj if inspect.isclass(obj) else type(obj))(value)

    def setter(self, func: Any) -> _MXClassPropertyDescriptor:
        """The decorator of what sets it."""
        self.fset = func if isinstance(func, (classmethod, staticmethod)) else classmethod(func)
        return self


class _MXClassPropertyMetaClass(type):
    """The metaclass of classes whose properties can be set."""

    def __setattr__(cls, key: str, value: Any) -> None:
        found = cls.__dict__.get(key)
        if isinstance(found, _MXClassPropertyDescriptor):
            found.__set__(cls, value)
        else:
            super().__setattr__(key, value)


def classproperty(func: Any) -> _MXClassPropertyDescriptor:
    """The decorator of a property of a class.

    >>> class Net:
    ...     @classproperty
    ...     def layers(cls):
    ...         return 3
    >>> Net.layers
    3
    """
    return _MXClassPropertyDescriptor(
        func if isinstance(func, (classmethod, staticmethod)) else classmethod(func)
    )


def with_metaclass(meta: Any, *bases: type) -> type:
    """A base class for a class with this metaclass and these bases: how Python 2 and 3 both took it.

    >>> class Meta(type):
    ...     pass
    >>> class Net(with_metaclass(Meta, dict)):
    ...     pass
    >>> type(Net) is Meta, Net.__bases__
    (True, (<class 'dict'>,))
    """

    class replaced(type):  # noqa: N801
        def __new__(mcs, name: str, _: Any, body: dict[str, Any]) -> Any:
            return meta(name, bases, body)

        @classmethod
        def __prepare__(mcs, name: str, _: Any, /, **__: Any) -> Any:  # type: ignore[override]
            return meta.__prepare__(name, bases)

    return type.__new__(replaced, "temporary_class", (), {})


# ---- names of operators in MXNet's registry --------------------------------------------------------------

_OP_NAME_PREFIX_LIST = ["_contrib_", "_linalg_", "_sparse_", "_image_", "_random_"]
_NP_OP_PREFIX = "_np_"
_NP_OP_IMPLEMENTED_SET = {"_np_reshape"}
_NP_OP_SUBMODULE_LIST = ["_random_", "_linalg_"]
_NP_EXT_OP_PREFIX = "_npx_"
_NP_EXT_OP_SUBMODULE_LIST = ["_image_", "_random_"]
_NP_INTERNAL_OP_PREFIX = "_npi_"
_NP_OUTPUT_IS_LIST_OPERATORS = {"_npi_split", "_npi_hsplit"}


def _get_op_name_prefix(op_name: str) -> str:
    """Which word of `_OP_NAME_PREFIX_LIST` an operator's name begins with; "" for none.

    >>> _get_op_name_prefix("_contrib_box_nms")
    '_contrib_'
    """
    return next(filter(op_name.startswith, _OP_NAME_PREFIX_LIST), "")


def _get_op_submodule_name(
    op_name: str, op_name_prefix: str, submodule_name_list: Iterable[str]
) -> str:
    """Which of these words follows the prefix in an operator's name; "" for none.

    Raises:
      AssertionError: the name does not begin with the prefix.
    """
    if not op_name.startswith(op_name_prefix):
        raise MXNetAssertionError(f"{op_name!r} does not begin with {op_name_prefix!r}")
    return next(filter(op_name.removeprefix(op_name_prefix).startswith, submodule_name_list), "")


def _is_np_op(op_name: str) -> bool:
    """Whether an operator is one of mx.np, mx.npx, or of what these are made of."""
    return op_name.startswith((_NP_OP_PREFIX, _NP_EXT_OP_PREFIX, _NP_INTERNAL_OP_PREFIX))


def _output_is_list(op_name: str) -> bool:
    """Whether an operator of mx.np gives a list however many outputs there are."""
    return op_name in _NP_OUTPUT_IS_LIST_OPERATORS


# ---- texts, and the rest ---------------------------------------------------------------------------------


def data_dir_default() -> str:
    """The folder of datasets and models where nobody says another."""
    return str(Path.home() / ".mxnet")


def build_param_doc(
    arg_names: Iterable[str],
    arg_types: Iterable[str],
    arg_descs: Iterable[str],
    remove_dup: bool = True,
) -> str:
    r"""The section of a docstring that describes parameters.

    >>> build_param_doc(["x"], ["NDArray"], ["The input."])
    'Parameters\n----------\nx : NDArray\n    The input.\n'
    """
    entries: list[str] = []
    seen: set[str] = set()
    for name, kind, text in zip(arg_names, arg_types, arg_descs, strict=False):
        if name == "num_args" or (remove_dup and name in seen):
            continue
        seen.add(name)
        entries.append(f"{name} : {kind}" + (f"\n    {text}" if text else ""))
    return "Parameters\n----------\n{}\n".format("\n".join(entries))


def add_fileline_to_docstring(module: Any, incursive: bool = True) -> None:
    """Let the docstrings of a module's functions, and of its classes' methods, say where they are defined."""
    module = sys.modules[module] if isinstance(module, str) else module
    for each in list(vars(module).values()):
        if inspect.isfunction(each) and each.__module__ == module.__name__:
            _say_where(each)
        elif inspect.isclass(each) and each.__module__ == module.__name__ and incursive:
            for method in vars(each).values():
                if inspect.isfunction(method):
                    _say_where(method)


def _say_where(function: Callable[..., Any]) -> None:
    if function.__doc__ and "From:" not in function.__doc__:
        code = inspect.unwrap(function).__code__
        function.__doc__ += f"\n\nFrom:{code.co_filename}:{code.co_firstlineno}"


def _as_sizes(string: str) -> list[str]:
    """The numbers in a text of a shape, as texts.

    >>> _as_sizes("(3, 224)")
    ['3', '224']
    """
    import re

    return re.findall(r"\d+", string)


def _as_classic(a: Any, allow_np: bool) -> Any:
    """Arrays of mx.np, one or a list of them, as mx.nd's.

    Raises:
      ValueError: there are some and `allow_np` is False.
    """
    from .array.classes import ndarray

    many = isinstance(a, (tuple, list))
    if not any(isinstance(x, ndarray) for x in (a if many else [a])):
        return a
    if not allow_np:
        raise MXNetValueError("Converting np.ndarray to mx.nd.NDArray is not allowed")
    return [x.as_nd_ndarray() for x in a] if many else a.as_nd_ndarray()


def _flatten_list(nested_list: Iterable[Iterable[Any]]) -> list[Any]:
    """The items of a list of lists."""
    return [item for items in nested_list for item in items]
