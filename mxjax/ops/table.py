"""The operator table: one row per operator, and what follows from it.

A row is a pure function on JAX arrays: positional parameters are array inputs, keyword-only parameters
are static attributes. Front ends, array methods, shapes, gradients, documentation and tests come from it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy
import numpy as np
from jax import lax

from .. import errors
from ..core import Call, Row, enter, rng
from ..core.interpret.direct import Rules
from .columns import (
    CONVENTION,
    Files,
    Form,
    Inference,
    Names,
    Precision,
    Tests,
    grouped,
    index,
    modern,
    settle,
)
from .help import misfits
from .numbers import Each, cast_like_c, fitted, kind
from .samples import case, f

Named = str | tuple[str, ...] | None


class Op(Row):
    """One row.

    ``variadic`` rows take any number of arrays (as one list or as separate arguments). ``aux`` numbers the inputs
    that the operator updates (or gives them for its attributes): their new values are extra results,
    which the front end writes back.
    ``differentiable=False`` keeps a row off the tape, so that no gradient is asked of it.
    ``modal`` rows do different things in training: the front end fills their attribute ``is_train``.
    ``varying`` attributes are numbers that change from call to call (a learning rate): inputs of the program.
    ``numbers`` names the parameters whose numbers may come as operands, so that a new one compiles nothing: all
    numeric attributes but those of which shapes, dtypes, axes and counts are made (``num`` of linspace, ``stop`` of
    arange), and arrays in whose place a number may stand. The function gets a scalar then that takes the dtype of the
    arrays it meets, as a Python number does; ``check(**numbers)`` refuses what the function would refuse (`require`);
    ``looks(known, shapes, attributes)`` refuses arrays for their numbers, where these lie ready (`core.seen`): ``known`` has
    them by name; `Each` as ``check`` has one that asks about the smallest and the largest.
    ``settled(attributes)`` gives attributes that follow from numbers which come so, and from which shapes are made.
    ``lengths`` and ``restates`` name attributes that say lengths (`core.calls.call.Row`): one trace serves all of them.
    ``paired`` rows are costly (loops): where they have several results, the backward pass takes what they kept.
    ``scalars`` are the rows of an array and a number, on the right of it and on the left (`_beside_numbers`).
    ``listed`` rows give a list even of one result, ``tupled`` rows a tuple of several.

    ``host``: the function computes an array of NumPy, too, with a `HostKey` where it draws; a picture in the host's memory
    is computed so at once (`array/at_once.py`).

    What others ask a row, none of it when a call is made, stands in groups of columns (`columns.py`): ``names``,
    ``inference``, ``precision``, ``tests`` and ``files``.
    """

    __slots__ = (
        "array_names",
        "array_params",
        "attr_defaults",
        "attr_params",
        "aux",
        "bounds",
        "check",
        "choices",
        "defaults",
        "deviates",
        "doc",
        "draws",
        "fast",
        "files",
        "host",
        "inference",
        "keyed",
        "legacy",
        "listed",
        "looks",
        "modal",
        "moved",
        "n_arrays",
        "names",
        "paired",
        "plain",
        "precision",
        "scalars",
        "sparse",
        "tests",
        "tupled",
        "variadic",
        "varying",
        "wide",
    )

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        fronts: dict[str, tuple[str, ...]],
        *,
        display: str | None = None,
        differentiable: bool = True,
        aux: Any = (),
        effect: bool = False,
        keyed: bool | Callable[..., bool] = False,
        modal: bool = False,
        legacy: bool = False,
        operator: bool = True,
        takes_numbers: bool = False,
        numbers: tuple[str, ...] = (),
        settled: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        check: Callable[..., None] | None = None,
        looks: Callable[..., None] | None = None,
        varying: tuple[str, ...] = (),
        wide: str | None = None,
        wholes: bool = True,
        restates: dict[str, tuple[int, int]] | None = None,
        lengths: dict[str, type] | None = None,
        loops: bool = False,
        paired: bool = False,
        listed: bool = False,
        tupled: bool = False,
        host: bool = False,
        direct: Rules | None = None,
        doc: str | None = None,
        signature: inspect.Signature | None = None,
        **columns: Any,
    ):
        super().__init__(
            name,
            _drawing(fn, keyed) if keyed else fn,
            display=display,
            effect=effect,
            differentiable=differentiable,
            operator=operator,
            takes_numbers=takes_numbers,
            settled=settled,
            wholes=wholes,
            restates=restates,
            lengths=lengths
            or ({"size": int, "shape": int} if keyed else None),  # draws of any size
            loops=loops or bool(keyed),
            direct=direct,
        )
        self.aux = aux
        self.draws = (
            keyed if callable(keyed) else None
        )  # of which attributes it draws; None: of all
        self.keyed = keyed = bool(
            keyed
        )  # takes a random key as its first input, which the front end supplies
        self.modal = modal
        self.wide = wide  # the default dtype under npx.set_np(dtype=True), where it differs; without a dtype that of integers
        self.doc = doc or inspect.getdoc(fn) or ""
        self.legacy = legacy
        self.scalars: tuple[Op, Op] | None = None
        self.deviates: dict[
            str, str
        ] = {}  # where it knowingly differs from MXNet, and why (deviations.py)
        self.choices: dict[str, tuple[str, ...]] = {}  # by attribute its words (choices.py)
        self.bounds: dict[str, tuple[float, float]] = {}  # by attribute the least and the most
        self.sparse: Any = None  # what it computes of sparse arrays, where these need not become dense (array/sparse)
        self.varying = varying
        self.variadic = False
        self.array_params: tuple[str, ...] = ()
        self.defaults: dict[str, Any] = {}
        self.attr_params: tuple[str, ...] = ()
        self.attr_defaults: dict[str, Any] = {}
        _read_signature(self, signature or inspect.signature(fn))
        self.n_arrays = len(self.array_params)
        self.array_names: frozenset[str] = frozenset(self.array_params)
        unknown = [m for m in numbers if m not in (*self.array_params, *self.attr_params)]
        if unknown:
            raise errors.MXNetValueError(
                f"the operator {name!r} has no parameters {unknown}, which numbers= names"
            )
        # By name where it is an attribute, by position among the function's arguments where it stands for an array.
        places: list[str] = [*self.array_params]
        self.numbers = tuple([places.index(p) + 3 * keyed if p in places else p for p in numbers])
        self.check = check
        self.looks = looks or (check.looks if isinstance(check, Each) and keyed else None)
        self.moved = False  # one of its numbers was found to change
        # What a front end was given -> the call, for rows where nothing else has a say.
        self.plain = (
            not (
                self.looks is not None or self.variadic or keyed or modal or aux or varying or host
            )
            and self.n_arrays > 0
        )
        self.fast: dict[Any, Call] = {}
        self.host = fn if host else None
        self.paired = paired
        self.listed = listed  # a list even of one result
        self.tupled = tupled  # several results are a tuple, not a list
        self.inference: Inference
        self.precision: Precision
        self.tests: Tests
        self.names: Names
        self.files: Files
        for group, made in grouped(name, {"fronts": fronts, **columns}).items():
            setattr(self, group, made)
        settle(self)

    def named(self, numbers: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
        """Numbers by the names of their parameters, those that stand for arrays by their positions."""
        first = 3 if self.keyed else 0
        return {k if type(k) is str else self.array_params[k - first]: n for k, n in numbers}

    def admits(self, numbers: Sequence[tuple[Any, Any]]) -> bool:
        if self.check is None:
            return False
        try:
            self.check(**self.named(numbers))
        except TypeError:  # these are no numbers
            return False
        return True

    def positions(self, legacy: bool) -> tuple[str, ...]:
        """The parameters in the order in which a front end takes them: arrays, then attributes, unless a column says it."""
        return (self.names.nd_order if legacy else self.names.order) or (
            *self.array_params,
            *self.attr_params,
        )

    def count_outputs(self, attrs: Mapping[str, Any], arrays: int | None = None) -> int | None:
        """How many results a call with these attributes has (and so many arrays, if not all it can take).

        None where it depends on the numbers in the arrays.

        >>> from mxjax.ops import TABLE
        >>> TABLE["topk"].count_outputs({"ret_typ": "both"})
        2
        """
        outputs = self.inference.outputs
        if not callable(outputs):
            return outputs
        return outputs({**self.attr_defaults, **attrs}, self.n_arrays if arrays is None else arrays)

    def advice(
        self, attrs: Iterable[tuple[str, Any]], shapes: Sequence[Any], text: str
    ) -> tuple[str, bool]:
        """Why a call failed, told as ``text``: what was expected and what came, and whether shapes do not fit together."""
        argument = self._unfit(attrs, shapes)
        reason = None if argument else misfits.told(self, text)
        return argument or reason or text, reason is not None

    def _unfit(self, attrs: Iterable[tuple[str, Any]], shapes: Sequence[Any]) -> str | None:
        """Which argument of a call that failed does not fit, where the columns tell."""
        given = dict(attrs)
        for name, value in given.items():
            if name in WHOLES and isinstance(value, str):
                return f"{name}={value!r}: an integer, or a tuple of integers, is expected"
            if name == "dtype" and type(value) is int:  # zeros(2, 3)
                return f"dtype={value} is no dtype; several lengths are one shape, as in zeros((2, {value}))"
        shapes = shapes[3:] if self.keyed else shapes
        if self.inference.shapes is None or not shapes or shapes[0] is None:
            return None
        try:
            expected = self.infer_shapes(shapes[0], given)
        except Exception:  # of the call that failed: its own error is the better one
            return None
        for name, shape in zip(self.array_params, shapes, strict=False):
            wanted = expected.get(name)
            if None not in (wanted, shape) and shape != wanted:
                return f"Shape inconsistent, Provided = {list(shape)}, inferred shape={list(wanted)}: {name} of data {list(shapes[0])}"
        return None

    def infer_shapes(
        self, shape: tuple[int, ...], attrs: Mapping[str, Any]
    ) -> dict[str, tuple[int, ...]]:
        """The shapes of the array parameters that follow from the shape of the first one.

        >>> from mxjax.ops import TABLE
        >>> TABLE["layer_norm"].infer_shapes((8, 3, 5), {"axis": 1})
        {'gamma': (3,), 'beta': (3,)}
        """
        of = self.inference.shapes
        if of is None:
            return {}
        return of(tuple(shape), **{**self.attr_defaults, **attrs})


#: Attributes that are whole numbers, or several of them.
WHOLES = frozenset(
    """axis axes axis1 axis2 shape newshape size reps repeats kernel stride dilate pad pad_width num_filter num_hidden num_group
    num_outputs depth shift source destination N M k begin end output_size pooled_size""".split()
)


def _drawing(fn: Callable[..., Any], draws: bool | Callable[..., bool]) -> Callable[..., Any]:
    """A random operator with its key in the form the engine hands it over; None where these attributes draw nothing."""

    @functools.wraps(fn)
    def draw(words: Any, count: Any, offset: Any, *arrays: Any, **attrs: Any) -> Any:
        key = rng.key_of(words, count, offset) if draws is True or draws(**attrs) else None  # type: ignore[operator]
        return fn(key, *arrays, **attrs)

    return draw


def _beside_numbers(op: Op, fn: Callable[..., Any], fit: Any, commutes: bool) -> tuple[Op, Op]:
    """Rows ``<name>_scalar`` and ``r<name>_scalar``: a binary row with a Python number on the right, and on the left.

    ``fit`` gives an array and a number, which may be an operand, the dtypes in which they meet.
    """
    fit = _fit_legacy if op.legacy else fit if callable(fit) else _fit
    shared = dict(
        display=op.display, differentiable=op.differentiable, smooth=op.tests.smooth, legacy=op.legacy, takes_numbers=True,
        wholes=op.wholes, loops=op.loops,
        numbers=("scalar",),
        samples=_with_a_number(op.tests.samples), amp="full" if op.precision.amp == "full" else None, signature=_BESIDE,
    )  # fmt: skip

    def right(data: Any, *, scalar: Any) -> Any:
        x, s = fit(data, scalar)
        return fn(x, s)

    def left(data: Any, *, scalar: Any) -> Any:
        x, s = fit(data, scalar)
        return fn(s, x)

    plain, _, suffix = op.name.partition("@")
    suffix = suffix and "@" + suffix
    name, other = f"{plain}_scalar{suffix}", f"r{plain}_scalar{suffix}"
    doc, internal = f"{op.doc} The second is a number.", op.names.internal_scalar
    aliases = (
        () if internal is None or op.legacy else (f"_npi_{name}",)
    )  # of np.maximum and its like
    one = register(Op(name, right, {}, doc=doc, internal=internal, aliases=aliases, **shared))
    if commutes:
        return one, one
    doc, internal = f"{op.doc} The first is a number.", op.names.internal_rscalar
    return one, register(Op(other, left, {}, doc=doc, internal=internal, **shared))


_BESIDE = inspect.Signature(
    [
        inspect.Parameter("data", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        inspect.Parameter("scalar", inspect.Parameter.KEYWORD_ONLY),
    ]
)


def _with_a_number(samples: Any) -> list[Any]:
    """A binary row's samples with a number for the second array."""
    made = []
    for at, sample in enumerate(samples):
        x = sample.args[0]
        made.append(case(x, scalar=3 if x.dtype.startswith("int") else 1.5 + at))
    return made


def _fit(x: Any, s: Any) -> tuple[Any, Any]:
    """An array and a number in the dtypes in which MXNet lets them meet: the array's own, to which the
    number wraps like C; but a float meets an integer array in float64, and an int a bool array in int64."""
    if kind(s) == "f" and not jnp.issubdtype(x.dtype, jnp.inexact):
        return x, fitted(s, "float64")
    return _fit_legacy(x, s)


def _fit_legacy(x: Any, s: Any) -> tuple[Any, Any]:
    """A number beside an nd array takes the array's dtype, floats too; a bool array becomes int64."""
    x = x.astype("int64") if x.dtype == bool else x
    return x, fitted(s, x.dtype)


def fit_division(x: Any, s: Any) -> tuple[Any, Any]:
    """A number beside an array in a true division: integers divide in float32."""
    return x, fitted(s, x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else "float32")


def fit_bits(x: Any, s: Any) -> tuple[Any, Any]:
    """A number beside an array of bits takes the array's dtype, whatever it is."""
    return x, fitted(s, x.dtype)


def _read_signature(op: Op, signature: inspect.Signature) -> None:
    arrays, attrs = [], []
    for p in signature.parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            op.variadic = True
            arrays.append(p.name)
        elif p.kind is p.KEYWORD_ONLY:
            attrs.append(p.name)
            if p.default is not p.empty:
                op.attr_defaults[p.name] = p.default
        elif p.kind is not p.VAR_KEYWORD:
            arrays.append(p.name)
            if p.default is not p.empty:
                op.defaults[p.name] = p.default
    if op.keyed:
        arrays = arrays[1:]
    if op.modal:
        attrs.remove("is_train")
    op.array_params = tuple(arrays)
    op.attr_params = tuple(attrs)


TABLE: dict[str, Op] = {}
FRONT_ENDS: dict[str, dict[str, Op]] = {}
# By class of arrays (nd, np) and name, the rows that are methods of it.
METHODS: dict[str, dict[str, Op]] = {"nd": {}, "np": {}}
_BY_INTERNAL: dict[str, Op] = {}
#: Registry names of files that mean a row in other words: the row, and the form in which it is read.
READ: dict[str, tuple[Op, Form]] = {}


def register(op: Op) -> Op:
    """Enter a row; a name that exists already is refused."""
    for cls, names in op.names.methods.items():
        for name in names:
            if name in METHODS[cls]:
                raise errors.MXNetValueError(
                    f"{name} of {cls} arrays is both operator {METHODS[cls][name].name!r} and {op.name!r}"
                )
    for registry in op.files.read:
        if registry in READ:
            raise errors.MXNetValueError(
                f"{registry} of files is both operator {READ[registry][0].name!r} and {op.name!r}"
            )
    enter(op)
    TABLE[op.name] = op
    for front, names in op.names.fronts.items():
        there = FRONT_ENDS.setdefault(front, {})
        for name in names:
            if name in there:
                raise errors.MXNetValueError(
                    f"{front}.{name} is both operator {there[name].name!r} and {op.name!r}"
                )
            there[name] = op
    for cls, names in op.names.methods.items():
        METHODS[cls].update(dict.fromkeys(names, op))
    READ.update({registry: (op, form) for registry, form in op.files.read.items()})
    _BY_INTERNAL.clear()
    return op


def by_internal(name: str) -> Op | None:
    """The row that a name of MXNet's registry stands for, aliases and names of old files included.

    None where no row has it. The names of mx.nd's functions are such names.

    >>> from mxjax.ops.table import by_internal
    >>> by_internal("_npi_add"), by_internal("_Plus")
    (<operator add>, <operator elemwise_add>)
    """
    return _indexed().get(name) or _indexed().get(modern(name))


def internal_names() -> list[str]:
    """Every name for which `by_internal` finds a row."""
    return list(_indexed())


def _indexed() -> dict[str, Op]:
    if not _BY_INTERNAL:
        _BY_INTERNAL.update(index(TABLE.values()))
    return _BY_INTERNAL


def _names(**fronts: Named) -> dict[str, tuple[str, ...]]:
    return {
        front: (names,) if isinstance(names, str) else tuple(names)
        for front, names in fronts.items()
        if names
    }


FRONTS = (
    *("np", "npx", "nd", "np_random", "np_linalg", "npx_random", "npx_image"),
    *("nd_random", "nd_linalg", "nd_contrib", "nd_image"),
)


def op(
    name: str | None = None,
    *,
    nd_params: str | None = None,
    nd_defaults: dict[str, Any] | None = None,
    nd_rename: dict[str, str] | None = None,
    **row: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter the decorated pure function as a row; gives the function back.

    ``np=``, ``npx=``, ``nd=``, ``np_random=``, ... are its names in the front ends. Where mx.nd calls
    parameters differently, or has other defaults, ``nd_params`` (names of the arrays), ``nd_rename`` and
    ``nd_defaults`` say so; the nd form is a row of its own then, ``<name>@nd``, whose registry name is by
    convention or ``nd_internal``.
    """
    fronts = {f.replace("_", "."): row.pop(f) for f in FRONTS if f in row}

    def enter(fn: Callable[..., Any]) -> Callable[..., Any]:
        label = name or fn.__name__
        here = _names(**fronts)
        legacy = {f: here.pop(f) for f in list(here) if f.startswith("nd")}
        if not here or not (nd_params or nd_defaults or nd_rename):
            if not here and (nd_params or nd_defaults or nd_rename):
                made, signature = _form(
                    fn, row.get("keyed", False), nd_params, nd_rename, nd_defaults
                )
                if row.get("numbers"):
                    row.update(
                        _numbers_of_form(fn, nd_params, nd_rename, row.get("keyed", False), **row)
                    )
                register(Op(label, made, legacy, signature=signature, **row))
            else:
                register(Op(label, fn, {**here, **legacy}, **row))
            return fn
        own, nd_own = _divided(row, bool(legacy))
        register(Op(label, fn, here, **own))
        if legacy:
            made, signature = _form(fn, row.get("keyed", False), nd_params, nd_rename, nd_defaults)
            if nd_own.get("numbers"):
                nd_own.update(
                    _numbers_of_form(fn, nd_params, nd_rename, row.get("keyed", False), **nd_own)
                )
            if nd_own.get("shapes"):
                nd_own["shapes"] = _renamed(nd_own["shapes"], fn, nd_params)
            register(Op(label + "@nd", made, legacy, signature=signature, **nd_own))
        return fn

    return enter


def _divided(row: dict[str, Any], both: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns of a row's form for np and npx, and of that for nd: names and methods are each one's own.

    ``nd_<column>=`` is what the nd form has in a column, where it is another.
    """
    if not both:
        return row, row
    own = {k: v for k, v in row.items() if not k.startswith("nd_")}
    others = {k.removeprefix("nd_"): v for k, v in row.items() if k.startswith("nd_")}
    methods = own.pop("methods", None) or {}
    if isinstance(methods, dict):
        mine, nds = ({c: n for c, n in methods.items() if c == cls} for cls in ("np", "nd"))
    else:
        mine, nds = (cls if cls in methods.split() else None for cls in ("np", "nd"))
    nd_own = {**own, "internal": CONVENTION, "aliases": (), "read": {}, "from_onnx": None}
    nd_own.update(order="", nd_order=others.pop("order", ""))
    return {**own, "methods": mine}, {**nd_own, "methods": nds, **others}


def _renamed(
    shapes: Callable[..., Any], fn: Callable[..., Any], params: str | None
) -> Callable[..., Any]:
    """The ``shapes`` of a row under nd's names of its arrays."""
    names = dict(zip(inspect.signature(fn).parameters, (params or "").split(), strict=False))

    @functools.wraps(shapes)
    def renamed(shape: tuple[int, ...], **attrs: Any) -> dict[str, tuple[int, ...]]:
        return {names.get(name, name): found for name, found in shapes(shape, **attrs).items()}

    return renamed


def _numbers_of_form(
    fn: Callable[..., Any],
    params: str | None,
    rename: dict[str, str] | None,
    keyed: bool,
    *,
    numbers: tuple[str, ...],
    check: Callable[..., None] | None = None,
    **row: Any,
) -> dict[str, Any]:
    """The columns ``numbers`` and ``check`` of a row under nd's names."""
    names = dict(rename or {})
    names.update(
        zip(
            list(inspect.signature(fn).parameters)[1 if keyed else 0 :],
            (params or "").split(),
            strict=False,
        )
    )
    back = {v: k for k, v in names.items()}

    def renamed(**values: Any) -> None:
        assert check is not None
        check(**{back.get(k, k): v for k, v in values.items()})

    if isinstance(check, Each):
        check = Each({names.get(n, n): test for n, test in check.tests.items()})
    else:
        check = check and renamed
    return {"numbers": tuple([names.get(n, n) for n in numbers]), "check": check}


def _form(
    fn: Callable[..., Any],
    keyed: bool,
    params: str | None,
    rename: dict[str, str] | None,
    defaults: dict[str, Any] | None,
) -> tuple[Callable[..., Any], inspect.Signature]:
    """A function under other parameter names and defaults, and its signature."""
    given = list(inspect.signature(fn).parameters.values())
    arrays = [p for p in given if p.kind is p.POSITIONAL_OR_KEYWORD][1 if keyed else 0 :]
    rename = dict(rename or {})
    rename.update(zip([p.name for p in arrays], (params or "").split(), strict=False))
    defaults = defaults or {}
    signature = inspect.Signature(
        [
            p.replace(name=rename.get(p.name, p.name), default=defaults.get(p.name, p.default))
            for p in given
        ]
    )
    back = {v: k for k, v in rename.items()}
    if not defaults and not any(p.name in rename for p in given if p.kind is p.KEYWORD_ONLY):
        return fn, signature

    @functools.wraps(fn)
    def formed(*arrays: Any, **attrs: Any) -> Any:
        return fn(*arrays, **{**defaults, **{back.get(k, k): v for k, v in attrs.items()}})

    return formed, signature


def unary(
    name: str,
    fn: Callable[..., Any],
    *,
    np: Named = "",
    nd: Named = "",
    npx: Named = None,
    **row: Any,
) -> None:
    """A row with one input: np and nd carry it under its own name unless told otherwise (None: nowhere).

    ``domain`` bounds the numbers its tests use. The nd form gives integers back as integers. Rows with a form in
    nd are methods of arrays, unless ``methods`` says otherwise.
    """
    doc = row.pop("doc", f"Element-wise {name}.")
    low, high = row.get("domain") or (-2.0, 2.0)
    row.setdefault(
        "samples", [case(f(3, 4, low=low, high=high)), case(f(0, 3)), case(f(low=low, high=high))]
    )
    row.setdefault("ref", getattr(numpy, name, None))
    fronts = _names(np=name if np == "" else np)
    if npx:
        fronts["npx"] = (npx,) if isinstance(npx, str) else tuple(npx)
    legacy = {
        **_names(nd=name if nd == "" else nd),
        **_names(**{"nd.contrib": row.pop("nd_contrib", None)}),
    }
    row.setdefault("methods", "nd np" if "nd" in legacy else None)
    own, nd_own = _divided(row, bool(fronts and legacy))
    if fronts:
        parameter = "x" if "np" in fronts else "data"
        signature = _one_parameter(parameter)
        register(Op(name, _named(name, fn), fronts, doc=doc, signature=signature, **own))
    if legacy:
        nd_own.pop("ref", None)
        kept = _named(name, _keeping(fn))
        register(
            Op(name + "@nd", kept, legacy, doc=doc, signature=_one_parameter("data"), **nd_own)
        )


def _one_parameter(name: str) -> inspect.Signature:
    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)])


def _named(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    def with_name(*xs: Any) -> Any:
        return fn(*xs)

    with_name.__name__ = name
    return with_name


#: Functions of one array that compute floats, of integers, too.
_of_floats: set[Callable[..., Any]] = set()


def of_floats(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Notes that a function of one array computes floats: its nd form computes those of integers in float64."""
    _of_floats.add(fn)
    return fn


def _keeping(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The nd form of a function: the result has the dtype of the array, converted as by C."""
    wide = fn in _of_floats

    def keeping(x: Any) -> Any:
        given = x.astype("float64") if wide and jnp.issubdtype(x.dtype, jnp.integer) else x
        return cast_like_c(fn(given), x.dtype)

    return keeping


def binary(
    name: str,
    fn: Callable[..., Any],
    *,
    np: Named = "",
    nd: Named = None,
    npx: Named = None,
    compares: bool = False,
    fit: Any = True,
    beside: Callable[..., Any] | None = None,
    legacy: Callable[..., Any] | None = None,
    commutes: bool = False,
    internal_scalar: str | None = "_npi_{name}_scalar",
    internal_rscalar: str | None = "_npi_r{name}_scalar",
    nd_scalar: str | None = "_{name}_scalar",
    nd_rscalar: str | None = "_r{name}_scalar",
    **row: Any,
) -> None:
    """A broadcasting row with two inputs, either of which may be a Python number.

    ``fit`` gives an array and a number beside it their dtypes; ``beside`` is the function of these two,
    ``legacy`` the nd form's, if they differ. ``commutes``: with a number it does not matter which comes first.
    ``nd_scalar`` and ``nd_rscalar`` are the nd form's ``internal_scalar`` and ``internal_rscalar``.
    nd names that begin with elemwise take arrays of one shape only.
    """

    def with_name(x1: Any, x2: Any) -> Any:
        _check_broadcast(x1, x2)
        return fn(x1, x2)

    with_name.__name__ = name
    doc = row.pop("doc", f"Element-wise {name} with broadcasting.")
    row["samples"] = [*(row.get("samples") or [case(f(3, 4), f(3, 4)), case(f(3, 1), f(4))])]
    if row["samples"][0].args[0].dtype != "int32":
        row["samples"].append(case(f(0, 3), f(0, 3)))
    row.setdefault("ref", getattr(numpy, name, None))
    fronts = _names(np=name if np == "" else np, npx=npx)
    nd = (nd,) if isinstance(nd, str) else nd or ()
    equal = tuple(n for n in nd if n.startswith("elemwise"))
    names = tuple(n for n in nd if n not in equal)
    if names and "nd_internal" not in row:
        row["nd_internal"] = names[0]
    elemwise_aliases = row.pop("elemwise_aliases", ())
    own, nd_own = _divided(row, True)
    beside_number = _numbered(name, commutes, internal_scalar, internal_rscalar)
    if fronts:
        made = register(Op(name, with_name, fronts, doc=doc, **beside_number, **own))
        made.scalars = _beside_numbers(made, beside or with_name, fit, commutes)
    if nd:
        nd_own.pop("ref", None)
        nd_own.pop("wide", None)
        strict = _strict(name, legacy or fn, compares)
        beside_number = _numbered(
            names[0].removeprefix("broadcast_"), commutes, nd_scalar, nd_rscalar
        )
        nd_own["amp"] = "widest" if nd_own.get("amp") is None else nd_own["amp"]
        made = register(
            Op(
                name + "@nd",
                strict,
                _names(nd=names),
                legacy=True,
                doc=doc,
                **beside_number,
                **nd_own,
            )
        )
        made.scalars = _beside_numbers(made, strict, None, commutes)
        if equal:
            nd_own["samples"] = [case(f(3, 4), f(3, 4, low=0.5)), case(f(0, 3), f(0, 3))]
            nd_own.update(internal=equal[0], aliases=elemwise_aliases, shapes=_like_lhs)
            register(Op(equal[0], _equal_shapes(strict), _names(nd=equal), doc=doc, **nd_own))


def _numbered(
    name: str, commutes: bool, right: str | None, left: str | None
) -> dict[str, str | None]:
    """The registry's names of a binary row with a number on the right, and on the left."""
    right = right and right.format(name=name)
    return {
        "internal_scalar": right,
        "internal_rscalar": right if commutes else left and left.format(name=name),
    }


def _like_lhs(shape: tuple[int, ...], **attrs: Any) -> dict[str, tuple[int, ...]]:
    return {"rhs": shape}


def _strict(name: str, fn: Callable[..., Any], compares: bool) -> Callable[..., Any]:
    """The nd form of a binary function: one dtype for both sides; comparisons answer in it."""

    def strict(lhs: Any, rhs: Any) -> Any:
        _check_broadcast(lhs, rhs)
        if lhs.dtype != rhs.dtype:
            raise TypeError(
                f"nd.{name} takes arrays of one dtype, got {lhs.dtype} and {rhs.dtype}; "
                "convert one of them: x.astype(dtype)"
            )
        out = fn(lhs, rhs)
        return out.astype(lhs.dtype) if compares else out

    strict.__name__ = name
    return strict


def _check_broadcast(a: Any, b: Any) -> None:
    for m, n in zip(a.shape[::-1], b.shape[::-1], strict=False):
        if m != n and m != 1 and n != 1:
            shapes = " ".join(str(list(x.shape)).replace(" ", "") for x in (a, b))
            raise ValueError(
                f"operands could not be broadcast together with shapes {shapes}: from the right, lengths "
                "must be equal or 1"
            )


def _equal_shapes(fn: Callable[..., Any]) -> Callable[..., Any]:
    def equal_shapes(lhs: Any, rhs: Any) -> Any:
        if lhs.shape != rhs.shape:
            raise ValueError(
                f"Incompatible attr in node at 1-th input: expected {list(lhs.shape)}, got {list(rhs.shape)}; "
                "broadcast_... takes different shapes"
            )
        return fn(lhs, rhs)

    return equal_shapes


def constant(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A row's function whose arrays get zeros for gradients, as MXNet gives them."""

    @functools.wraps(fn)
    def without_gradient(*arrays: Any, **attrs: Any) -> Any:
        return fn(*[lax.stop_gradient(a) for a in arrays], **attrs)

    without_gradient.constant = True  # type: ignore[attr-defined]  # so that nothing is traced for zeros
    return without_gradient


def without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """A shape without one of its axes."""
    return tuple(n for d, n in enumerate(shape) if d != axis % len(shape))


def rows(names: Iterable[str]) -> list[Op]:
    return [TABLE[n] for n in names]


def hashable(value: Any) -> Any:
    """An attribute in the form calls are interned by: lists become tuples (named
    ones stay), dtypes canonical names."""
    if isinstance(value, (list, tuple)):
        return value if hasattr(value, "_fields") else tuple(hashable(v) for v in value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, type) and issubclass(value, np.generic):
        return np.dtype(value).name
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item()
    return value
