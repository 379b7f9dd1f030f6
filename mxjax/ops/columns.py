"""What a row of the table says beside its function: a fact is a column, and columns stand in five groups.

In the table they are keyword arguments, all on one level: ``op(npx="relu", amp="full", onnx="Relu")``; `grouped` sorts
them. What a call looks at when it is made lies in the row itself (`table.Op`), nothing of these groups does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from .. import errors

if TYPE_CHECKING:
    from .table import Op

# How many results: a number, a function of the attributes (defaults filled in) and of how many arrays come in,
# or None where it depends on the numbers in them.
Outputs = int | Callable[[dict[str, Any], int], int | None] | None
# The shapes of array parameters that follow from the first one's: (shape, **attributes) -> {parameter: shape}.
Shapes = Callable[..., dict[str, tuple[int, ...]]] | None
#: What mixed precision does to the operands of a row, in `amp=`; None leaves them as they come.
AMP = ("low", "full", "widest", None)
#: In place of a registry name: the one that follows from the row's own names.
CONVENTION = "<by convention>"
#: What a symbol's shapes do about lengths that are not known, in `unknown=`: nothing follows before the first array's
#: shape is known; an axis stays unknown; as many elements come out as in; unknown lengths of all arrays are one;
#: the result's shape has nothing to do with the array's; arrays are as long as each other but for the axis along which
#: they are joined; they are stacked along a new one.
UNKNOWN = ("waits", "stays", "same size", "tied", "apart", "joined", "stacked", "pair", None)
#: The name of a function that puts a row into a file's words, or a tuple of that and what it takes.
Form = str | tuple[Any, ...]


@dataclass(slots=True)
class Names:
    """What users and MXNet's registry call a row and its parameters."""

    #: By front end (np, npx, nd, ...) its names there.
    fronts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: MXNet's registry name, which stands in a symbol's file; None where MXNet has no such operator.
    internal: str | None = CONVENTION
    #: Further registry names that mean this row.
    aliases: tuple[str, ...] = ()
    #: The registry's names of the row with a number on the right, and on the left.
    internal_scalar: str | None = None
    internal_rscalar: str | None = None
    #: By class of arrays (nd, np) the names under which its arrays carry the row as a method.
    methods: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: The order of its parameters, ``out`` among them, where np, npx (or nd) take them by position in another one.
    order: tuple[str, ...] = ()
    nd_order: tuple[str, ...] = ()
    #: Attributes by the names that they had in MXNet 1.
    once: dict[str, str] = field(default_factory=dict)
    #: MXNet 1 takes this step of an optimizer otherwise, as `nd/_steps.py` has it.
    older: bool = False
    #: What a monitor of MXNet 1 calls the gradient of its one array; ``output`` where it has no name.
    gradient: str = "output"


@dataclass(slots=True)
class Inference:
    """What follows before a call runs: how many results it has, and shapes of the other arrays."""

    #: How many results, those written back not counted.
    outputs: Outputs = 1
    #: The shapes of array parameters from the first array's.
    shapes: Shapes = None
    #: What a length that is not known yet means for a symbol's shapes, one of `UNKNOWN`.
    unknown: str | None = None
    #: By array the axis whose length follows the data, whatever a file says (begin states of recurrent networks).
    follows: dict[str, int] = field(default_factory=dict)
    #: The positions of the arrays that have the result's dtype, none of a cast; None: all of them.
    typed: tuple[int, ...] | None = None
    #: The other arrays are statistics, which stay float32 beside 16 bits.
    statistics: bool = False
    #: Which arrays' gradients hold rows alone (True) or are dense (False), by the attributes and the arrays' storage types.
    rows: Callable[[dict[str, Any], Sequence[str]], dict[str, bool]] | None = None
    #: Its gradient does not depend on that of its result; a function of the attributes may say so.
    loss: bool | Callable[[dict[str, Any]], bool] = False
    #: The result's dtype, whatever comes in; ``"attribute"``: what its attribute ``dtype`` or that one's default says;
    #: or a function of the attributes and of what is known of the inputs' dtypes; a tuple of several results' dtypes.
    dtype: str | Callable[[dict[str, Any], Sequence[Any]], Any] | None = None
    #: The dtypes of arrays by their names, where nothing says another; results after the first are float32 beside them.
    dtypes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Precision:
    """What mixed precision does to the operands."""

    #: Computes ``"low"``, always in ``"full"`` float32, in the ``"widest"`` of its arrays' dtypes; None: as given.
    amp: str | None = None
    #: (attribute, values): it is ``"full"`` where the attribute has one of these.
    amp_full_if: tuple[str, tuple[str, ...]] | None = None
    #: Of a ``"full"`` row whose result is of size 1: under bfloat16 it gives the dtype of its data.
    amp_narrow: bool = False
    #: It adds up along axes (``"axes"``), or in a product of matrices (``"products"``): what `precision.accumulation` and
    #: `precision.product_accumulation` keep in a wider dtype.
    sums: str | None = None
    #: Without a dtype MXNet 1 gives the result of floats their dtype, where MXNet 2 gives it the default one.
    keeps_floats: bool = False
    #: Of a row of eight bits: by their registry names the rows that it computes in quantized networks, with the places
    #: where it does, one of `PLACES`.
    quantizes: dict[str, str] = field(default_factory=dict)


#: A layer, with weights; anything that leaves integers as they are, or only that behind a layer; several arrays.
PLACES = ("layer", "anywhere", "behind", "joined")


@dataclass(slots=True)
class Tests:
    """What the generated tests (`tests/ops/test_table.py`) run a row on, and hold it to."""

    #: Inputs (`samples.py`); a row without any fails the suite.
    samples: Any = None
    #: The NumPy function it must agree with.
    ref: Any = None
    #: The bounds of the numbers, for a row made by `unary`.
    domain: tuple[float, float] | None = None
    #: Its gradient is the derivative, which finite differences check.
    smooth: bool = True


@dataclass(slots=True)
class Files:
    """How MXNet's symbol files and ONNX files say a row, where they say it in other words.

    A form is the name of a function, or a tuple of that and what it takes besides: ``("split", 1)``. Those of ``written``
    and ``read`` are in `symbol/dialect.py`, those of ``onnx`` in `onnx/mx2onnx`.
    """

    #: The form in which a symbol's file has it; None: its registry name and its own attributes.
    written: Form | None = None
    #: By registry name the form in which a file's operator becomes this row.
    read: dict[str, Form] = field(default_factory=dict)
    #: What MXNet calls its results, where they are not counted; the attributes may decide. One that is called
    #: ``output0`` has others behind it, which do not show.
    results: tuple[str, ...] | Callable[[dict[str, Any]], tuple[str, ...]] = ()
    #: By array the initializer of a variable that MXNet makes for it, as text.
    initial: dict[str, str] = field(default_factory=dict)
    #: Of a row of any number of arrays: what MXNet calls those that the attributes ask for.
    slots: Callable[[dict[str, Any]], tuple[str, ...]] | None = None
    #: Attributes that have a default here and none in MXNet.
    required: tuple[str, ...] = ()
    #: It writes into an array that is there, for which symbols have no word.
    assigns: bool = False
    #: A cast of automatic mixed precision, which files leave out unless asked.
    left_out: bool = False
    #: Of a normalisation: what MXNet 1 keeps for its gradient and lets a monitor hear (`symbol/monitored.py`).
    moments: str | None = None
    #: The operator of ONNX that is this row (``"Relu"``), or the form that writes it; None: it cannot be exported.
    onnx: Form | None = None
    #: The operator of ONNX that is read as this row; it follows where ``onnx`` is one.
    from_onnx: str | None = None


#: The groups of columns by the attribute of a row that holds them.
GROUPS: dict[str, type[Any]] = {
    "names": Names,
    "inference": Inference,
    "precision": Precision,
    "tests": Tests,
    "files": Files,
}
_GROUP_OF = {column.name: group for group, made in GROUPS.items() for column in fields(made)}


def grouped(row: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The groups that the columns given for a row make, by the attributes that hold them.

    Raises:
      MXNetTypeError: there is no column of such a name.
    """
    sorted_: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
    for name, value in columns.items():
        group = _GROUP_OF.get(name)
        if group is None:
            raise errors.MXNetTypeError(
                f"the operator {row!r} has no column {name!r}{errors.did_you_mean(name, _GROUP_OF)}"
            )
        sorted_[group][name] = value
    return {group: made(**sorted_[group]) for group, made in GROUPS.items()}


# How MXNet's registry spells the functions of a front end; the first is what it writes as a rule.
_SPELLINGS = {
    "np": ("_npi_{}", "_np_{}"),
    "np.linalg": ("_npi_{}", "_np__linalg_{}"),
    "np.random": ("_npi_{}", "_np__random_{}"),
    "npx": ("_npx_{}", "_npi_{}"),
    "npx.random": ("_npi_{}", "_npx__random_{}"),
    "npx.image": ("_image_{}", "_npx__image_{}"),
    "nd": ("{}", "_{}", "_npi_{}", "_np_{}"),
    "nd.contrib": ("_contrib_{}",),
    "nd.image": ("_image_{}",),
    "nd.linalg": ("_linalg_{}",),
    "nd.random": ("_random_{}", "_sample_{}"),
}
# The front end that names a row, where it has several; a row of nd or npx is named by its display name.
_NAMING = ("np", "np.linalg", "np.random", "npx.random", "nd.linalg", "npx.image", "nd.image")


def registry_name(op: Op) -> str | None:
    """The registry's name of a row by convention; None for a row without names in front ends."""
    fronts = op.names.fronts
    for front in _NAMING:
        if front in fronts:
            own = op.name.partition("@")[0]
            plain = own if own in fronts[front] else fronts[front][0]
            return _SPELLINGS[front][0].format(plain)
    if "nd.contrib" in fronts and "nd" not in fronts:
        return _SPELLINGS["nd.contrib"][0].format(fronts["nd.contrib"][0])
    if "nd" in fronts or "npx" in fronts:
        return op.display
    return None


def spellings(op: Op) -> Iterable[str]:
    """What the registry may call the functions that front ends make of a row."""
    for front, names in op.names.fronts.items():
        for form in _SPELLINGS.get(front, ()):
            for name in names:
                yield form.format(name)


def index(rows: Iterable[Op]) -> dict[str, Op]:
    """The row for each registry name.

    Where MXNet writes several rows under one name, the one that a front end has under it comes first.
    """
    rows = list(rows)
    spelt = [(op, frozenset(spellings(op))) for op in rows]
    found: dict[str, Op] = {}
    for op, names in spelt:
        if op.names.internal in names:
            found.setdefault(op.names.internal, op)
    for op in rows:
        if (
            op.scalars and op.names.internal_scalar
        ):  # before a row with the number on the left that means the same
            found.setdefault(op.names.internal_scalar, op.scalars[0])
    for op in rows:
        for name in (op.names.internal, *op.names.aliases):
            if name is not None:
                found.setdefault(name, op)
    for op, names in spelt:
        for name in names if op.names.internal is not None else ():
            found.setdefault(name, op)
    return found


def modern(name: str) -> str:
    """A registry name of MXNet 0.x, as in `_RMinusScalar`, in the form it has had since: `_rminus_scalar`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def settle(op: Op) -> None:
    """Put the columns of a new row into their full form, and refuse what contradicts its function.

    ``methods=`` is given as ``"nd np"`` (the classes; the row's own name), or as a dict from a class to names, the two
    orders as texts.

    Raises:
      MXNetValueError: a word of ``amp=`` that there is not, or an order of parameters that the row has not.
    """
    names, precision = op.names, op.precision
    if names.internal == CONVENTION:
        names.internal = registry_name(op)
    if precision.amp not in AMP:
        raise errors.MXNetValueError(
            f"the operator {op.name!r} has amp={precision.amp!r}; it is one of {AMP}"
        )
    if op.inference.unknown not in UNKNOWN:
        raise errors.MXNetValueError(
            f"the operator {op.name!r} has unknown={op.inference.unknown!r}; it is one of {UNKNOWN}"
        )
    names.methods = _methods(op, names.methods)
    names.order, names.nd_order = (
        tuple(o.split()) if isinstance(o, str) else o for o in (names.order, names.nd_order)
    )
    strange = {*names.order, *names.nd_order} - {*op.array_params, *op.attr_params, "out"}
    if strange:
        raise errors.MXNetValueError(
            f"the operator {op.name!r} has no parameters {sorted(strange)}, which its order names"
        )


def _methods(op: Op, methods: Any) -> dict[str, tuple[str, ...]]:
    if isinstance(methods, dict):
        return {cls: tuple(names.split()) for cls, names in methods.items()}
    own = op.name.partition("@")[0]
    fronts = op.names.fronts
    named = [names for names in fronts.values() if own in names]
    name = own if named or not fronts else next(iter(fronts.values()))[0]
    return {cls: (name,) for cls in (methods or "").split()}
