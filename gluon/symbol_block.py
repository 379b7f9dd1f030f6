"""Blocks made of symbols: networks from files of every MXNet."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mxjax import errors, symbol
from mxjax.array.ndarray import NDArray
from mxjax.modes import generation
from mxjax.symbol import infer, types
from mxjax.symbol.node import Node
from mxjax.symbol.run import run

from .hybrid_block import HybridBlock
from .parameter import Parameter

__all__ = ["SymbolBlock"]


class SymbolBlock(HybridBlock):
    """A block that computes a symbol.

    Args:
      outputs: the symbol, or a list of symbols, that it gives.
      inputs: the variables that it is called with, in order.
      params: parameters for the other variables, by name; those that are missing are made, with shapes from the
        first call.

    Raises:
      ValueError: there are parameters that the symbol does not have.
      AssertionError: an input is no variable.

    >>> import mxjax as mx
    >>> x = mx.sym.var("data")
    >>> net = SymbolBlock(mx.sym.FullyConnected(x, num_hidden=4, name="fc"), x)
    >>> net.initialize()
    >>> net(mx.np.ones((2, 3))).shape, list(net.collect_params())
    ((2, 4), ['fc_weight', 'fc_bias'])
    """

    def __init__(self, outputs: Any, inputs: Any, params: Mapping[str, Parameter] | None = None):
        super().__init__()
        self._names.take_no_prefix()
        ins = [inputs] if isinstance(inputs, symbol.Symbol) else list(inputs)
        ins = [one for s in ins for one in (s if len(s) > 1 else [s])]
        for s in ins:
            if len(s) != 1 or not s._entries[0][0].is_variable:
                raise errors.MXNetAssertionError(
                    f"Input symbols must be variable, but {s} is an output of operators"
                )
        self._single = isinstance(outputs, symbol.Symbol) and len(outputs) == 1
        outs = [outputs] if isinstance(outputs, symbol.Symbol) else list(outputs)
        self._symbol = symbol.Group(outs) if len(outs) > 1 else outs[0]
        self._single = self._single or len(self._symbol) == 1
        self._input_names: list[str] = [str(s.name) for s in ins]
        known = {str(s.name): types.declared(s._entries[0][0]) for s in ins}
        self._nodes = self._symbol._nodes()
        self._entries = self._symbol._entries
        names = [*self._symbol.list_arguments(), *self._symbol.list_auxiliary_states()]
        given = dict(params or {})
        strange = [name for name in given if name not in names]
        if (
            strange and generation() != 1
        ):  # which let a part of a network have the parameters of all of it
            raise errors.MXNetValueError(f"{set(strange)} params are unused by the model.")
        states = set(self._symbol.list_auxiliary_states())
        dtypes = types.complete(self._nodes, {k: t for k, t in known.items() if t})
        own: dict[str, Parameter] = {}
        variables = {node.name: node for node in self._nodes if node.is_variable}
        for node in [
            variables[name] for name in names if name not in self._input_names
        ]:  # in MXNet's order
            if node.attrs.get("__storage_type__", "0") != "0":
                raise errors.MXNetAssertionError(
                    f"SymbolBlock doesn't support Parameter {node.name!r} because its storage type is sparse: use a "
                    "dense variable (stype='default')"
                )
            p = given.get(node.name)
            if p is None:
                p = _parameter(node, dtypes[node])
            elif p.shape is None or any(n <= 0 for n in p.shape):
                p.allow_deferred_init = True
            if node.name in states:
                p.grad_req = "null"
            own[node.name] = p
        # MXNet 1 takes what all names begin with off: a network with other names has the same file.
        common = len(os.path.commonprefix(list(own))) if generation() == 1 else 0
        self._keys = {name: name[common:] for name in own}
        self._reg_params.update({self._keys[name]: p for name, p in own.items()})
        self._shapes: dict[Any, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        for name in ("_nodes", "_entries", "_shapes"):  # they are the symbol's
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._nodes, self._entries, self._shapes = self._symbol._nodes(), self._symbol._entries, {}

    @staticmethod
    def imports(
        symbol_file: Any,
        input_names: Any,
        param_file: Any = None,
        device: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        ctx: Any = None,
    ) -> SymbolBlock:
        """A network from the files that `HybridBlock.export` or any MXNet since 0.8 wrote.

        Args:
          symbol_file: the path of `...-symbol.json`.
          input_names: the name of the input, or a list of them.
          param_file: the path of `....params`; without one, `initialize` makes the parameters.
          device: where the parameters go.
          allow_missing, ignore_extra: whether parameters may be missing in the file, or be left over.

        Raises:
          FormatError: a file is damaged.
          OSError: a file cannot be read.
          AssertionError: parameters are missing or left over.
        """
        made = symbol.load(symbol_file)
        names = [input_names] if isinstance(input_names, str) else list(input_names)
        variables = {n.name: n for n in made._variables()}
        strange = [n for n in names if n not in variables]
        if strange:
            raise errors.MXNetValueError(
                f"the symbol has no input {strange[0]!r}{errors.did_you_mean(strange[0], variables)}: it has "
                f"{', '.join(variables)}"
            )
        block = SymbolBlock(made, [symbol.Symbol([(variables[n], 0)]) for n in names])
        if param_file is not None:
            where = device if device is not None else ctx
            block.load_parameters(param_file, where, allow_missing, ignore_extra, True, "saved")
        return block

    def _adopt_names(self, prefix: str, loaded: dict[str, Any]) -> None:
        """Take names that begin otherwise in a file: without what MXNet 1 takes off, or with another network's name."""
        here = [name.removeprefix(prefix) for name in loaded if name.startswith(prefix)]
        if not self._keys or not here or any(key in here for key in self._reg_params):
            return
        own = _ends(self._keys)
        for ends in ({name: name for name in here}, _ends(here)):
            if all(end in ends for end in own):
                for end, name in own.items():
                    loaded[prefix + self._keys[name]] = loaded.pop(prefix + ends[end])
                return

    def __repr__(self) -> str:
        numbers = f"{len(self._input_names)} -> {len(self._symbol)}"
        return f"{type(self).__name__}(\n{self._symbol!r} : {numbers}\n)"

    def infer_shape(self, *args: Any) -> None:
        """Set the parameters' shapes from the inputs'."""
        found = self._inferred(args)
        for node in self._nodes:
            if node.is_variable and node.name in self._keys:
                shape = found.found[node][0]
                if shape is not None and infer.known(shape):
                    self._reg_params[self._keys[node.name]].shape = tuple(n or 0 for n in shape)

    def _inferred(self, args: Any) -> infer.Inference:
        given: dict[str, Any] = {
            n: tuple(a.shape) for n, a in zip(self._input_names, args, strict=False)
        }
        for name, key in self._keys.items():
            p = self._reg_params[key]
            if p.shape is not None:
                given[name] = tuple([None if n <= 0 else n for n in p.shape])
        dtypes = types.complete(
            self._nodes, {n: str(a.dtype) for n, a in zip(self._input_names, args, strict=False)}
        )
        return infer.Inference(self._nodes, given, dtypes)

    def forward(self, *args: Any) -> Any:
        """The symbol's results: an array, or a list of several. Symbols are put in the places of the inputs."""
        leaves = [a for x in args for a in (x if isinstance(x, (list, tuple)) else [x])]
        if len(leaves) != len(self._input_names):
            raise errors.MXNetValueError(
                f"the inputs are {', '.join(self._input_names)}: {len(self._input_names)} arrays, got {len(leaves)}"
            )
        if isinstance(leaves[0], symbol.Symbol):
            made = self._symbol(**dict(zip(self._input_names, leaves, strict=True)))
            return made if self._single else list(made)
        first = leaves[0]
        by_name = dict(zip(self._input_names, leaves, strict=True))
        feed = {
            n: by_name[n.name] if n.name in by_name else self._reg_params[self._keys[n.name]].data(first.device)
            for n in self._nodes if n.is_variable
        }  # fmt: skip
        outs = run(self._entries, feed, self._settled(leaves), cls=type(first), device=first.device)
        return outs[0] if self._single else outs

    def _settled(self, leaves: list[NDArray]) -> Any:
        """The shapes of nodes that make arrays whose lengths the inputs decide."""
        nodes = [n for n in self._nodes if infer.is_open(n)]
        if not nodes:
            return None
        key = tuple([a.shape for a in leaves])
        if key not in self._shapes:
            self._shapes[key] = infer.settled(self._inferred(leaves), nodes)
        return self._shapes[key]

    def cast(self, dtype: Any) -> None:
        """Convert all parameters; statistics of normalization stay float32 beside half precision."""
        super().cast(dtype)
        if np.dtype(dtype).name == "float16":
            for node in self._nodes:
                if node.op is not None and node.op.inference.statistics:
                    for n, _ in node.inputs[1:]:
                        if n.name in self._keys:
                            self._reg_params[self._keys[n.name]].cast("float32")


def _ends(names: Iterable[str]) -> dict[str, str]:
    """Names by what is behind the part that all begin with."""
    names = list(names)
    common = len(os.path.commonprefix(names))
    return {name[common:]: name for name in names}


def _parameter(node: Node, dtype: str) -> Parameter:
    # As in MXNet, what a variable says of rates and initializers (`__lr_mult__`, `__init__`) counts in Module alone.
    shape = infer.declared_shape(node)
    return Parameter(
        node.name, shape=None if shape is None else tuple([-1 if n is None else n for n in shape]),
        dtype=dtype if dtype == "bfloat16" else np.dtype(dtype).type,
        allow_deferred_init=True,
    )  # fmt: skip
