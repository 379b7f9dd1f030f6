"""Symbols and networks with casts in them, for inference in mixed precision."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from mxjax.device import current_device
from mxjax.errors import MXNetAssertionError, MXNetError
from mxjax.ops.table import TABLE
from mxjax.symbol import Symbol
from mxjax.symbol.node import Entry, Node, states_of, walk

from . import operators
from .amp import target

__all__ = ["convert_bucketing_module", "convert_hybrid_block", "convert_model", "convert_symbol"]

_CODES = {"float32": "0", "float16": "2", "bfloat16": "12"}
_DTYPES = {code: name for name, code in _CODES.items()}


def convert_symbol(
    sym: Any, target_dtype: str = "float16", target_dtype_ops: list[str] | None = None,
    fp32_ops: list[str] | None = None, conditional_fp32_ops: operators.Conditions | None = None,
    excluded_sym_names: list[str] | None = None, data_names: list[str] | None = None,
    cast_optional_params: bool = False,
) -> Any:  # fmt: skip
    """The symbol with casts (`amp_cast`) where precision changes; its variables are taken for float32.

    Args:
      sym: the symbol.
      target_dtype: ``'float16'`` or ``'bfloat16'``.
      target_dtype_ops, fp32_ops, conditional_fp32_ops: registry names in place of the lists of `amp`.
      excluded_sym_names: calls that compute in float32 whatever the lists say.
      data_names: the variables that are no parameters; by default all whose dtype is not declared.
      cast_optional_params: let parameters that are only used in low precision be stored in it, without a cast.

    Returns:
      Symbol: with casts where they are needed; its results are cast back to float32.

    Raises:
      AssertionError: it is no symbol, another dtype, or a list is none.
      MXNetError: a list names an operator that there is not.
      ValueError: an operator is on two lists.

    >>> import mxjax as mx
    >>> net = mx.sym.exp(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc"))
    >>> [n for n in convert_symbol(net).get_internals().list_outputs() if "cast" in n][-1]
    'fc_output_amp_cast_float32_output'
    """
    if not isinstance(sym, Symbol):
        raise MXNetAssertionError(
            f"First argument to convert_symbol should be Symbol, got {type(sym).__name__}"
        )
    low = target(target_dtype)
    lists = {
        "target_dtype_ops": target_dtype_ops, "fp32_ops": fp32_ops, "conditional_fp32_ops": conditional_fp32_ops,
        "excluded_sym_names": excluded_sym_names,
    }  # fmt: skip
    for name, given in lists.items():
        if given is not None and not isinstance(given, list):
            raise MXNetAssertionError(f"{name} should be a list, got {type(given).__name__}")
    words = operators.words(operators.lists(target_dtype_ops, fp32_ops, conditional_fp32_ops))
    known = set(sym.list_inputs())
    if data_names is None:
        attrs = sym.attr_dict()
        data_names = [n for n in known if "__dtype__" not in attrs.get(n, {})]
    return _Converter(
        low, words, excluded_sym_names or (), known - set(data_names), cast_optional_params
    ).run(sym)


class _Converter:
    """One conversion: the new nodes, the dtype of each of their results, and the casts that there are."""

    def __init__(
        self, low: str, words: Any, excluded: Sequence[str], params: set[str], optional: bool
    ):
        self.low = low
        self.words = words
        self.excluded = set(excluded)
        self.params = params
        self.optional = optional
        self.made: dict[Node, Node] = {}
        self.dtypes: dict[Entry, str] = {}
        self.casts: dict[tuple[Entry, str], Entry] = {}
        # The calls whose results are float32 whatever the variables are.
        self.sure: set[Node] = set()

    def run(self, sym: Any) -> Any:
        nodes = walk(sym._entries)
        states = states_of(nodes)
        stored = self._stored(nodes, states) if self.optional else set()
        for node in nodes:
            if node.is_variable:
                made = node.on(())
                dtype = self.low if node in stored else "float32"
                if node.name in self.params:
                    made.attrs["__dtype__"] = _CODES[dtype]
                self.made[node], self.dtypes[made, 0] = made, dtype
            else:
                self._convert(node)
        return sym._of([self._head(n, k) for n, k in sym._entries])

    def _head(self, node: Node, k: int) -> Entry:
        """A result of the symbol: MXNet casts it to float32 where it is not sure to be that."""
        entry = self.made[node], k
        return entry if entry[0] in self.sure else self._made_cast(entry, "float32")

    def _word(self, node: Node) -> str | None:
        if node.name in self.excluded:
            return "full"
        word, condition = self.words.get(node.op, (None, None))
        if condition is not None and node.op is not None:
            name, values = condition
            if node.params.get(name, node.op.attr_defaults.get(name)) not in values:
                return None
        return word

    def _stored(self, nodes: Sequence[Node], states: Mapping[Node, None]) -> set[Node]:
        """The parameters that are used in low precision only."""
        users: dict[Node, list[str | None]] = {}
        for node in nodes:
            for child, _ in node.inputs:
                users.setdefault(child, []).append(self._word(node))
        return {
            n for n, words in users.items()
            if n.is_variable and n.name in self.params and n not in states and all(w == "low" for w in words)
        }  # fmt: skip

    def _convert(self, node: Node) -> None:
        inputs = [(self.made[n], k) for n, k in node.inputs]
        kept = set(node.aux())
        word = self._word(node)
        given = [self.dtypes[e] for e in inputs]
        if word == "low":
            wanted = self.low
        elif word == "full" or (word == "widest" and len(set(given)) > 1):
            wanted = "float32"
        else:
            wanted = ""
        if wanted:
            inputs = [e if k in kept else self._cast(e, wanted) for k, e in enumerate(inputs)]
        made = self.made[node] = node.on(inputs)
        sure = [n in self.sure for n, _ in inputs]
        if wanted == "float32" or (word == "widest" and any(sure)) or (not word and any(sure[:1])):
            self.sure.add(made)
        own = node.params.get("dtype") if node.operator in ("Cast", "amp_cast") else None
        dtype = str(own) if own else wanted or (given[0] if given else "float32")
        for k in range(node.count()):
            self.dtypes[made, k] = dtype

    def _cast(self, entry: Entry, dtype: str) -> Entry:
        if self.dtypes[entry] == dtype or self.dtypes[entry] not in (self.low, "float32"):
            return entry
        return self._made_cast(entry, dtype)

    def _made_cast(self, entry: Entry, dtype: str) -> Entry:
        found = self.casts.get((entry, dtype))
        if found is None:
            node, k = entry
            name = f"{node.outputs()[k]}_amp_cast_{dtype}"
            made = Node(
                name,
                TABLE["amp_cast"],
                {"dtype": dtype},
                inputs=[entry],
                names=["data"],
                is_np=node.is_np,
            )
            found = self.casts[entry, dtype] = made, 0
            self.dtypes[found] = dtype
        return found


def convert_model(
    sym: Any, arg_params: Mapping[str, Any], aux_params: Mapping[str, Any], target_dtype: str = "float16",
    target_dtype_ops: list[str] | None = None, fp32_ops: list[str] | None = None,
    conditional_fp32_ops: operators.Conditions | None = None, excluded_sym_names: list[str] | None = None,
    cast_optional_params: bool = False,
) -> tuple[Any, dict[str, Any], dict[str, Any]]:  # fmt: skip
    """`convert_symbol` of a model, and its parameters in the dtypes that the symbol declares.

    Args:
      sym: the symbol.
      arg_params, aux_params: arrays by name.
      others: as of `convert_symbol`.
      target_dtype: the narrow dtype, "float16" or "bfloat16".
      target_dtype_ops: operators that are computed in the narrow dtype; those of the lists without.
      fp32_ops: operators that are computed in float32; those of the lists without.
      conditional_fp32_ops: (operator, attribute, values): float32 where the attribute has one of the values.
      excluded_sym_names: names of nodes that stay as they are.
      cast_optional_params: whether parameters are converted, too, where all that use them are narrow.

    Returns:
      tuple: symbol, arguments, and auxiliary states.

    Raises:
      AssertionError: as `convert_symbol`; or the parameters are no dictionaries.
    """
    for params, which in ((arg_params, "Second"), (aux_params, "Third")):
        if not isinstance(params, Mapping):
            raise MXNetAssertionError(
                f"{which} argument to convert_model should be a dict of name to ndarray"
            )
    if not isinstance(sym, Symbol):
        raise MXNetAssertionError(
            f"First argument to convert_model should be Symbol, got {type(sym).__name__}"
        )
    data = [n for n in sym.list_inputs() if n not in arg_params and n not in aux_params]
    made = convert_symbol(
        sym, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names, data,
        cast_optional_params,
    )  # fmt: skip
    said = made.attr_dict()

    def cast(params: Mapping[str, Any]) -> dict[str, Any]:
        return {
            n: a.astype(_DTYPES.get(said.get(n, {}).get("__dtype__", "0"), "float32"))
            for n, a in params.items()
        }

    return made, cast(arg_params), dict(aux_params)


def convert_bucketing_module(
    bucketing_mod: Any, target_dtype: str = "float16", target_dtype_ops: list[str] | None = None,
    fp32_ops: list[str] | None = None, conditional_fp32_ops: operators.Conditions | None = None,
    excluded_sym_names: list[str] | None = None, cast_optional_params: bool = False,
) -> Any:  # fmt: skip
    """`convert_model` of each bucket of a `BucketingModule`: a new one, to be bound.

    Args:
      bucketing_mod: the module, with parameters.
      others: as of `convert_symbol`.
      target_dtype: the narrow dtype, "float16" or "bfloat16".
      target_dtype_ops: operators that are computed in the narrow dtype; those of the lists without.
      fp32_ops: operators that are computed in float32; those of the lists without.
      conditional_fp32_ops: (operator, attribute, values): float32 where the attribute has one of the values.
      excluded_sym_names: names of nodes that stay as they are.
      cast_optional_params: whether parameters are converted, too, where all that use them are narrow.

    Returns:
      BucketingModule: the new module.

    Raises:
      AssertionError: as `convert_model`; or it is another module, has no buckets or no parameters.
    """
    from mxjax.module import BucketingModule

    for holds, what in (
        (
            isinstance(bucketing_mod, BucketingModule),
            "module should be instance of bucketing module",
        ),
        (getattr(bucketing_mod, "_buckets", None), "Bucketing Module should not be empty"),
        (
            getattr(bucketing_mod, "params_initialized", False),
            "bucketing_mod params should be initialized for mixed precision conversion",
        ),
    ):
        if not holds:
            raise MXNetAssertionError(what)
    arg_params, aux_params = bucketing_mod.get_params()
    symbols = {}
    for key, each in bucketing_mod._buckets.items():
        symbols[key], *params = convert_model(
            each.symbol, arg_params, aux_params, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops,
            excluded_sym_names, cast_optional_params,
        )  # fmt: skip
    return BucketingModule.load_dict(
        symbols,
        bucketing_mod._sym_gen,
        bucketing_mod._default_bucket_key,
        *params,
        **bucketing_mod._options,
    )


def convert_hybrid_block(
    block: Any, target_dtype: str = "float16", target_dtype_ops: list[str] | None = None,
    fp32_ops: list[str] | None = None, conditional_fp32_ops: operators.Conditions | None = None,
    excluded_sym_names: list[str] | None = None, device: Any = None, cast_optional_params: bool = False,
    ctx: Any = None,
) -> Any:  # fmt: skip
    """A block that computes what a hybridized block does in mixed precision, for inference.

    Args:
      block: a hybridized block that has been called.
      device: where its parameters go; by default where the block's are.
      others: as of `convert_symbol`.
      target_dtype: the narrow dtype, "float16" or "bfloat16".
      target_dtype_ops: operators that are computed in the narrow dtype; those of the lists without.
      fp32_ops: operators that are computed in float32; those of the lists without.
      conditional_fp32_ops: (operator, attribute, values): float32 where the attribute has one of the values.
      excluded_sym_names: names of nodes that stay as they are.
      cast_optional_params: whether parameters are converted, too, where all that use them are narrow.
      ctx: MXNet 1's name of `device`.

    Returns:
      HybridBlock: the new block.

    Raises:
      AssertionError: it is no HybridBlock.
      RuntimeError: it has no graph yet.
    """
    gluon = importlib.import_module("mxjax.gluon")
    exporting = importlib.import_module("mxjax.gluon.files.exporting")
    if not isinstance(block, gluon.HybridBlock):
        raise MXNetAssertionError(
            f"block input should be a HybridBlock, got {type(block).__name__}"
        )
    try:
        sym, marked = block.export(None)
    except MXNetError as error:
        if block._graphs:
            raise
        raise NoGraph(
            "Please first call block.hybridize() and then run forward with this block at least once before "
            "convert_hybrid_block"
        ) from error
    args = {name.partition(":")[2]: a for name, a in marked.items() if name.startswith("arg:")}
    aux = {name.partition(":")[2]: a for name, a in marked.items() if name.startswith("aux:")}
    sym, args, aux = convert_model(
        sym, args, aux, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names,
        cast_optional_params,
    )  # fmt: skip
    made = gluon.SymbolBlock(sym, [sym._variable(n) for n in exporting.input_names(block)])
    held = next(iter(block.collect_params().values()), None)
    where = device or ctx or (current_device() if held is None else held.list_device())
    made.load_dict({**args, **aux}, where, cast_dtype=True, dtype_source="saved")
    return made


class NoGraph(MXNetError, RuntimeError):
    """A block was to be converted that has not been recorded."""
