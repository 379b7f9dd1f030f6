"""Calls that move numbers: shapes, joins, indices, sorting; and products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import model
from .calls import Draft, Row, Var, add, check_write, failing, plain
from .model import Ambiguous, Array, Refused, cast, is_float, moved
from .program import Call


def _one(g: Any, wants: Any = None) -> Any:
    return g.array(wants)


def _draw_reshape(g: Any) -> Draft | None:
    x = g.array()
    if x is None:
        return None
    n = g.of(x).val.size
    if g.wrong():
        return (x, (n + 1, 2)), {}
    ways: list[tuple[int, ...]] = [(-1,), (1, n), (n, 1)] if n else [(0, 3)]
    ways += [(k, n // k) for k in (2, 3, 4, 5, 8, 16) if n and n % k == 0]
    ways += [(k, -1) for k in (2, 7) if n and n % k == 0]
    return (x, g.rng.choice(ways)), {}


def _reshape(x: Array, shape: tuple[int, ...]) -> Array:
    try:
        np.empty(x.shape, bool).reshape(shape)
    except ValueError:
        raise Refused("another size") from None
    return moved(lambda v: v.reshape(shape), x)


def axis_of(g: Any, x: str) -> int:
    n = g.of(x).val.ndim
    return g.rng.randrange(-n, n)


def some_axis(wants: Any = None) -> Any:
    return lambda g: g.array(lambda a: a.val.ndim > 0 and (wants is None or wants(a)))


def by_axis(
    name: str, fn: Any, *more: Any, wants: Any = None, weight: float = 0.5, key: str = "axis"
) -> None:
    """A function of an array, perhaps a number of ``more[0]``, and an axis."""

    def apply(x: Array, *rest: Any, **attrs: Any) -> Array:
        return moved(lambda v: fn(v, *rest, **attrs), x)

    def draw(g: Any) -> Draft | None:
        x = some_axis(wants)(g)
        if x is None:
            return None
        rest = tuple(g.rng.choice(m) for m in more)
        return (x, *rest), {key: axis_of(g, x)}

    add(Row(name, apply, draw, weight=weight))


add(Row("np.reshape", _reshape, _draw_reshape))
add(Row(".reshape", _reshape, _draw_reshape))


def _draw_transpose(g: Any) -> Draft | None:
    x = g.array(lambda a: a.val.ndim > 1)
    if x is None:
        return None
    axes = list(range(g.of(x).val.ndim))
    g.rng.shuffle(axes)
    return (x, tuple(axes)), {}


add(Row("np.transpose", lambda x, axes: moved(lambda v: v.transpose(axes), x), _draw_transpose))
add(
    Row(
        "np.expand_dims",
        lambda x, axis: moved(lambda v: np.expand_dims(v, axis), x),
        lambda g: (
            (x := g.array(lambda a: a.val.ndim < 4))
            and ((x,), {"axis": g.rng.randint(0, g.of(x).val.ndim)})
        ),
        weight=0.6,
    )
)
add(
    Row(
        "np.squeeze",
        lambda x: moved(np.squeeze, x),
        lambda g: (x := g.array(lambda a: 1 in a.shape)) and ((x,), {}),
        weight=0.3,
    )
)
by_axis("np.flip", np.flip)
by_axis("np.roll", np.roll, (1, -2, 3))
by_axis("np.repeat", np.repeat, (2, 3), wants=lambda a: a.val.size < 600)
add(
    Row(
        "np.tile",
        lambda x, reps: moved(lambda v: np.tile(v, reps), x),
        lambda g: (
            (x := g.array(lambda a: a.val.size < 600))
            and ((x, g.rng.choice([(2,), (2, 1), (1, 3)])), {})
        ),
        weight=0.4,
    )
)
add(
    Row(
        "np.swapaxes",
        lambda x, a, b: moved(lambda v: np.swapaxes(v, a, b), x),
        lambda g: (x := some_axis()(g)) and ((x, 0, -1), {}),
        weight=0.4,
    )
)


def _broadcast_to(x: Array, shape: tuple[int, ...]) -> Array:
    try:
        return moved(lambda v: np.broadcast_to(v, shape), x)
    except ValueError:
        raise Refused("no such shape") from None


def _draw_broadcast(g: Any) -> Draft | None:
    x = g.array(lambda a: a.val.ndim < 3 and a.val.size < 600)
    if x is None:
        return None
    shape = g.of(x).shape
    return (
        x,
        (
            g.length() if g.wrong() and shape else g.rng.choice([1, 2, 3]),
            *(g.length() if n == 1 else n for n in shape),
        ),
    ), {}


add(Row("np.broadcast_to", _broadcast_to, _draw_broadcast, weight=0.5))
add(
    Row(
        "np.tril",
        lambda x, k: moved(lambda v: np.tril(v, k), x),
        lambda g: (
            (x := g.array(lambda a: a.val.ndim >= 2 and a.dtype != bool))
            and ((x, g.rng.choice([0, -1, 1])), {})
        ),
        weight=0.3,
    )
)
add(
    Row(
        "np.triu",
        lambda x, k: moved(lambda v: np.triu(v, k), x),
        lambda g: (
            (x := g.array(lambda a: a.val.ndim >= 2 and a.dtype != bool))
            and ((x, g.rng.choice([0, -1, 1])), {})
        ),
        weight=0.3,
    )
)
add(
    Row(
        "np.pad",
        lambda x, widths: moved(lambda v: np.pad(v, widths), x),
        lambda g: (
            (x := g.array(lambda a: a.val.ndim in (1, 2) and a.dtype != bool))
            and ((x, tuple((g.rng.randint(0, 2), g.rng.randint(0, 2)) for _ in g.of(x).shape)), {})
        ),
        weight=0.5,
    )
)


class Joined(Row):
    """A function of a list of arrays."""

    def run(self, machine: Any, call: Call) -> None:
        args, attrs = machine.given(call)
        machine.put(call, self.function(machine.mx)(list(args), **attrs))

    def show(self, call: Call, body: Any) -> list[str]:
        made = super().show(call._replace(ins=(f"[{', '.join(call.ins)}]",)), body)
        return made


def join(fn: Any) -> Any:
    def apply(*xs: Array, axis: int) -> Array:
        if len({x.dtype for x in xs}) > 1:
            raise Refused("two dtypes")
        try:
            return moved(lambda *vs: fn(vs, axis=axis), *xs)
        except ValueError:
            raise Refused("shapes") from None

    return apply


def draw_concatenate(g: Any) -> Draft | None:
    x = some_axis(lambda a: a.val.size < 2000)(g)
    if x is None:
        return None
    a, axis = g.of(x), axis_of(g, x)

    def fits(b: Array) -> bool:
        if b.dtype != a.dtype or b.val.ndim != a.val.ndim:
            return False
        return all(
            n == m or k == axis % a.val.ndim
            for k, (n, m) in enumerate(zip(a.shape, b.shape, strict=True))
        )

    if g.wrong():
        return tuple([x, g.array(lambda b: not fits(b) and b.dtype == a.dtype)]), {"axis": axis}
    return tuple([x, *(g.array(fits) for _ in range(g.rng.choice([1, 1, 2])))]), {"axis": axis}


def _draw_stack(g: Any) -> Draft | None:
    x = g.array(lambda a: a.val.ndim < 4 and a.val.size < 2000)
    if x is None:
        return None
    a = g.of(x)
    return (x, g.array(lambda b: b.shape == a.shape and b.dtype == a.dtype)), {
        "axis": g.rng.choice([0, -1])
    }


add(Joined("np.concatenate", join(np.concatenate), draw_concatenate, weight=1.5))
add(Joined("np.stack", join(np.stack), _draw_stack))


class Split(Row):
    def model(self, machine: Any, call: Call) -> None:
        (x, parts), attrs = machine.given(call)
        axis = attrs["axis"]
        if x.shape[axis] % parts:
            raise Refused("no equal parts")
        step = x.shape[axis] // parts
        slices = [np.arange(k * step, (k + 1) * step) for k in range(parts)]
        with model.together():
            machine.put(call, [moved(lambda v, s=s: v.take(s, axis=axis), x) for s in slices])


def _draw_split(g: Any) -> Draft | None:
    x = some_axis(lambda a: any(n and n % 2 == 0 for n in a.shape))(g)
    if x is None:
        return None
    return (x, 2), {
        "axis": g.rng.choice([k for k, n in enumerate(g.of(x).shape) if n and n % 2 == 0])
    }


add(Split("np.split", None, _draw_split, outs=2, weight=0.7))

# Indices. A key is a tuple of whole numbers, ('slice', start, stop, step), None, '...' and names of variables.


def key_of(key: tuple[Any, ...], env: Any) -> Any:
    made = []
    for k in key:
        if isinstance(k, Var):
            made.append(env(k))
        elif isinstance(k, tuple):
            made.append(slice(*k))
        else:
            made.append(Ellipsis if k == "..." else k)
    return made[0] if len(made) == 1 and not isinstance(made[0], int) else tuple(made)


def shown_key(key: tuple[Any, ...]) -> str:
    def part(k: Any) -> str:
        if isinstance(k, tuple):
            ends = ["" if n is None else str(n) for n in k]
            return ":".join(ends[:2]) + (f":{ends[2]}" if ends[2] else "")
        return str(k)

    return ", ".join(map(part, key)) or "()"


def is_basic(key: tuple[Any, ...]) -> bool:
    return not any(isinstance(k, Var) for k in key)


def _draw_key(g: Any, x: str, basic: bool) -> tuple[Any, ...] | None:
    shape = g.of(x).shape
    if not basic:
        mask = g.rng.random() < 0.4
        if mask:
            found = g.array(
                lambda a: a.dtype == bool and a.val.ndim > 0 and a.shape == shape[: a.val.ndim],
                make=("bool", shape[:1]),
            )
            return None if found is None else (Var(found),)
        found = g.array(
            lambda a: (
                a.dtype in ("int32", "int64")
                and a.val.ndim in (1, 2)
                and a.val.size < 200
                and _inside(a, shape[0])
            ),
            make=("int32", (4,)),
        )
        if found is None or not _inside(g.of(found), shape[0]):
            return None
        return (
            (Var(found), (None, None, None))
            if len(shape) > 1 and g.rng.random() < 0.3
            else (Var(found),)
        )
    key: list[Any] = []
    for n in shape[: g.rng.randint(1, len(shape))]:
        way = g.rng.random()
        if g.wrong():
            key.append(n + 3)
        elif way < 0.4 and n:
            key.append(g.rng.randrange(-n, n))
        elif way < 0.8:
            a, b = sorted((g.rng.randint(0, n), g.rng.randint(0, n)))
            if b - a == 1 and n > 1:
                b = min(n, b + 1)
                a = b - 2
            key.append((a, b, g.rng.choice([None, None, 2]) if b - a > 2 else None))
        else:
            key.append((None, None, -1 if g.rng.random() < 0.2 and n > 1 else None))
    if g.rng.random() < 0.1:
        key.insert(0, None)
    return tuple(key)


def _inside(a: Array, n: int) -> bool:
    return bool(a.val.size) and bool(((a.val >= -n) & (a.val < n)).all())


def _draw_get(basic: bool) -> Any:
    def draw(g: Any) -> Draft | None:
        x = some_axis(lambda a: basic or a.val.size > 0)(g)
        key = x and _draw_key(g, x, basic)
        return key and ((x,), {"key": key})

    return draw


class Get(Row):
    """``x[key]``: a view where the elements lie side by side, unless calls are recorded."""

    def run(self, machine: Any, call: Call) -> None:
        key = key_of(call.attrs["key"], machine.get)
        machine.put(call, machine.get(call.ins[0])[key])

    def model(self, machine: Any, call: Call) -> None:
        x = machine.get(call.ins[0])
        key = key_of(call.attrs["key"], lambda name: machine.get(name).val)
        if isinstance(key, np.ndarray) and key.dtype == bool:
            machine.mask()
        made = got(x, key, is_basic(call.attrs["key"]) and not machine.inside)
        machine.put(call, made)

    def show(self, call: Call, body: Any) -> list[str]:
        return failing(call, [f"{call.outs[0]} = {call.ins[0]}[{shown_key(call.attrs['key'])}]"])


def got(x: Array, key: Any, view: bool) -> Array:
    try:
        val = x.val[
            key
            if view and key is Ellipsis
            else (key if not view else (*key, ...) if isinstance(key, tuple) else (key, ...))
        ]
    except IndexError:
        raise Refused("no such place") from None
    made = moved(lambda v: v[key], x)
    if view and val.flags.c_contiguous:
        full = (*key, ...) if isinstance(key, tuple) else (key, ...)
        made.sharing(val, None if x.err is None else x.err[full]).joins(x)
    return made


class Set(Row):
    """``x[key] = value``."""

    def run(self, machine: Any, call: Call) -> None:
        key = key_of(call.attrs["key"], machine.get)
        x, value = machine.get(call.ins[0]), machine.get(call.ins[1])
        x[key] = value

    def model(self, machine: Any, call: Call) -> None:
        x, value = machine.get(call.ins[0]), machine.get(call.ins[1])
        key = key_of(call.attrs["key"], lambda name: machine.get(name).val)
        check_write(x)
        value = cast(value, x.dtype) if isinstance(value, Array) else model.array(value, x.dtype)
        if not is_basic(call.attrs["key"]):
            ids = np.arange(x.val.size).reshape(x.shape)[key].ravel()
            if len(set(ids.tolist())) < ids.size and value.val.size > 1:
                raise Ambiguous
        try:
            x.val[key] = value.val
        except IndexError:
            raise Refused("no such place") from None
        except ValueError:
            raise Refused("shapes") from None
        if x.err is not None:
            x.err[key] = value.err

    def show(self, call: Call, body: Any) -> list[str]:
        return failing(
            call, [f"{call.ins[0]}[{shown_key(call.attrs['key'])}] = {plain(call.ins[1])}"]
        )


def _draw_set(basic: bool) -> Any:
    def draw(g: Any) -> Draft | None:
        x = some_axis(lambda a: basic or a.val.size > 0)(g)
        key = x and _draw_key(g, x, basic)
        if not key:
            return None
        a = g.of(x)
        number = g.rng.choice([0, 1, 3])
        try:
            shape = a.val[key_of(key, lambda name: g.of(name).val)].shape
        except IndexError:
            return (x, number), {"key": key}
        value = (
            number
            if g.rng.random() < 0.5
            else g.array(
                lambda b: (
                    g.fits_into(b, shape)
                    and is_float(b.dtype) == is_float(a.dtype)
                    and b.dtype != bool
                )
            )
        )
        return None if value is None or (g.state.is_taped(x)) else ((x, value), {"key": key})

    return draw


add(Get("x[i]", None, _draw_get(True), weight=4))
add(Get("x[array]", None, _draw_get(False), weight=1.5))
add(Set("x[i]=", None, _draw_set(True), weight=3, taped=False, outs=0, pure=False))
add(Set("x[array]=", None, _draw_set(False), weight=1, taped=False, outs=0, pure=False))


def _take(x: Array, at: Array, axis: int = 0, mode: str = "clip") -> Array:
    n = x.shape[axis]
    if not n:
        raise Refused("of nothing")
    places = np.clip(at.val, 0, n - 1) if mode == "clip" else at.val % n
    return moved(lambda v: v.take(places, axis=axis), x)


def _draw_take(g: Any) -> Draft | None:
    x = some_axis(lambda a: a.val.size and a.val.size < 2000)(g)
    at = x and g.array(
        lambda a: a.dtype in ("int32", "int64") and 0 < a.val.size < 50, make=("int32", (3,))
    )
    return at and ((x, at), {"axis": axis_of(g, x), "mode": g.rng.choice(["clip", "wrap"])})


add(Row("np.take", _take, _draw_take))


def _one_hot(x: Array, depth: int) -> Array:
    return model.array((x.val[..., None] == np.arange(depth)).astype(float), "float32")


add(
    Row(
        "npx.one_hot",
        _one_hot,
        lambda g: (
            (x := g.array(lambda a: a.dtype in ("int32", "int64") and a.val.size < 200))
            and ((x, 4), {})
        ),
        weight=0.4,
    )
)


def _pick(x: Array, at: Array) -> Array:
    places = np.clip(at.val, 0, x.shape[-1] - 1)[..., None]
    return moved(lambda v: np.take_along_axis(v, places, -1)[..., 0], x)


def _draw_pick(g: Any) -> Draft | None:
    x = some_axis(lambda a: a.val.size > 0 and is_float(a.dtype) and a.val.ndim > 1)(g)
    if x is None:
        return None
    shape = g.of(x).shape[:-1]
    return (
        x,
        g.array(
            lambda a: a.dtype in ("int32", "int64") and a.shape == shape, make=("int32", shape)
        ),
    ), {}


add(Row("npx.pick", _pick, _draw_pick, weight=0.6))
