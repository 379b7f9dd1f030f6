"""What users derive a custom operator from: CustomOp and CustomOpProp, and the registry of what they made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .. import errors


class CustomOp:
    """The computation of a custom operator: define ``forward`` and, to train through it, ``backward``."""

    if TYPE_CHECKING:  # what the arguments are called, and of which types, is the operator's
        forward: Callable[..., None]
        backward: Callable[..., None]
    else:

        def forward(
            self,
            is_train: bool,
            req: Sequence[str],
            in_data: Sequence[Any],
            out_data: Sequence[Any],
            aux: Sequence[Any],
        ) -> None:
            """Compute the outputs from ``in_data`` and store them with :meth:`assign`."""
            raise errors.MXNetNotImplementedError(
                f"{type(self).__name__} does not define forward()"
            )

        def backward(
            self,
            req: Sequence[str],
            out_grad: Sequence[Any],
            in_data: Sequence[Any],
            out_data: Sequence[Any],
            in_grad: Sequence[Any],
            aux: Sequence[Any],
        ) -> None:
            """Compute the inputs' gradients from the outputs' and store them with :meth:`assign`."""
            raise errors.MXNetNotImplementedError(
                f"{type(self).__name__} does not define backward(), which training through it needs"
            )

    def assign(self, dst: Any, req: str, src: Any) -> None:
        """Store ``src`` in ``dst`` as ``req`` says: write, inplace, add or null."""
        if req == "null":
            return
        if req not in ("write", "inplace", "add"):
            raise errors.MXNetValueError(
                f"req={req!r}: one of 'null', 'write', 'inplace', 'add' is expected"
            )
        if req == "add":
            dst[:] = dst + src
        else:
            dst[:] = src


class CustomOpProp:
    """What is known about a custom operator before it runs: arguments, shapes, dtypes.

    Arguments of ``nd.Custom`` reach ``__init__`` as strings.
    """

    #: Whether the Python of the operator may be traced once and run as part of a program from then on, in hybridized
    #: blocks, symbols and transformations of JAX. True promises that ``forward`` and ``backward`` compute with arrays
    #: alone: no ``asnumpy``, no branches on numbers, nothing counted, drawn or printed in Python, no auxiliary states.
    #: ``backward`` stays the derivative.
    traceable: bool = False

    def __init__(self, need_top_grad: bool = True):
        self.need_top_grad_ = need_top_grad

    def infer_shape(self, in_shape: list[list[int]]) -> tuple[Any, ...]:
        """(input shapes, output shapes, auxiliary shapes); the first input's shape for all by default."""
        return in_shape, (in_shape[0],) * len(self.list_outputs()), ()

    def infer_type(self, in_type: list[Any]) -> tuple[Any, ...]:
        """(input dtypes, output dtypes, auxiliary dtypes); the first input's dtype for all by default."""
        return (
            in_type,
            [in_type[0]] * len(self.list_outputs()),
            [in_type[0]] * len(self.list_auxiliary_states()),
        )

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the auxiliary arrays."""
        return []

    def declare_backward_dependency(
        self, out_grad: Sequence[int], in_data: Sequence[int], out_data: Sequence[int]
    ) -> list[int]:
        """Which arrays ``backward`` uses, by their numbers; the others have no shape there, and are not kept for it."""
        return [*(out_grad if self.need_top_grad_ else []), *in_data, *out_data]

    def infer_storage_type(self, in_stype: list[str]) -> tuple[list[str], list[str], list[str]]:
        """(input, output, auxiliary storage types); dense ones (``'default'``) by default.

        Raises:
          NotImplementedError: an input is of another kind.
        """
        _dense("infer_storage_type", in_stype)
        return (
            in_stype, ["default"] * len(self.list_outputs()), ["default"] * len(self.list_auxiliary_states())
        )  # fmt: skip

    def infer_storage_type_backward(
        self, ograd_stype: list[str], in_stype: list[str], out_stype: list[str], igrad_stype: list[str],
        aux_stype: list[str],
    ) -> tuple[list[str], ...]:  # fmt: skip
        """(storage types of outputs' gradients, inputs, outputs, inputs' gradients, auxiliary arrays); dense ones.

        Raises:
          NotImplementedError: one is of another kind.
        """
        given = ograd_stype, in_stype, out_stype, igrad_stype, aux_stype
        _dense(
            "infer_storage_type_backward", [s for kinds in given for s in kinds if s != "undefined"]
        )
        return ograd_stype, in_stype, out_stype, ["default"] * len(igrad_stype), aux_stype

    if TYPE_CHECKING:
        create_operator: Callable[..., CustomOp]
    else:

        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
            """The operator itself; to be defined."""
            raise errors.MXNetNotImplementedError(
                f"{type(self).__name__} does not define create_operator()"
            )


def _dense(what: str, kinds: Iterable[str]) -> None:
    for kind in kinds:
        if kind != "default":
            raise errors.MXNetNotImplementedError(
                f"{what}: an array of storage type {kind!r}; a custom operator takes dense ones ('default') "
                "unless its CustomOpProp says what else it does"
            )


registry: dict[str, type[CustomOpProp]] = {}
#: How often a name was registered anew: calls of what it was before are other calls.
renewed: dict[str, int] = {}


def register(reg_name: str) -> Callable[[type[CustomOpProp]], type[CustomOpProp]]:
    """Register a CustomOpProp under the ``op_type`` that ``nd.Custom`` takes.

    >>> import mxjax as mx
    >>> class Double(mx.operator.CustomOp):
    ...     def forward(self, is_train, req, in_data, out_data, aux):
    ...         self.assign(out_data[0], req[0], in_data[0] * 2)
    ...     def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
    ...         self.assign(in_grad[0], req[0], out_grad[0] * 2)
    >>> @mx.operator.register("double")
    ... class DoubleProp(mx.operator.CustomOpProp):
    ...     def create_operator(self, ctx, shapes, dtypes):
    ...         return Double()
    >>> mx.nd.Custom(mx.np.ones(2), op_type="double")
    array([2., 2.])
    """

    def enter(prop: type[CustomOpProp]) -> type[CustomOpProp]:
        if not (isinstance(prop, type) and issubclass(prop, CustomOpProp)):
            raise errors.MXNetTypeError(f"register takes a subclass of CustomOpProp, got {prop!r}")
        if registry.get(reg_name, prop) is not prop:
            renewed[reg_name] = renewed.get(reg_name, 0) + 1
        registry[reg_name] = prop
        return prop

    return enter
