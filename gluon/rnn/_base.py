"""The base of recurrent cells, and how a cell is unrolled: as one loop operator, or step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mxjax import autograd, errors, nd, np, npx
from mxjax.array.classes import ndarray
from mxjax.array.invoke import symbolic
from mxjax.array.ndarray import NDArray
from mxjax.core import is_recording
from mxjax.modes import is_np_array
from mxjax.npx.control_flow import compiles

from ..block import Block
from ..hybrid_block import HybridBlock
from ..layer import CellCalls
from ..legacy import writes_hybrid_forward
from ..legacy.forward import given_first
from ..nn import LeakyReLU
from ._sequences import checked, formatted, kept, masked, merged, steps_of

__all__ = ["HybridRecurrentCell", "RecurrentCell"]

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tanh": np.tanh, "relu": npx.relu, "sigmoid": npx.sigmoid, "softsign": npx.softsign,
}  # fmt: skip


class _HoldsArrays(errors.MXNetValueError):
    """A step leaves arrays in a cell's attributes: it cannot be the body of a loop operator."""


class Unrolling(NamedTuple):
    """What a cell's `unroll` was asked for, and the time axis and batch size of its inputs."""

    length: int
    inputs: Any
    begin_state: Any
    layout: str
    merge_outputs: bool | None
    valid_length: Any
    axis: int
    batch_size: int

    def of(
        self, cell: Any, inputs: Any, states: Any, merge: bool | None = True
    ) -> tuple[Any, list[Any]]:
        """Another cell unrolled over a sequence in the place of this one."""
        found: tuple[Any, list[Any]] = cell.unroll(
            self.length, inputs, begin_state=states, layout=self.layout, merge_outputs=merge,
            valid_length=self.valid_length,
        )  # fmt: skip
        return found

    def masked(self, sequence: Any) -> Any:
        """A sequence with zeros behind the valid lengths, if there are any."""
        return (
            sequence
            if self.valid_length is None
            else masked(sequence, self.valid_length, self.axis)
        )

    def shaped(self, sequence: Any) -> Any:
        """A sequence as one array or as a list, as was asked for; by default a list unless there are valid lengths."""
        merge = self.valid_length is not None if self.merge_outputs is None else self.merge_outputs
        return formatted(sequence, self.axis, merge)


class RecurrentCell(CellCalls, Block):  # type: ignore[misc]
    """The base of recurrent cells: ``cell(inputs, states)`` gives an output and a list of new states.

    A cell of your own defines ``state_info`` and ``forward``; ``unroll`` runs it over a sequence.

    >>> import mxjax as mx
    >>> class Sum(mx.gluon.rnn.RecurrentCell):
    ...     def state_info(self, batch_size=0):
    ...         return [{"shape": (batch_size, 2), "__layout__": "NC"}]
    ...     def forward(self, inputs, states):
    ...         total = states[0] + inputs
    ...         return total, [total]
    >>> Sum().unroll(3, mx.np.ones((1, 3, 2)), merge_outputs=True)[0]
    array([[[1., 1.],
            [2., 2.],
            [3., 3.]]])
    """

    #: Attributes in which a step leaves arrays for the next one.
    _carried: tuple[str, ...] = ()

    #: Their beginning, for subclasses whose `reset` does not call this one.
    _init_counter = -1
    _counter = -1

    def __init__(self) -> None:
        super().__init__()
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Forget what steps have left behind (masks, the last output): a new sequence begins."""
        self._init_counter = -1
        self._counter = -1
        for cell in self._children.values():
            if isinstance(cell, RecurrentCell):
                cell.reset()

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of each state; to be defined.

        Raises:
          NotImplementedError: the cell does not define it.
        """
        raise errors.MXNetNotImplementedError(f"{type(self).__name__} does not define state_info()")

    def _check_unmodified(self) -> None:
        if self._modified:
            raise errors.MXNetAssertionError(
                "After applying modifier cells (e.g. ZoneoutCell) the base cell cannot be called directly. Call the "
                "modifier cell instead."
            )

    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Any] = np.zeros, **kwargs: Any
    ) -> list[Any]:
        """The states before the first step: ``func(shape=...)`` for each; zeros by default.

        Functions of mx.sym get a name as well: ``lstm0_begin_state_0``.

        Raises:
          AssertionError: the cell belongs to a modifier cell, which is to be asked.
        """
        self._check_unmodified()
        infos = self.state_info(batch_size)
        names = [
            f"{self.prefix}begin_state_{self._init_counter + k}" for k in range(1, len(infos) + 1)
        ]
        self._init_counter += len(infos)
        return made_states(infos, func, kwargs, names)

    def _starting(self, begin_state: Any, inputs: Any, batch_size: int) -> list[Any]:
        if begin_state is not None:
            return begin_state if isinstance(begin_state, list) else list(_listed(begin_state))
        like = inputs if isinstance(inputs, NDArray) else inputs[0]
        states = self.begin_state(batch_size=batch_size, device=like.device, dtype=like.dtype)
        return of_the_kind_of(like, states)

    # ---- unrolling -----------------------------------------------------------------------------------

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Run the cell over a sequence: (outputs, states after the last step).

        In a hybridized block, and for more than 8 steps, this is one loop operator.

        Args:
          length: how many steps.
          inputs: an array with a time axis as ``layout`` says, or a list with an array (N, ...) for each step; or
            symbols, with MXNet 1's names for what is composed.
          begin_state: the states to begin with; zeros.
          layout: "NTC" or "TNC", of inputs and outputs that are one array.
          merge_outputs: True: outputs are one array; False: a list; None: a list unless there are valid lengths.
          valid_length: (N,), the length of each row: outputs behind it are zero, states are those at it.

        Raises:
          AssertionError: inputs that are no arrays, or not ``length`` of them.
        """
        if symbolic and of_symbols(inputs):
            from ._composed import unroll

            return unroll(self, length, inputs, begin_state, layout, merge_outputs, valid_length)
        self.reset()
        axis, batch_size = checked(length, inputs, layout)
        return self._run_over(
            Unrolling(
                length, inputs, begin_state, layout, merge_outputs, valid_length, axis, batch_size
            )
        )

    def _run_over(self, run: Unrolling) -> tuple[Any, list[Any]]:
        """What `unroll` gives; the cell has been reset. Cells with a way of their own define it."""
        states = self._starting(run.begin_state, run.inputs, run.batch_size)
        outputs, states = self._unrolled(run.inputs, states, run.axis, run.length, run.valid_length)
        if run.valid_length is not None:
            outputs = masked(outputs, run.valid_length, run.axis)
            return formatted(outputs, run.axis, run.merge_outputs), states
        return formatted(outputs, run.axis, bool(run.merge_outputs)), states

    def _unrolled(
        self, inputs: Any, states: list[Any], axis: int, length: int, valid: Any
    ) -> tuple[Any, list[Any]]:
        """Outputs, as a list or as one array, and the last states."""
        arrays = [*(inputs if isinstance(inputs, (list, tuple)) else [inputs]), *states]
        if length > 1 and compiles(arrays, length):
            self._settle_cells(inputs, states, axis)
            before = [(cell, dict(vars(cell))) for cell in _cells(self)]
            try:
                return self._scanned(inputs, states, axis, valid)
            except (_HoldsArrays, errors.MXNetValueError):
                for (
                    cell,
                    attributes,
                ) in before:  # what the body left there has no value outside of it
                    vars(cell).update(attributes)
        outputs = []
        for k, x in enumerate(steps_of(inputs, axis)):
            out, new = self(x, states)
            states = _next_states(valid, k, new, states)
            outputs.append(out)
        return outputs, states

    def _settle_cells(self, inputs: Any, states: list[Any], axis: int) -> None:
        """Finish deferred initializations by a step: a loop's body makes no parameters."""
        if any(p._deferred is not None for p in self.collect_params().values()):
            with autograd.pause(train_mode=False):
                self(steps_of(inputs, axis)[0], states)
            self.reset()

    def _hoisted(self, sequence: Any) -> tuple[Any, Callable[[Any, Any], Any]]:
        """What runs over the sequence, and the step: cells compute what needs no state for all steps at once."""
        return sequence, self

    def _scanned(
        self, inputs: Any, states: list[Any], axis: int, valid: Any
    ) -> tuple[Any, list[Any]]:
        """The sequence by `npx.foreach`. What steps leave in attributes (`_carried`) are states as well."""
        sequence = merged(inputs, axis)
        if axis:
            sequence = np.swapaxes(sequence, 0, axis)
        carried = [(cell, name) for cell in _cells(self) for name in type(cell)._carried]
        first = None
        offset = 0
        if carried:  # the first step finds out what they are
            first, new = self(sequence[0], states)
            states = _next_states(valid, 0, new, states)
            sequence, offset = sequence[1:], 1
            carried = [
                (cell, name) for cell, name in carried if isinstance(getattr(cell, name), NDArray)
            ]
        sequence, step = self._hoisted(sequence)
        held = [getattr(cell, name) for cell, name in carried]
        n, m = len(states), len(states) + len(held)
        last = list(states)
        last += held
        if valid is not None:
            last.append(np.full((1,), offset, dtype=valid.dtype, device=valid.device))

        def body(x: Any, given: list[Any]) -> tuple[Any, list[Any]]:
            for (cell, name), value in zip(carried, given[n:m], strict=True):
                setattr(cell, name, value)
            before = dict(_arrays_held(self))
            out, new = step(x, given[:n])
            after = [getattr(cell, name) for cell, name in carried]
            if any(before.get(key) is not a for key, a in _arrays_held(self) if key not in carried):
                raise _HoldsArrays("a step leaves arrays in attributes of the cell")
            if valid is not None:
                new = kept(valid, given[m], _listed(new), given[:n])
                after.append(given[m] + 1)
            return out, [*new, *after]

        outputs, last = npx.foreach(body, sequence, last)
        for (cell, name), value in zip(carried, last[n:m], strict=True):
            setattr(cell, name, None if is_recording() else value)
        if first is not None:
            outputs = np.concatenate([np.expand_dims(first, 0), outputs], axis=0)
        return (np.swapaxes(outputs, 0, axis) if axis else outputs), list(last[:n])

    def _activate(self, x: Any, activation: Any) -> Any:
        """What `_get_activation` gives, which subclasses override."""
        return self._get_activation(*given_first(x), x, activation)

    def _get_activation(self, *given: Any, **kwargs: Any) -> Any:
        """The activation (a name, a LeakyReLU, a function) of `inputs, activation`; under MXNet 1 `F` is first."""
        inputs, activation = given[-2:]
        if of_symbols(inputs):
            from ._composed import activated

            return activated(inputs, activation, **kwargs)
        kwargs.pop("name", None)
        if isinstance(activation, str):
            fn = _FUNCTIONS.get(activation)
            return (
                fn(inputs, **kwargs)
                if fn
                else npx.activation(inputs, act_type=activation, **kwargs)
            )
        if isinstance(activation, LeakyReLU):
            return npx.leaky_relu(inputs, act_type="leaky", slope=activation._alpha, **kwargs)
        return activation(inputs, **kwargs)

    def _compose(self, weights: dict[str, Any], inputs: Any, states: Any) -> Any:
        """A step on symbols, with variables for the parameters; None: as `forward` has it."""
        from ._composed import step

        return step(self, weights, inputs, states)

    def forward(self, inputs: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        """One step: (output, new states); to be defined."""
        self._counter += 1
        return super().forward(inputs, states)  # type: ignore[no-any-return]


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """The base of cells that can be hybridized."""

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """One step: (output, new states); to be defined, here or as `hybrid_forward`."""
        if writes_hybrid_forward(self):
            self._counter += 1
            return HybridBlock.forward(self, x, *args)
        raise errors.MXNetNotImplementedError(f"{type(self).__name__} does not define forward()")

    forward.calls_hybrid_forward = True  # type: ignore[attr-defined]

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        # What a step leaves in an attribute (a mask, the last output) has no value outside of a graph of that step.
        if (
            self._active
            and not is_recording()
            and any(type(cell)._carried for cell in _cells(self))
        ):
            return self._run_forward(*args, **kwargs)
        return super()._run(*args, **kwargs)


def of_symbols(inputs: Any) -> bool:
    """Whether a sequence is a symbol, or a list of them."""
    return hasattr(
        inputs[0] if isinstance(inputs, (list, tuple)) and inputs else inputs, "list_arguments"
    )


def of_the_kind_of(like: NDArray, states: list[Any]) -> list[Any]:
    """States as arrays of the inputs' class, which results then have, too."""
    if isinstance(like, ndarray):
        return [s if isinstance(s, ndarray) else s.as_np_ndarray() for s in states]
    return [s.as_nd_ndarray() if isinstance(s, ndarray) else s for s in states]


def made_states(
    infos: list[dict[str, Any]], func: Callable[..., Any], kwargs: dict[str, Any], names: list[str]
) -> list[Any]:
    """An array by ``func`` for each state's shape; ``kwargs`` (device, dtype, ...) count before the cell's own."""
    found = []
    if func is np.zeros and not is_np_array():
        func = nd.zeros
    if getattr(func, "__module__", "").startswith("mxjax.symbol"):
        return [
            func(**{"name": name, **info, **kwargs})
            for name, info in zip(names, infos, strict=True)
        ]
    for info in infos:
        own = {**info, **kwargs}
        wanted: dict[str, Any] = {
            "shape": own.pop("shape", ()),
            "dtype": own.pop("dtype", "float32"),
        }
        device = own.pop("device", own.pop("ctx", None))
        if device is not None:
            wanted["device"] = device
        found.append(func(**wanted))
    return found


def _listed(states: Any) -> list[Any]:
    return [states] if isinstance(states, NDArray) else list(states)


def _next_states(valid: Any, step: int, new: Any, old: list[Any]) -> list[Any]:
    return _listed(new) if valid is None else kept(valid, step, _listed(new), old)


def _cells(block: Block) -> Iterator[RecurrentCell]:
    found: list[Block] = []
    block.apply(found.append)
    return (b for b in found if isinstance(b, RecurrentCell))


def _arrays_held(block: Block) -> Iterator[tuple[tuple[Any, str], Any]]:
    """The arrays in attributes of a block and its children."""
    found: list[Block] = []
    block.apply(found.append)
    for b in found:
        for name, value in vars(b).items():
            if isinstance(value, NDArray):
                yield (b, name), value
