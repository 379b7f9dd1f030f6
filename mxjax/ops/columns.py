"""What the columns of a row mean in full: MXNet's names of it, how many results it has, whose method it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

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
    fronts = op.names
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
    for front, names in op.names.items():
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
        if op.internal in names:
            found.setdefault(op.internal, op)
    for op in rows:
        if (
            op.scalars and op.internal_scalar
        ):  # before a row with the number on the left that means the same
            found.setdefault(op.internal_scalar, op.scalars[0])
    for op in rows:
        for name in (op.internal, *op.aliases):
            if name is not None:
                found.setdefault(name, op)
    for op, names in spelt:
        for name in names if op.internal is not None else ():
            found.setdefault(name, op)
    return found


def modern(name: str) -> str:
    """A registry name of MXNet 0.x, as in `_RMinusScalar`, in the form it has had since: `_rminus_scalar`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def methods_of(op: Op, methods: Any) -> dict[str, tuple[str, ...]]:
    """By class of arrays (nd, np) the names under which its arrays carry a row.

    Given as ``"nd np"`` (the classes; the row's own name), or as a dict from a class to names.
    """
    if isinstance(methods, dict):
        return {cls: tuple(names.split()) for cls, names in methods.items()}
    own = op.name.partition("@")[0]
    named = [names for names in op.names.values() if own in names]
    name = own if named or not op.names else next(iter(op.names.values()))[0]
    return {cls: (name,) for cls in (methods or "").split()}
