"""MXNet's first kind of operators in Python: PythonOp, NumpyOp, NDArrayOp."""

from __future__ import annotations

import importlib
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import errors
from ..array.ndarray import NDArray
from .custom_op import CustomOp, CustomOpProp, registry
from .running import custom, is_undeclared

_counts = itertools.count()


class PythonOp:
    """An operator written in Python, as MXNet had them before `CustomOp`; see `NumpyOp` and `NDArrayOp`.

    An instance is called with arrays, or with symbols.
    """

    #: What `forward` and `backward` get: arrays of this package, or of NumPy.
    _of_numpy = False

    def __init__(self, need_top_grad: bool = True):
        self.need_top_grad_ = need_top_grad
        self._op_type = f"_native_{next(_counts)}"
        warnings.warn(
            f"{type(self).__name__} is deprecated: use CustomOp", DeprecationWarning, stacklevel=2
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """The operator's results, symbols or arrays as the arguments are."""
        raise errors.MXNetNotImplementedError(
            f"{type(self).__name__} does not define get_symbol(): derive from NumpyOp or NDArrayOp"
        )

    def forward(self, in_data: list[Any], out_data: list[Any]) -> None:
        """Compute the outputs in place: the first input by default."""
        out_data[0][:] = in_data[0]

    def backward(
        self, out_grad: list[Any], in_data: list[Any], out_data: list[Any], in_grad: list[Any]
    ) -> None:
        """Compute the inputs' gradients in place: ones by default."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: list[list[int]]) -> tuple[Any, ...]:
        """(input shapes, output shapes); one output of the first input's shape by default."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Whether `backward` uses the outputs' gradients."""
        return self.need_top_grad_

    def declare_backward_dependency(
        self, out_grad: Sequence[int], in_data: Sequence[int], out_data: Sequence[int]
    ) -> list[int]:
        """Which arrays `backward` uses, as of `CustomOpProp`."""
        return [*(out_grad if self.need_top_grad() else []), *in_data, *out_data]

    def _as_custom(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run as a custom operator: this one under a name of its own."""
        registry.setdefault(self._op_type, _prop_of(self))
        named = [kwargs.pop(name) for name in self.list_arguments()[len(args) :] if name in kwargs]
        given = [*args, *named]
        if all(isinstance(x, NDArray) for x in given):
            return custom(*given, op_type=self._op_type, **kwargs)
        return importlib.import_module("..symbol", __package__).Custom(
            *given, op_type=self._op_type, **kwargs
        )


def _prop_of(old: PythonOp) -> type[CustomOpProp]:
    class Run(CustomOp):
        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            _in_place(
                old, out_data, lambda outs, ins: old.forward(in_data=ins, out_data=outs), in_data
            )

        def backward(
            self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
        ) -> None:
            def run(made: Any, grads: Any, ins: Any, outs: Any) -> None:
                old.backward(out_grad=grads, in_data=ins, out_data=outs, in_grad=made)

            _in_place(old, in_grad, run, out_grad, in_data, out_data)

    class Prop(CustomOpProp):
        def __init__(self) -> None:
            super().__init__(need_top_grad=old.need_top_grad())

        def declare_backward_dependency(
            self, out_grad: Any, in_data: Any, out_data: Any
        ) -> list[int]:
            return list(old.declare_backward_dependency(out_grad, in_data, out_data))

        def infer_shape(self, in_shape: Any) -> Any:
            return (*old.infer_shape(in_shape), ())

        def list_arguments(self) -> list[str]:
            return old.list_arguments()

        def list_outputs(self) -> list[str]:
            return old.list_outputs()

        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
            return Run()

    return Prop


def _in_place(old: PythonOp, made: Any, run: Callable[..., None], *given: Any) -> None:
    """Call what writes into its first list of arrays."""
    if not old._of_numpy:
        run(made, *given)
        return
    blank = [np.zeros(x.shape, x.dtype) for x in made]
    run(blank, *[[_numbers(x) for x in arrays] for arrays in given])
    for array, numbers in zip(made, blank, strict=True):
        array[:] = numbers


def _numbers(x: Any) -> np.ndarray:
    return np.zeros(x.shape, x.dtype) if is_undeclared(x) else x.asnumpy()


class NumpyOp(PythonOp):
    """An operator whose `forward` and `backward` get arrays of NumPy and write into those.

    >>> import mxjax as mx, warnings
    >>> warnings.simplefilter("ignore", DeprecationWarning)
    >>> class Double(NumpyOp):
    ...     def forward(self, in_data, out_data):
    ...         out_data[0][:] = in_data[0] * 2
    >>> Double()(mx.nd.ones((2,))).asnumpy()
    array([2., 2.], dtype=float32)
    """

    _of_numpy = True

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        return self._as_custom(args, kwargs)


class NDArrayOp(PythonOp):
    """An operator whose `forward` and `backward` get arrays of mx.nd and write into those."""

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        return self._as_custom(args, kwargs)
