"""Hooks on operators: what `register_op_hook` calls with the name and the numbers of everything a block computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mxjax import nd
from mxjax.core import Value, end_note, local, note_calls
from mxjax.modes import generation
from mxjax.ops.table import by_internal

if TYPE_CHECKING:
    from ..hybrid_block import HybridBlock

#: Called with the name of an array, the name of the operator that gave or takes it, and the array, of mx.nd
#: (the names are bytes in MXNet 1).
OpHook = Callable[..., Any]


def run_heard(block: HybridBlock, args: tuple[Any, ...], hook: OpHook, monitor_all: bool) -> Any:
    """The block's results, operator by operator; the hook hears of each, and with `monitor_all` of what it takes."""
    inner: list[Any] = []
    block.apply(lambda b: inner.append(b) if hasattr(b, "_active") else None)
    before = [(b, b._active, b._op_hook) for b in inner]
    for b in inner:
        b._active, b._op_hook = False, None
    heard = _Heard(block, hook, monitor_all)
    try:
        block._settle(args)  # what initializes parameters is not the network's
        note_calls(heard.note)
        return block._run_forward(*args)
    finally:
        end_note(heard.note)
        for b, active, own in before:
            b._active, b._op_hook = active, own


#: Operators of one input to which MXNet gave no name for it.
_NAMELESS = frozenset(
    "Activation BlockGrad Cast Flatten _npi_argmax _npx_relu _npx_sigmoid clip erf expand_dims shape_array slice "
    "smooth_l1 sort topk".split()
)


def _internal(row: Any) -> str | None:
    """What MXNet's registry calls the operator of a row; None for those that are not of the table."""
    names = getattr(row, "names", None)
    return None if names is None else names.internal


def _titles(row: Any, count: int) -> list[str]:
    """What MXNet's registry calls an operator's inputs."""
    internal = _internal(row)
    if count == 1 and internal in _NAMELESS:
        return ["input0"]
    registered = by_internal(internal) if internal else None
    for known in (registered, row):
        titles = list(getattr(known, "array_params", ()))
        if titles == ["x1", "x2"]:
            return ["lhs", "rhs"]
        if len(titles) >= count and not known.variadic:  # type: ignore[union-attr]
            return titles
    return [f"arg{k}" for k in range(count)]


class _Heard:
    """Tells a hook of the calls that this thread records."""

    _count = 0  # of all operators heard of, as MXNet 2 numbers its nodes

    def __init__(self, block: HybridBlock, hook: OpHook, monitor_all: bool):
        self._state = local.st
        self._hook = hook
        self._all = monitor_all
        self._busy = False  # in the hook, whose own calls are nobody's
        self._legacy = block._names.legacy
        self._given: Counter[str] = Counter()
        self._blocks: dict[str, Any] = {}
        self._walk(local.st.scope, block)

    def _walk(self, scope: str, block: Any) -> None:
        self._blocks[scope] = block
        for child in block._children.values():
            self._walk(f"{scope}/{child._called}", child)

    def note(self, call: Any, inputs: Sequence[Any], results: Sequence[Value]) -> None:
        row = getattr(call, "row", None)
        if local.st is not self._state or self._busy or row is None or not row.operator:
            return
        kind = _internal(row) or row.display
        name = self._named(row.display)
        self._busy = True
        try:
            if self._all:
                given = (
                    inputs[1:] if getattr(row, "keyed", False) else inputs
                )  # without the random key
                arrays = [v for v in given if isinstance(v, Value)]
                titles = _titles(row, len(arrays))
                for title, v in zip(titles, arrays, strict=False):
                    self._tell(f"{name}_{title}", kind, v)
            shown = getattr(row, "aux", None)
            outs = (
                results[: len(results) - len(shown)]
                if isinstance(shown, tuple) and shown
                else results
            )
            for k, v in enumerate(outs):
                self._tell(f"{name}_output{k if len(outs) > 1 else ''}", kind, v)
        finally:
            self._busy = False

    def _tell(self, name: str, kind: str, v: Value) -> None:
        # MXNet 1 hands over what its library gave it: bytes.
        told: tuple[Any, ...] = (
            (name.encode(), kind.encode()) if generation() == 1 else (name, kind)
        )
        self._hook(*told, nd.NDArray._wrap(v))

    def _named(self, display: str) -> str:
        """The operator's name: `node_3`, or in MXNet 1 `dense0_fwd`."""
        block = self._blocks.get(local.st.scope)
        if generation() == 2 and not self._legacy:
            count = _Heard._count
            _Heard._count += 1
            return f"node_{count}"
        prefix = "" if block is None else block.prefix
        if block is not None and block._operator_is_fwd and not self._given[prefix]:
            self._given[prefix] += 1
            return f"{prefix}fwd"
        hint = f"{prefix}{display.lower()}"
        self._given[hint] += 1
        return f"{hint}{self._given[hint] - 1}"
