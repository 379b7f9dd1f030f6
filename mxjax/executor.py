"""Executors: symbols bound to arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import autograd, errors, settings
from .array.classes import NDArray
from .array.creation import nd_array
from .array.handle import ZEROS, assign, set_all
from .array.ndarray import head_gradient
from .array.sparse import taped_value, wrap
from .core import Leaf, Places, Value, gradients, record1
from .device import Device, current_device
from .display.reprs import Shown
from .modes import generation
from .scopes import scope
from .symbol import infer
from .symbol.bound import by_name, ends_alone, keys_of, no_duplicates, places_of, request_of, zeros
from .symbol.cached import CachedOp
from .symbol.monitored import Listener
from .symbol.node import Node, states_of, walk
from .symbol.run import Taking, Watch, is_custom, run

__all__ = ["Executor"]

#: A value of the tape (dense, or sparse), the argument that it is, and where its gradient arrives.
Mark = tuple[Any, str, Leaf]


class Executor(Shown):
    """A symbol with the arrays of its variables: runs forward, and backward into gradient arrays.

    Args:
      sym: the symbol.
      device: where it runs; arrays that lie elsewhere are copied there.
      args: the arguments' arrays, a list in the order of ``list_arguments`` or a dictionary. They are used, not copied.
      args_grad: arrays that gradients are stored in, in the same form; None for no gradient.
      grad_req: ``'write'``, ``'add'``, ``'null'``, or a list or dictionary of these.
      aux_states: the auxiliary states' arrays.
      group2ctx: where the nodes run whose attribute ``ctx_group`` is a key of it; the symbol then runs node by node.

    Raises:
      ValueError: no array is given for an argument or a state (those of a dictionary may come with `forward`, in
        MXNet 2), or lists have other lengths.

    One compiled program serves each signature; forward, backward and what updates the arguments run as one where
    nobody looks at numbers in between.

    >>> import mxjax as mx
    >>> x = mx.sym.var("x")
    >>> run = (x * x).bind(mx.cpu(), {"x": mx.nd.array([3.0])}, {"x": mx.nd.zeros((1,))})
    >>> run.forward(is_train=True)[0].asscalar()
    np.float32(9.0)
    >>> run.backward(mx.nd.ones((1,))); run.grad_dict["x"].asscalar()
    np.float32(6.0)
    """

    def _shown(self) -> dict[Any, Any]:
        return {0: self._symbol, "arguments": dict(self.arg_dict), "device": self._device}

    def __init__(
        self,
        sym: Any,
        device: Any,
        args: Any,
        args_grad: Any = None,
        grad_req: Any = "write",
        aux_states: Any = None,
        static_alloc: bool = False,
        group2ctx: Mapping[str, Device] | None = None,
    ):
        self._symbol = sym
        self._device: Device = current_device() if device is None else device
        self._grad_req = grad_req
        self._group2ctx = group2ctx
        self._places = places_of(sym, self._device, group2ctx)
        self._variables: list[Node] = sym._variables()
        keys = keys_of(self._variables, isinstance(args, (list, tuple)))
        self._homes = {keys[n]: self._places[n] for n in self._variables} if self._places else {}
        self._input_names = list(keys.values())
        states = states_of(walk(sym._entries))
        self._arg_names: list[str] = [k for n, k in keys.items() if n not in states]
        self._aux_names: list[str] = [k for n, k in keys.items() if n in states]
        self._output_names: list[str] = sym.list_outputs()
        self._arrays: dict[str, Any] = dict.fromkeys(self._input_names)
        self._arrays.update(self._placed(args, self._arg_names, "args"))
        self._arrays.update(self._placed(aux_states, self._aux_names, "aux_states"))
        self._check_given()
        self._args_grad = args_grad
        self._grads = {
            n: g
            for n, g in by_name(args_grad, self._arg_names, "args_grad").items()
            if g is not None
        }
        self._requests = {n: request_of(grad_req, n, self._arg_names) for n in self._arg_names}
        self._alone: dict[int, bool] = {}  # by result, whether it needs no gradient (MXNet 1)
        self._outputs: list[NDArray] = []
        self._promised: list[
            NDArray
        ] = []  # what somebody was given who asked for results before there were any
        self._results: list[Any] = []
        self._op = CachedOp(sym, operators=Places(alone=True))
        self._in_python = any(is_custom(n) for n in walk(sym._entries))
        self._casts = any(_casts(n) for n in walk(sym._entries))
        off = settings.variable("MXNET_ELIMINATE_COMMON_EXPR") in (
            "0",
            "false",
        )  # which may change as programs run
        self._merges = not off and settings.get("compiler.passes").get("cse") is not False
        self._shapes: dict[Any, Any] = {}
        self._listener: Listener | None = None
        self._marks: list[Mark] = []  # what the last forward computed gradients from
        self._again = True  # the next backward needs another forward
        self._training = False

    def _placed(self, given: Any, names: Sequence[str], what: str) -> dict[str, Any]:
        found = {}
        for name, array in by_name(given, names, what).items():
            if array is None:
                continue
            if not isinstance(array, NDArray):
                raise errors.MXNetTypeError(
                    f"{what}: {name!r} must be an NDArray, got {type(array).__name__}"
                )
            home = self._homes.get(name, self._device)
            found[name] = array if array.device == home else array.as_in_context(home)
        return found

    def _check_given(self) -> None:
        if generation() == 1:  # which has no way to hand them over later
            missing = [n for n, a in self._arrays.items() if a is None]
            if missing:
                raise errors.MXNetValueError(
                    f"key {missing[0]!r} is missing in args or aux_states: an NDArray for it"
                )

    # ---- running -------------------------------------------------------------------------------------

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """The results; ``kwargs`` are new numbers for arguments, by name.

        Raises:
          TypeError: an argument is no array, or there is none of the name.
          ValueError: its shape is another.
        """
        for name, array in kwargs.items():
            self._feed(name, array)
        missing = [n for n, a in self._arrays.items() if a is None]
        if missing:
            raise errors.MXNetValueError(
                f"no array is bound to {', '.join(missing)}: give args a NDArray for each argument"
            )
        arrays = list(self._arrays.values())
        self._training = bool(is_train)
        taped = bool(is_train) and bool(self._grads)
        made = self._run(arrays, taped)
        # A result that is written to before the backward pass is no other to it.
        self._results = [taped_value(out) for out in made] if taped else []
        self._deliver(made)
        return self._outputs

    def _deliver(self, made: list[NDArray]) -> None:
        """Show new results: in MXNet 1 by the arrays that were shown before, which users keep and read again."""
        if generation() != 1:
            for promised, out in zip(self._promised, made, strict=False):
                promised._assign(out.detach()._value())
            self._outputs = made
            return
        shown = self._outputs or self._promised or made
        kept = [old if _takes(old, new) else new for old, new in zip(shown, made, strict=True)]
        again = [(old, new) for old, new in zip(kept, made, strict=True) if old is not new]
        set_all([old for old, _ in again], "_v", [new._value() for _, new in again])
        self._outputs = kept

    def _feed(self, name: str, array: Any) -> None:
        if name not in self._arrays:
            if generation() == 1:
                raise errors.MXNetTypeError(
                    f"Unknown argument {name}{errors.did_you_mean(name, self._arg_names)}; the symbol has "
                    f"{', '.join(self._arg_names)}"
                )
            return  # as in MXNet 2, where data that nobody takes may be handed over
        target = self._arrays[name]
        if not isinstance(array, NDArray):
            array = nd_array(array, dtype=getattr(array, "dtype", None))
        if target is None:
            self._arrays[name] = array.as_in_context(self._homes.get(name, self._device)).copy()
        elif target.shape != array.shape:
            raise errors.MXNetValueError(
                f"Shape not match! Argument {name}, need: {target.shape}, received: {array.shape}"
            )
        else:
            target[:] = array

    def _run(self, arrays: Sequence[NDArray], taped: bool) -> list[NDArray]:
        shapes = self._settled(arrays)
        self._again = not taped
        # Held until backward: afterwards nobody but the arrays has their values, so that an update may overwrite them.
        self._marks = self._variables_of_tape() if taped else []
        # Sparse arrays, and gradients that are to be sparse, are for calls one by one: a program's arrays are dense.
        stored = self._casts or any(
            a.stype != "default" for a in (*arrays, *(self._grads.values() if taped else ()))
        )
        # Arrays without a gradient here may be variables of the user's.
        others: list[Any] = [
            (taped_value(self._arrays[n]), n, None)
            for n in self._arg_names
            if taped and self._requests[n] == "null"
        ]
        with _marked([*others, *self._marks]), autograd._Scope(taped, self._training):
            if self._listener is not None or stored or self._places:
                feed = dict(zip(self._variables, arrays, strict=True))
                return run(
                    self._symbol._entries, feed, shapes, *self._heard(taped), device=self._device,
                    places=self._places, operators=self._op.operators,
                )  # fmt: skip
            return self._op.run(arrays, shapes, device=self._device)

    def _variables_of_tape(self) -> list[Mark]:
        """The values that gradients are wanted of, with their names and leaves; one array has one leaf."""
        leaves: dict[int, Leaf] = {}
        marks = []
        for name in self._arg_names:
            if self._requests[name] != "null" and (name in self._grads or self._args_grad is None):
                v = taped_value(self._arrays[name])
                grad = self._grads.get(name)
                leaf = Leaf(
                    self._requests[name], _nowhere, "default" if grad is None else grad.stype, grad
                )
                marks.append((v, name, leaves.setdefault(id(v), leaf)))
        return marks

    def _settled(self, arrays: Sequence[NDArray]) -> dict[Node, tuple[int, ...]] | None:
        """The shapes of nodes whose attribute leaves lengths open."""
        key = tuple([a.shape for a in arrays])
        if key not in self._shapes:
            nodes = walk(self._symbol._entries)
            open_nodes = [n for n in nodes if infer.is_open(n)]
            found = None
            if open_nodes:
                given = dict(zip(self._input_names, key, strict=True))
                known = infer.Inference(nodes, given)
                found = infer.settled(known, open_nodes)
            self._shapes[key] = found
        return self._shapes[key]  # type: ignore[no-any-return]

    def _heard(self, taped: bool) -> tuple[Watch | None, Taking | None]:
        """What is called after each node, and before it: gradients at nodes are heard of in MXNet 1."""
        listener = self._listener
        if listener is None:
            return None, None
        listener.begin()
        if not taped or generation() != 1:
            return listener.hear, None
        apart = {name for name, grad in self._grads.items() if grad.stype != "default"}
        return listener.hear, lambda node, taken: listener.add_zeros(node, taken, apart)

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Gradients of the results, weighted by ``out_grads`` (ones, where it is None), into the gradient arrays."""
        if not self._grads or not any(r != "null" for r in self._requests.values()):
            return
        if not self._outputs or self._again:
            self.forward(self._training) if not self._outputs else None
            results = self._run(list(self._arrays.values()), taped=True)
            self._deliver(results)
            self._results = [taped_value(out) for out in results]
        heads, grads = self._heads(out_grads)
        marks = self._marks
        if not self._in_python:  # else another pass must not run the user's forward again
            self._again, self._marks = True, []
        totals: set[Leaf] = set()
        with _marked(marks), autograd._Scope(None, is_train):
            found = gradients(heads, grads, retain=self._in_python, totals=totals)
        if self._listener is not None:
            self._listener.hear_gradients(found)
        new: dict[
            NDArray, Value
        ] = {}  # stored together: what is interrupted has stored none or all
        for _, name, leaf in marks:
            target, made = self._grads.get(name), found.get(leaf)
            if target is None or (made is None and self._requests[name] == "add"):
                continue
            if target.stype != "default" and made is not None:
                target._receive(made, self._requests[name])
                continue
            if made is None:
                new[target] = record1(ZEROS, target._value())
            elif self._requests[name] == "add" and leaf not in totals:
                before = wrap(new[target]) if target in new else target
                new[target] = (before + wrap(made).tostype("default"))._value()
            else:
                new[target] = made
        assign(list(new), list(new.values()))

    def _heads(self, out_grads: Any) -> tuple[list[Value], list[Value | None]]:
        if isinstance(out_grads, Mapping):
            out_grads = [out_grads.get(n) for n in self._output_names]
        given = [None] * len(self._outputs) if out_grads is None else out_grads
        given = list(given) if isinstance(given, (list, tuple)) else [given]
        if len(given) != len(self._outputs):
            count = len(self._outputs)
            raise errors.MXNetAssertionError(
                f"{count} results, got {len(given)} gradients of them (out_grads)"
            )
        heads: list[Value] = []
        grads: list[Value | None] = []
        results = self._results or [taped_value(out) for out in self._outputs]
        if not self._in_python:
            self._results = []
        for k, (out, value, grad) in enumerate(zip(self._outputs, results, given, strict=True)):
            if value.tape is None:
                continue  # a result that depends on no argument with a gradient
            if grad is None and generation() == 1:
                self._must_end_alone(k)
            heads.append(value)
            if grad is None and out.stype != "default":
                grad = NDArray._wrap(value.dense()).ones_like()  # type: ignore[attr-defined]
            if grad is not None and grad.device != out.device:
                grad = grad.as_in_context(out.device)
            grads.append(None if grad is None else head_gradient(value, grad))
        if not heads:
            raise errors.MXNetError("no result depends on an argument that has a gradient")
        return heads, grads

    def _must_end_alone(self, k: int) -> None:
        """MXNet 1 makes up no gradient for a result that is no loss; MXNet 2 takes ones."""
        alone = self._alone.get(k)
        if alone is None:  # asked once: it makes the descriptions of the user's operators
            keys = dict(zip(self._variables, self._input_names, strict=True))
            alone = self._alone[k] = ends_alone(
                self._symbol._entries[k], lambda n: self._requests.get(keys[n], "null") != "null"
            )
        if not alone:
            raise errors.MXNetError(
                f"the result {self._output_names[k]!r} is no loss: backward(out_grads=...) needs its gradient "
                f"(mx.nd.ones({self._outputs[k].shape}) for its sum)"
            )

    # ---- arrays ---------------------------------------------------------------------------------------

    # The names that MXNet keeps these by.
    _arg_dict = property(lambda self: self.arg_dict)
    _grad_dict = property(lambda self: self.grad_dict)
    _aux_dict = property(lambda self: self.aux_dict)
    _ctx = property(lambda self: self._device)

    @property
    def arg_dict(self) -> dict[str, NDArray]:
        """The arguments by name."""
        no_duplicates(self._arg_names)
        return {n: self._arrays[n] for n in self._arg_names}

    @property
    def arg_arrays(self) -> list[NDArray]:
        """The arguments in order."""
        return [self._arrays[n] for n in self._arg_names]

    @property
    def aux_dict(self) -> dict[str, NDArray]:
        """The auxiliary states by name."""
        return {n: self._arrays[n] for n in self._aux_names}

    @property
    def aux_arrays(self) -> list[NDArray]:
        """The auxiliary states in order."""
        return [self._arrays[n] for n in self._aux_names]

    @property
    def grad_dict(self) -> dict[str, NDArray | None]:
        """The gradients by name; None where there is none."""
        no_duplicates(self._arg_names)
        return {n: self._grads.get(n) for n in self._arg_names}

    @property
    def grad_arrays(self) -> list[NDArray | None]:
        """The gradients in the order of the arguments."""
        return [self._grads.get(n) for n in self._arg_names]

    @property
    def outputs(self) -> list[NDArray]:
        """The results of the last `forward`; before the first one zeros, which will get each one's numbers."""
        if self._outputs or self._promised or any(a is None for a in self._arrays.values()):
            return self._outputs or self._promised
        shapes = self._symbol.infer_shape_partial(
            **{n: self._arrays[n].shape for n in self._arg_names}
        )[1]
        dtypes = self._symbol.infer_type_partial(
            **{n: self._arrays[n].dtype for n in self._arg_names}
        )[1]
        if all(shape is not None and infer.known(shape) for shape in shapes):
            self._promised = [
                zeros(shape, "float32" if dtype is None else dtype, self._device)
                for shape, dtype in zip(shapes, dtypes, strict=True)
            ]
        return self._promised

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """The results by name."""
        return dict(zip(self._output_names, self.outputs, strict=False))

    def copy_params_from(
        self,
        arg_params: Mapping[str, Any],
        aux_params: Mapping[str, Any] | None = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Take numbers over by name, converted to the arrays' dtypes.

        Raises:
          ValueError: a name that there is not, unless ``allow_extra_params``.
        """
        for given, mine, what in (
            (arg_params, self.arg_dict, "arguments"), (aux_params or {}, self.aux_dict, "auxiliary states"),
        ):  # fmt: skip
            for name, array in given.items():
                if name in mine:
                    if tuple(array.shape) != mine[name].shape:
                        raise errors.MXNetValueError(
                            f"{name}: Incompatible shapes, the executor was bound with {mine[name].shape}, got "
                            f"{tuple(array.shape)}"
                        )
                    array.astype(mine[name].dtype).copyto(mine[name])
                elif not allow_extra_params:
                    raise errors.MXNetValueError(
                        f'Find name "{name}" that is not in the {what}{errors.did_you_mean(name, mine)}; these are '
                        f"{', '.join(mine)}; allow_extra_params=True leaves others out"
                    )

    def reshape(
        self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Any
    ) -> Executor:
        """An executor for arguments of other shapes, whose arrays share memory with this one's.

        They are its first numbers; an array that is to be larger is a new one, of zeros.

        Raises:
          AssertionError: an array's shape changes that is not among ``kwargs``, unless ``partial_shaping``; or it is
            larger than the one there is, unless ``allow_up_sizing``.
        """
        shapes, _, states = self._symbol.infer_shape(**kwargs)
        if shapes is None:
            raise errors.MXNetValueError("Insufficient argument shapes provided.")
        arrays: dict[str, Any] = {}
        grads: dict[str, Any] = {}
        for name, shape in zip(
            [*self._arg_names, *self._aux_names], [*shapes, *states], strict=True
        ):
            old = self._arrays[name]
            if old.shape == shape:
                arrays[name] = old
                if name in self._grads:
                    grads[name] = self._grads[name]
                continue
            if not partial_shaping and name not in kwargs:
                raise errors.MXNetAssertionError(
                    f"Shape of unspecified array arg:{name} changed. This can cause the new executor to not share "
                    "parameters with the old one. Please check for error in network. If this is intended, set "
                    "partial_shaping=True to suppress this warning."
                )
            if not allow_up_sizing and _size(shape) > old.size:
                raise errors.MXNetAssertionError(
                    f"New shape of arg: {name} is larger than original: {shape} for {old.shape}. Make the largest "
                    "executor first and reshape it to smaller ones, or set allow_up_sizing=True for new arrays."
                )
            arrays[name] = _first(old, shape)
            if name in self._grads:
                grads[name] = _first(self._grads[name], shape)
        own = {n: a for n, a in arrays.items() if n in self._arg_names}
        states_of = {n: arrays[n] for n in self._aux_names}
        return Executor(
            self._symbol,
            self._device,
            own,
            grads,
            self._requests,
            states_of,
            group2ctx=self._group2ctx,
        )

    def set_monitor_callback(
        self, callback: Callable[[Any, NDArray], None], monitor_all: bool = False
    ) -> None:
        """Call ``callback(name, array)`` with each node's results in each forward; the symbol then runs node by node.

        ``monitor_all``: also with the arrays that nodes take. In MXNet 1.9 the names are bytes, and `backward` calls it
        with the gradients of what nodes take (``fc1_backward_output0``).
        """
        self._listener = Listener(callback, monitor_all)

    def get_optimized_symbol(self) -> Any:
        """The symbol as it is run: equal parts once, unless compiler.passes left `cse` out when it was bound."""
        return self._op.get_optimized_symbol() if self._merges else self._symbol

    def debug_str(self) -> str:
        """The graph, and how many bytes the arrays take."""
        arrays = [a for a in (*self._arrays.values(), *self._grads.values()) if a is not None]
        size = sum(a.size * np.dtype(a.dtype).itemsize for a in arrays)
        return f"{self._symbol.debug_str()}Total {size / 2**20:.4f} MB of arguments, states and gradients\n"


@scope
def _marked(marks: Sequence[Mark]) -> Iterator[None]:
    """These values as variables of the tape, for the while."""
    values, leaves = [v for v, _, _ in marks], [leaf for _, _, leaf in marks]
    before = [v.tape for v in values]
    try:
        set_all(values, "tape", leaves)
        yield
        set_all(values, "tape", before)
    except BaseException:
        set_all(values, "tape", before)
        raise


def _casts(node: Node) -> bool:
    """Whether a node makes a sparse array of what may be dense ones."""
    return any(
        node.params.get(name) not in (None, "default") for name in ("stype", "forward_stype")
    )


def _nowhere(gradient: Value) -> None:
    """The executor stores gradients itself."""


def _first(old: Any, shape: tuple[int, ...]) -> Any:
    """The first numbers of an array in another shape, in its memory; zeros where it has not so many."""
    n = _size(shape)
    if old is None or old.stype != "default" or not 0 < n <= old.size:
        return None if old is None else zeros(shape, old.dtype, old.device)
    return old.as_nd_ndarray().reshape(-1)[:n].reshape(shape)


def _size(shape: Sequence[int]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


def _takes(old: NDArray, new: NDArray) -> bool:
    """Whether an array that showed a result can show the next one: not where a user made it a variable."""
    dense = old.stype == new.stype == "default"
    return dense and old._var is None and old.shape == new.shape and old.dtype == new.dtype
