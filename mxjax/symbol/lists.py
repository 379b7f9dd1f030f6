"""Functions on symbols whose results have as many elements as the numbers say: they run node by node."""

from __future__ import annotations

from typing import Any

from .. import attribute, errors, name
from . import attributes
from .compose import one_entry
from .node import Node
from .symbol import Symbol, _Symbol


def special(
    registry: str, hint: str, inputs: Any, params: dict[str, Any], count: int = 1, np: bool = False
) -> Any:
    """The symbol of an operator that no row of the table is (`special.py`)."""
    title = name.current().get(params.pop("name", None), hint)
    attrs = attributes.written(attribute.current().get(params.pop("attr", None)))
    entries = [one_entry(s, f"Argument {k}") for k, s in enumerate(inputs)]
    names = [f"arg{k}" for k in range(len(entries))]
    node = Node(
        title, None, params, attrs, entries, names, {"outputs": count}, registry=registry, is_np=np
    )
    return (_Symbol if np else Symbol)([(node, k) for k in range(count)])


def boolean_mask(data: Any, index: Any, axis: int = 0, **kwargs: Any) -> Any:
    """The rows whose number in ``index`` is not zero.

    Args:
      data: the input.
      index: which rows are chosen: those where it is not 0.
      axis: only 0.

    Returns:
      NDArray or Symbol: the rows that were chosen.
    """
    return special("_contrib_boolean_mask", "boolean_mask", [data, index], {"axis": axis, **kwargs})


def rand_zipfian(true_classes: Any, num_sampled: int, range_max: int) -> tuple[Any, Any, Any]:
    """Classes drawn with odds that fall like 1 / rank, and how often each of the true and of the drawn is expected.

    Gives (drawn classes, expected counts of the true ones, expected counts of the drawn ones).

    Args:
      true_classes: the classes that occur.
      num_sampled: how many classes are drawn.
      range_max: the number of classes.

    Returns:
      tuple: the classes drawn, and the expected counts of true and drawn ones.
    """
    import math

    from .. import symbol
    from . import random

    made: Any = symbol
    cast, exp, floor, log = made.cast, made.exp, made.floor, made.log
    scale = math.log(range_max + 1)
    drawn = cast(
        exp(random.uniform(0, scale, shape=(num_sampled,), dtype="float64")) - 1.0, dtype="int64"
    )
    drawn = drawn % range_max

    def expected(classes: Any) -> Any:
        c = cast(classes, dtype="float64")
        return log((floor(c) + 2.0) / (floor(c) + 1.0)) / scale * num_sampled

    return drawn, expected(true_classes), expected(drawn)


def nonzero(x: Any, **kwargs: Any) -> Any:
    """The indices of the elements that are not zero, as rows."""
    return special("_npx_nonzero", "nonzero", [x], kwargs, np=True)


def flatnonzero(a: Any) -> Any:
    """The positions of the elements that are not zero, among all of them."""
    return special("_npi_flatnonzero", "flatnonzero", [a], {}, np=True)


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
) -> Any:
    """The sorted distinct elements; if asked also where they are first, how they make the array, how many."""
    params = {
        "return_index": return_index,
        "return_inverse": return_inverse,
        "return_counts": return_counts,
    }
    count = 1 + sum(params.values())
    return special("_npi_unique", "unique", [ar], {**params, "axis": axis}, count, np=True)


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number occurs; with ``weights`` their sums."""
    inputs = [x] if weights is None else [x, weights]
    return special("_npi_bincount", "bincount", inputs, {"minlength": minlength}, np=True)


def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """Without the elements at a place, in a slice, or at the places that a symbol says."""
    params: dict[str, Any] = {"axis": axis}
    inputs = [arr]
    if isinstance(obj, Symbol):
        inputs.append(obj)
    elif isinstance(obj, slice):
        params.update(start=obj.start, stop=obj.stop, step=obj.step)
    else:
        params["int_ind"] = int(obj)
    return special("_npi_delete", "delete", inputs, params, np=True)


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """With further elements before a place, before those of a slice, or before the places that a symbol says."""
    params: dict[str, Any] = {"axis": axis}
    inputs = [arr]
    if isinstance(values, Symbol):
        inputs.append(values)
    else:
        params["val"] = values
    if isinstance(obj, Symbol):
        kind = "tensor"
        inputs.append(obj)
    elif isinstance(obj, slice):
        kind = "slice"
        params.update(start=obj.start, stop=obj.stop, step=obj.step)
    elif isinstance(obj, int):
        kind = "scalar"
        params["int_ind"] = obj
    else:
        raise errors.MXNetTypeError(
            f"'obj' can not support type {type(obj)}: an int, a slice or a symbol says where"
        )
    return special(f"_npi_insert_{kind}", "insert", inputs, params, np=True)


def _histogram(a: Any, bins: Any, range: Any, kwargs: dict[str, Any], np: bool) -> Any:  # noqa: A002
    if isinstance(bins, Symbol):
        return special("_histogram", "histogram", [a, bins], kwargs, 2, np=np)
    if range is None:
        raise errors.MXNetValueError(
            "null range is not supported in symbol mode: give range=(lowest, highest)"
        )
    return special(
        "_histogram",
        "histogram",
        [a],
        {"bin_cnt": int(bins), "range": tuple(range), **kwargs},
        2,
        np=np,
    )


def nd_histogram(a: Any, bins: Any = 10, range: Any = None, **kwargs: Any) -> Any:  # noqa: A002
    """How many numbers lie in each of equal bins of a range, or between the edges that a symbol says; and the edges.

    Args:
      a: the input.
      bins: the number of bins, or their edges.
      range: the lower and upper end of the bins.

    Returns:
      the counts, and the edges.
    """
    return _histogram(a, bins, range, kwargs, False)


def histogram(
    a: Any,
    bins: Any = 10,
    range: Any = None,
    normed: Any = None,
    weights: Any = None,
    density: Any = None,  # noqa: A002
) -> Any:
    """How many numbers lie in each of equal bins of a range, or between the edges that a symbol says; and the edges.

    Raises:
      NotImplementedError: weights or densities are asked for.
    """
    if normed or density or weights is not None:
        raise errors.MXNetNotImplementedError(
            "normed, weights and density are not supported for symbols"
        )
    return _histogram(a, bins, range, {}, True)


def diag_indices_from(arr: Any) -> Any:
    """The indices of the diagonal, a row for each axis."""
    return special("_npi_diag_indices_from", "diag_indices_from", [arr], {}, np=True)


def shares_memory(a: Any, b: Any, max_work: Any = None) -> Any:
    """Whether two arrays lie in the same memory; those of a symbol do not."""
    return special("_npi_share_memory", "share_memory", [a, b], {}, np=True)


may_share_memory = shares_memory


def lstsq(a: Any, b: Any, rcond: Any = "warn") -> Any:
    """Least squares: the solution, the residuals, the rank, and the singular values."""
    return special(
        "_npi_lstsq", "lstsq", [a, b], {"rcond": -1 if rcond == "warn" else rcond}, 4, np=True
    )


def calibrate_entropy(
    hist: Any, hist_edges: Any, num_quantized_bins: int = 255, **kwargs: Any
) -> Any:
    """The range that loses least in ``num_quantized_bins`` steps, and how much: `mx.nd.contrib.calibrate_entropy`.

    Args:
      hist: the counts of the histogram's bins.
      hist_edges: the edges of the histogram's bins.

    Returns:
      tuple of Symbol: the threshold, and the divergence.
    """
    params = {"num_quantized_bins": num_quantized_bins, **kwargs}
    np = hist._is_np
    return special(
        "_contrib_calibrate_entropy", "calibrate_entropy", [hist, hist_edges], params, 2, np=np
    )


def dynamic_reshape(data: Any, shape: Any, **kwargs: Any) -> Any:
    """The array in the shape that another one holds, by nd.reshape's rules.

    Args:
      data: the input.
      shape: the shape, as an array of integers.

    Returns:
      NDArray or Symbol: the elements in that shape.
    """
    return special("_contrib_dynamic_reshape", "dynamic_reshape", [data, shape], kwargs)


def constraint_check(input: Any, msg: str = "Constraint violated!", **kwargs: Any) -> Any:  # noqa: A002
    """True where all numbers are; otherwise running it is an error with the message."""
    return special(
        "_npx_constraint_check", "constraint_check", [input], {"msg": msg, **kwargs}, np=True
    )


def eig(a: Any) -> Any:
    """Eigenvalues and right eigenvectors of real square matrices that have real ones."""
    return special("_npi_eig", "eig", [a], {}, 2, np=True)


def eigvals(a: Any) -> Any:
    """Eigenvalues of real square matrices that have real ones."""
    return special("_npi_eigvals", "eigvals", [a], {}, np=True)
