"""Networks as files: the symbol and the parameters that MXNet reads, or StableHLO."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from mxjax import errors, nd, serialization, util
from mxjax.array.classes import NDArray
from mxjax.array.creation import array
from mxjax.core import Value, compiler
from mxjax.files import atomic
from mxjax.modes import generation

if TYPE_CHECKING:
    from ..graphs.cached_graph import CachedGraph
    from ..hybrid_block import HybridBlock


def export(block: HybridBlock, path: Any, epoch: int, remove_amp_cast: bool, format: str) -> Any:  # noqa: A002
    """What `HybridBlock.export` does."""
    if format == "stablehlo":
        return _stablehlo(block, _last(block), path)
    if format != "symbol":
        raise errors.MXNetValueError(
            f"format={format!r}: 'symbol' (MXNet's files) or 'stablehlo' is expected"
        )
    opened = block._opened
    if opened is not None and opened.args is not None and not block._graphs:
        symbol, arrays = _symbol_of_run(block, opened.args)
    elif (written := _as_it_came(block)) is not None:
        symbol, arrays = written
    else:
        symbol, arrays = _symbol_of_last(block, _last(block))
    states = set(symbol.list_auxiliary_states())
    marked = {f"{'aux' if name in states else 'arg'}:{name}": a for name, a in arrays.items()}
    if path is None:
        return symbol, marked
    symbol_file, params_file = f"{path}-symbol.json", f"{path}-{epoch:04d}.params"
    symbol.save(symbol_file, remove_amp_cast=remove_amp_cast)
    if util.is_np_array():
        serialization.save_parameters(params_file, marked)
    else:
        nd.save(params_file, {name: a.as_nd_ndarray() for name, a in marked.items()})
    if generation() == 1:
        return None  # the names of the files came with MXNet 2
    return symbol_file, params_file if marked else None  # there is a file in any case, as in MXNet


def _as_it_came(block: Any) -> tuple[Any, dict[str, Any]] | None:
    """The symbol of a SymbolBlock that has not run, and its arrays; None for others, or where one has no array yet."""
    symbol = getattr(block, "_symbol", None)
    if block._graphs or symbol is None:
        return None
    params = {name: block._reg_params[key] for name, key in block._keys.items()}
    if any(p._arrays is None for p in params.values()):
        return None
    arrays = {name: p._reduce() for name, p in params.items()}
    return symbol, {name: array(a.asnumpy(), dtype=a.dtype) for name, a in arrays.items()}


def _symbol_of_last(block: HybridBlock, recorded: CachedGraph) -> tuple[Any, dict[str, Any]]:
    return _composed(block, len(recorded.shapes), recorded.n_outs) or symbol_of(block, recorded)


def symbols_of(block: Any) -> tuple[Any, ...]:
    """The inputs and the outputs of the block's last graph, as symbols."""
    from mxjax import symbol

    recorded = _last(block)
    whole = _symbol_of_last(block, recorded)[0]
    return [symbol.var(name) for name in _input_names(len(recorded.shapes))], whole


def _input_names(count: int) -> list[str]:
    return ["data"] if count == 1 else [f"data{k}" for k in range(count)]


def input_names(block: Any) -> list[str]:
    """The names of a block's inputs in the symbol that it is exported as, in the order of the block's arguments: the
    symbol lists them as it reads them, and not at all where it reads none."""
    opened = block._opened
    if block._graphs:
        return _input_names(len(_last(block).shapes))
    if opened is not None and opened.args is not None:
        return _input_names(len(_arrays_of(opened.args)))
    return list(block._input_names)


def _composed(block: HybridBlock, count: int, outputs: int) -> tuple[Any, dict[str, Any]] | None:
    """A network of MXNet 1 as its forward composes it of variables, so that nodes have the names of its layers.

    None where it does not: its forward asks arrays what symbols cannot say.
    """
    from mxjax import symbol

    if generation() != 1 or util.is_np_array():
        return None
    names = _input_names(count)
    try:
        made = block(*map(symbol.var, names))
        whole = symbol.Group(list(made)) if isinstance(made, (list, tuple)) else made
        used = set(whole.list_inputs()) - set(names)
    except (
        errors.MXNetError,
        TypeError,
        ValueError,
        AttributeError,
        LookupError,
        NotImplementedError,
    ):
        return None
    params = {str(p.variable_name): p for p in block.collect_params().values()}
    if (
        len(whole.list_outputs()) != outputs
        or not used <= set(params)
        or any(params[n]._arrays is None for n in used)
    ):
        return None
    for name in params.keys() - used:
        if params[name]._arrays is not None and not params[name]._structure:
            warnings.warn(f'Parameter "{name}" is not found in the graph.', stacklevel=4)
    arrays = {name: params[name]._reduce() for name in params if name in used}
    return whole, {name: array(a.asnumpy(), dtype=a.dtype) for name, a in arrays.items()}


def _last(block: HybridBlock) -> CachedGraph:
    """The graph that the block was recorded as, in prediction where it ran so."""
    if not block._graphs:
        raise errors.MXNetError(
            "Please first call block.hybridize() and then run forward with this block at least once before calling "
            "export. A forward that asks for numbers has no graph: gluon.graphs.breaks.breaks_of(block) says what "
            "stands in the way"
        )
    graphs = list(block._graphs.values())
    return next((g for g in reversed(graphs) if not g.training), graphs[-1])


def _arrays_of(args: tuple[Any, ...]) -> list[NDArray]:
    from ..graphs.cached_graph import flatten

    return [a for a in flatten(args)[0] if isinstance(a, NDArray)]


def _symbol_of_run(block: HybridBlock, args: tuple[Any, ...]) -> tuple[Any, dict[str, Any]]:
    """A network some of whose operators have results as long as the numbers say, as a symbol, and its parameters.

    It is run once, in prediction, by deferred computation.
    """
    from mxjax import autograd
    from mxjax.symbol import attributes, var
    from mxjax.symbol.recorded import symbol_of_run

    from ..graphs.cached_graph import flatten

    inputs = _arrays_of(args)
    names = _input_names(len(inputs))
    params = {
        name: p._reduce() for name, p in block.collect_params().items() if p._arrays is not None
    }
    here = {
        name: p.data(inputs[0].device)
        for name, p in block.collect_params().items()
        if name in params
    }
    shapes = {name: attributes.text(tuple(a.shape)) for name, a in here.items()}
    variables = [var(n) for n in names] + [var(n, attr={"__shape__": shapes[n]}) for n in here]
    with autograd.pause():
        symbol = symbol_of_run(
            lambda: flatten(block._run_forward(*args))[0], [*inputs, *here.values()], variables
        )
    used = set(symbol.list_inputs())
    return symbol, {
        name: array(a.asnumpy(), dtype=a.dtype) for name, a in params.items() if name in used
    }


def symbol_of(block: HybridBlock, recorded: CachedGraph) -> tuple[Any, dict[str, Any]]:
    """A recorded network as a symbol, and its parameters by the symbol's names."""
    from mxjax.symbol import Symbol, attributes
    from mxjax.symbol.node import Node, walk
    from mxjax.symbol.recorded import entries_of

    graph = recorded.call.graph
    count = len(recorded.shapes)
    sources = recorded.sources
    owners = {
        id(a): (name, p)
        for name, p in block.collect_params().items()
        for a in (p._arrays or {}).values()
    }
    nodes = [Node(name) for name in _input_names(count)]
    nodes.append(Node("random_count"))
    arrays: dict[str, Any] = {}
    for k, source in enumerate(sources):
        name, owner = owners.get(id(source), (graph.inputs[count + 1 + k], None))
        while name in arrays:
            name += "_"
        # Said, because not every operator tells a weight's shape from the data's: of a product it may be broadcast.
        shape = (
            {"__shape__": attributes.text(tuple(source.shape))}
            if isinstance(source, NDArray)
            else {}
        )
        nodes.append(Node(name, attrs=shape))
        if isinstance(source, NDArray):
            arrays[name] = source if owner is None else owner._reduce()
        elif source is not recorded.KEY:
            arrays[name] = NDArray._wrap(source)
    entries = entries_of(graph, [(n, 0) for n in nodes], recorded.n_outs)
    used = set(walk(entries))
    for name, p in block.collect_params().items():
        if name not in arrays and p._arrays is not None and not p._structure:
            warnings.warn(f'Parameter "{name}" is not found in the graph.', stacklevel=4)
    kept = {n.name: arrays[n.name] for n in nodes if n in used and n.name in arrays}
    return Symbol(entries), {name: array(a.asnumpy(), dtype=a.dtype) for name, a in kept.items()}


def _stablehlo(block: HybridBlock, recorded: CachedGraph, path: Any) -> Any:
    """The network for cpu, cuda and tpu at once, with its parameters, by `jax.export`, for any number of samples."""
    import jax
    from jax import export as jax_export

    errors.optional_import("flatbuffers", "export")

    graph = recorded.call.graph
    if recorded.training:
        raise errors.MXNetValueError(
            "the block has run in training only: StableHLO is the network in prediction. Call it once outside "
            "autograd.record() before export"
        )
    weights = [np.asarray(_numbers(s)) for s in recorded.sources]
    scalars = list(graph.scalars)

    def predict(*inputs: Any) -> Any:
        outs = graph.run(*inputs, np.int64(0), *map(jax.numpy.asarray, weights), *scalars)
        return outs[: recorded.n_outs]

    avals = graph.avals[: len(recorded.shapes)]
    with (
        jax.enable_x64(True),
        compiler.for_platform("tpu"),
    ):  # whose lowerings are plain, good on every platform
        (batch,) = jax_export.symbolic_shape("batch")
        open_shapes = [
            jax.ShapeDtypeStruct((batch, *a.shape[1:]) if a.shape else (), a.dtype) for a in avals
        ]
        platforms = ("cpu", "cuda", "tpu")
        try:
            made = jax_export.export(jax.jit(predict), platforms=platforms)(*open_shapes)
        except Exception:  # a network in which the number of samples is part of a shape
            made = jax_export.export(jax.jit(predict), platforms=platforms)(
                *[a.struct for a in avals]
            )
    raw = bytes(made.serialize())
    if path is None:
        return raw
    file = f"{path}.stablehlo"
    atomic.write_whole(file, lambda out: out.write(raw))
    return file


def _numbers(source: Any) -> Any:
    if not isinstance(
        source, (NDArray, Value)
    ):  # the random key, of a network that draws in training
        return np.zeros(2, np.uint32)
    return source.asnumpy() if isinstance(source, NDArray) else NDArray._wrap(source).asnumpy()
