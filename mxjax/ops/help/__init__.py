"""The help texts of operators, put together from the table: each fact is written once, every front end shows it.

A text has the row's sentence, its parameters under the front end's names (`parameters.py`), what it gives
(`results.py`), what follows from the row's columns, and an example (`examples_np.py`, `examples_nd.py`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from . import examples_nd, examples_np
from .parameters import PARAMETERS
from .results import ABOUT, RESULTS

if TYPE_CHECKING:
    from ..table import Op

#: What a parameter may be, as texts say it; `None` is added where it is the default.
TYPES = {
    "array": "",
    "arrays": "arrays",
    "number": "float or array",
    "int": "int",
    "ints": "int or tuple of ints",
    "axes": "int or tuple of ints",
    "float": "float",
    "floats": "float or tuple of floats",
    "bool": "bool",
    "str": "str",
    "dtype": "str or numpy.dtype",
    "device": "Device",
    "any": "",
}


@functools.cache
def words() -> dict[str, tuple[str, str]]:
    """The type and the words of every parameter: by name, and by ``row.name`` where a row has its own."""
    made = {}
    for line in PARAMETERS.split("\n"):
        key, _, text = line.partition(": ")
        if text:
            name, _, kind = key.partition(" ")
            rows, dot, name = name.rpartition(".")
            for row in rows.split(","):
                made[f"{row}{dot}{name}"] = (kind, text)
    return made


def _by_row(table: str) -> dict[str, str]:
    """The words of lines ``rows: words``, by row."""
    made = {}
    for line in table.split("\n"):
        rows, _, text = line.partition(": ")
        for row in rows.split():
            made[row] = text
    return made


_ABOUT, _RESULTS = _by_row(ABOUT), _by_row(RESULTS)


def _by_kind(table: str) -> dict[str, list[str]]:
    made = {}
    for line in table.split("\n"):
        if line:
            row, *rest = line.split(" | ")
            made[row] = rest
    return made


_EXAMPLES = {"np": _by_kind(examples_np.EXAMPLES), "nd": _by_kind(examples_nd.EXAMPLES)}


def word(op: Op, name: str) -> tuple[str, str]:
    """The type and the words of a parameter of a row."""
    found = words()
    return (
        found.get(f"{op.name.partition('@')[0]}.{name}")
        or found.get(name)
        or ("any", "An attribute of the operator.")
    )


def about(op: Op) -> str:
    """What a row computes: its docstring, or the sentence for one that was made in a loop."""
    return _ABOUT.get(op.name) or _ABOUT.get(op.name.partition("@")[0]) or op.doc


def _gives(op: Op) -> str:
    text = _RESULTS.get(op.name) or _RESULTS.get(op.name.partition("@")[0])
    if text:
        return text
    if op.array_params[:1] == ("weight",):
        return "the new weight, in its shape and dtype; the states that came with it are changed in place."
    if op.name.startswith(("multi_", "preloaded_")):
        return "a list of the new weights, in their shapes and dtypes."
    if op.keyed and "data" not in op.array_params:
        size = next((n for n in ("size", "shape") if n in op.attr_params), "size")
        more = (
            "``shape`` draws for each element of the parameters"
            if op.name.startswith("_sample")
            else (f"of the shape ``{size}`` (left out: that of the parameters)")
        )
        return f"{more}; in ``dtype``, or float32."
    return "of the input's shape and dtype."


def _notes(op: Op, front: str, name: str, method: bool) -> Iterable[str]:
    if not op.differentiable:
        yield "No gradient flows through it."
    elif op.tests.smooth and op.array_params and not op.keyed:
        yield "It has a gradient."
    if op.keyed:
        yield "It draws from the stream that `mx.random.seed` sets."
    if op.modal:
        yield "In training (`autograd.record`, `autograd.train_mode`) it does what it does not otherwise."
    if op.precision.amp == "low":
        yield "Mixed precision (`mx.amp`) computes it in 16 bits."
    elif op.precision.amp == "full":
        yield "Mixed precision (`mx.amp`) computes it in float32."
    if op.wide:
        yield f"Under `npx.set_np(dtype=True)` its dtype is {op.wide} by default."
    others = [
        f"mx.{f}.{n}"
        for f, names in op.names.fronts.items()
        for n in names
        if (f, n) != (front, name)
    ]
    others += [
        f"x.{n}()"
        for names in op.names.methods.values()
        for n in names
        if not n.startswith("__") and not (method and n == name)
    ]
    if others:
        yield f"The same operator: {', '.join(dict.fromkeys(others))}."
    if op.names.internal is not None:
        yield f"In files of symbols it is `{op.names.internal}`."
    for sentence in dict.fromkeys(op.deviates.values()):
        yield f"Differs from MXNet: {sentence}"


def _is_nd(front: str) -> bool:
    """Whether a front end has the names of MXNet 1: mx.nd, and mx.sym but for mx.sym.np and mx.sym.npx."""
    return front.startswith("nd") or front.startswith("sym") and not front.startswith("sym.np")


def _default(value: Any, kind: str) -> str:
    return ", optional" if value is None else f", default {value!r}"


def arguments(op: Op, legacy: bool) -> list[tuple[str, Any, bool]]:
    """A front end's parameters of a row: name, default (`Ellipsis`: there is none), and whether by keyword alone."""
    made: list[tuple[str, Any, bool]] = []
    order = op.positions(legacy)
    optional = False
    for name in order:
        default = op.defaults.get(name, op.attr_defaults.get(name, ...))
        if (
            default is ...
            and (optional or name == "out")
            and (optional or name not in op.array_params)
        ):
            default = None
        optional = optional or default is not ...
        made.append((name, default, False))
    made += [
        (name, op.attr_defaults.get(name), True) for name in op.attr_params if name not in order
    ]
    if not op.array_params or op.keyed:
        made.append(("device", None, True))
    if "out" not in order:
        made.append(("out", None, True))
    return made


class Signature(inspect.Signature):
    """What `inspect.signature` shows of a function; ``make`` gives parameters and result when somebody looks."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], tuple[Iterable[inspect.Parameter], Any]]):
        self._make = make

    def __getattr__(self, name: str) -> Any:
        if name not in ("_parameters", "_return_annotation"):
            raise AttributeError(name)
        found, gives = self._make()
        super().__init__(list(found), return_annotation=gives)
        return object.__getattribute__(self, name)

    def replace(self, **changes: Any) -> inspect.Signature:  # type: ignore[override]
        """A plain signature with other parameters, or another result."""
        return inspect.Signature(
            changes.get("parameters", list(self.parameters.values())),
            return_annotation=changes.get("return_annotation", self.return_annotation),
        )

    def __reduce__(self) -> Any:
        return self.replace().__reduce__()


def annotation(op: Op, name: str, cls: type, default: Any) -> Any:
    """The type of a parameter, as signatures show it (``cls``: the arrays or symbols)."""
    from ...device import Device

    kind = word(op, name)[0]
    if name in op.array_names and kind not in ("array", "arrays", "number"):
        kind = "array"

    found: Any = {
        "array": cls, "arrays": Sequence[cls], "number": float | cls, "int": int, "ints": int | Sequence[int],  # type: ignore[valid-type]
        "axes": int | tuple[int, ...], "float": float, "floats": float | Sequence[float], "bool": bool, "str": str,
        "dtype": str | numpy.dtype | type, "device": Device, "any": Any,
    }[kind]  # fmt: skip
    return found | None if default is None and kind != "any" else found


def is_starred(op: Op, name: str) -> bool:
    """Whether a parameter is any number of arrays (``concat(x, y)``), not one list of them (``np.stack([x, y])``)."""
    return op.variadic and name == op.array_params[-1] and name in ("args", "arys", "data", "xi")


def parameters(op: Op, cls: type) -> tuple[list[inspect.Parameter], Any]:
    """What a `Signature` shows of a front end's function (``cls``: its arrays): parameters with their types, and the result's."""
    P = inspect.Parameter
    made = []
    after = False
    for name, default, by_keyword in arguments(op, cls._legacy):  # type: ignore[attr-defined]
        if is_starred(op, name):
            made.append(P(name, P.VAR_POSITIONAL, annotation=cls))
            after = True
            continue
        kind = P.KEYWORD_ONLY if by_keyword or after else P.POSITIONAL_OR_KEYWORD
        shown = P.empty if default is ... else default
        made.append(P(name, kind, default=shown, annotation=annotation(op, name, cls, default)))
    return [*made, P("kwargs", P.VAR_KEYWORD)], result(op, cls)


def result(op: Op, cls: type) -> Any:
    """The type of what a row gives."""
    if callable(op.inference.outputs) or op.inference.outputs is None:
        return list[cls] if op.listed else cls | list[cls]  # type: ignore[valid-type]
    if op.inference.outputs == 0:
        return None
    if op.inference.outputs == 1 and not op.listed:
        return cls
    return tuple[cls, ...] if op.tupled else list[cls]  # type: ignore[valid-type]


def text(op: Op, name: str, front: str, array: str, *, method: bool = False) -> str:
    """The help of a front end's function (``front``: np, npx, nd, ...) of a row, or of a method of arrays.

    Args:
      op: the row.
      name: what the function is called there.
      front: the front end, or for a method the class of arrays: np or nd.
      array: the name of the class of arrays (or symbols).
      method: whether it is a method, whose first array is the array itself.

    Returns:
      str: the sections that every public docstring has.
    """
    lines = [about(op), "", "Args:"]
    symbols = front.startswith("sym")
    given = arguments(op, _is_nd(front))
    if symbols:
        given = [a for a in given if a[0] not in ("device", "out")] + [
            ("name", None, True),
            ("attr", None, True),
        ]
    for at, (parameter, default, _) in enumerate(given):
        if at == 0 and method:
            continue
        kind, said = word(op, parameter)
        shown = (TYPES[kind] or array) if kind != "any" else "object"
        if is_starred(op, parameter):
            shown = f"any number of {array}"
        elif parameter in op.array_names and kind != "arrays":
            shown = array if kind != "number" else f"{array} or float"
        lines.append(
            f"  {parameter} ({shown}{'' if default is ... else _default(default, kind)}): {said}"
        )
    if lines[-1] == "Args:":
        lines[-1] = "Args: none beside the array itself."
    lines += ["", "Returns:", f"  {_result(op, array)}: {_gives(op)}"]
    lines += [
        "",
        "Raises:",
        "  MXNetError: shapes, dtypes or attributes do not fit; it says what was expected and what came.",
    ]
    notes = list(_notes(op, front, name, method))
    if notes:
        lines += ["", "Notes:", *[f"  {note}" for note in notes]]
    example = _example(op, name, front, array, method)
    if example:
        lines += ["", *example]
    return "\n".join(lines)


def _result(op: Op, array: str) -> str:
    if callable(op.inference.outputs) or op.inference.outputs is None:
        return f"{array} or list of {array}" if not op.listed else f"list of {array}"
    if op.inference.outputs == 0:
        return "None"
    if op.inference.outputs == 1 and not op.listed:
        return array
    return f"{'tuple' if op.tupled else 'list'} of {array}"


def _example(op: Op, name: str, front: str, array: str, method: bool) -> list[str]:
    kind = "nd" if _is_nd(front) else "np"
    found = _EXAMPLES[kind].get(op.name)
    if found is None:
        found = _of_the_other(op, kind)
    if found is None:
        return []
    arrays, attributes, how, shown = found
    given: Sequence[str] = arrays.split(" ; ") if arrays else ()
    if front.startswith("sym"):
        return _example_of_symbols(op, name, front, given, attributes, method)
    module = front.partition(".")[0]
    imports = "from mxjax import " + (kind if method or module == kind else f"{kind}, {module}")
    if method:
        if not given:
            return []
        call = (
            f"{given[0]}.{name}({', '.join([*given[1:], *([attributes] if attributes else [])])})"
        )
    else:
        call = f"{front}.{name}({', '.join([*given, *([attributes] if attributes else [])])})"
    if how in "VS":
        item = "y.shape" if how == "S" else "y.asnumpy()" if kind == "nd" else "y"
        call = f"[{item} for y in {call}]" if how == "S" or kind == "nd" else call
    elif how == "s":
        call += ".shape"
    elif how == "v" and kind == "nd":
        call += ".asnumpy()"
    lines = [f">>> {imports}", f">>> {call}"]
    return lines if how == "n" else [*lines, *shown.split("\\n")]


def _of_the_other(op: Op, kind: str) -> list[str] | None:
    """The example of a row that has one in the other kind of arrays alone."""
    other = "np" if kind == "nd" else "nd"
    found = _EXAMPLES[other].get(op.name)
    if found is None:
        return None
    arrays, attributes, how, shown = found
    if how in "vV":
        written = {
            "np": shown.replace(", dtype=float32)", ")"),
            "nd": f"{shown[:-1]}, dtype=float32)",
        }[kind]
        shown = (
            f"{shown[:-1]}, dtype=int64)" if shown == written else written
        )  # NumPy does not write its own default
    return [arrays.replace(f"{other}.", f"{kind}."), attributes, how, shown]


def _example_of_symbols(
    op: Op, name: str, front: str, given: Sequence[str], attributes: str, method: bool
) -> list[str]:
    """The call with a variable for each array, and which inputs the symbol has then."""
    made: list[str] = []
    inputs: list[str] = []
    kind = ".as_np_ndarray()" if front.startswith("sym.np") else ""
    params = list(op.array_params)
    left_out = params.index("bias") if "no_bias=True" in attributes and "bias" in params else None
    if left_out is not None:  # what follows it has to be named
        params.remove("bias")
    for at, literal in enumerate(given):
        count = literal.count("array(") + literal.count("ones(") + literal.count("zeros(")
        if not count:
            made.append(literal)
            continue
        names = (
            [f"x{i}" for i in range(count)]
            if literal[0] == "["
            else [f"x{at}" if op.variadic and at >= op.n_arrays - 1 else params[at]]
        )
        inputs += names
        named = left_out is not None and at >= left_out
        variables = [f"{n}=" * named + f"sym.var('{n}'){kind}" for n in names]
        made.append(f"[{', '.join(variables)}]" if literal[0] == "[" else variables[0])
    if method:
        call = f"{made[0]}.{name}({', '.join([*made[1:], *([attributes] if attributes else [])])})"
    else:
        call = f"{front}.{name}({', '.join([*made, *([attributes] if attributes else [])])})"
    return [">>> from mxjax import sym", f">>> {call}.list_inputs()", repr(inputs)]
