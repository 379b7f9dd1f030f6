"""Primitives of JAX that move numbers, as NumPy does it: shapes, slices, gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .dims import symbolic_in
from .numpy_rules import (
    NotHere,
    Op,
    Rule,
    axes_of,
    dtype_in,
    dtype_out,
    is_float,
    is_half,
    least,
    spread,
)

# ---- shapes ----------------------------------------------------------------------------


def _reshape(eqn: Any) -> Op:
    shape, turned = eqn.outvars[0].aval.shape, eqn.params.get("dimensions")
    if turned is not None:  # as derivatives of products have it
        order = axes_of(turned)
        return Op(lambda x, shape: x.transpose(order).reshape(shape), (shape,))
    return Op(lambda x, shape: x.reshape(shape), (shape,))


def _to_shape(eqn: Any) -> Op:
    """Axes of length 1 come or go."""
    return Op(lambda x, shape: x.reshape(shape), (eqn.outvars[0].aval.shape,))


def _broadcast(eqn: Any) -> Op:
    if len(eqn.invars) > 1:
        raise NotHere("a shape of numbers")
    places = axes_of(eqn.params["broadcast_dimensions"])
    shape = eqn.params["shape"]
    if not eqn.invars[0].aval.shape or places == tuple(range(len(shape) - len(places), len(shape))):
        return Op(spread, (shape,))
    return Op(
        lambda x, shape: spread(x.reshape(beside(x.shape, places, len(shape))), shape), (shape,)
    )


def beside(lengths: Sequence[int], places: Sequence[int], rank: int) -> list[int]:
    """The shape with these lengths at these places, and 1 elsewhere."""
    made = [1] * rank
    for at, n in zip(places, lengths, strict=True):
        made[at] = n
    return made


def _iota(eqn: Any) -> Op:
    if eqn.invars:
        raise NotHere("a shape of numbers")
    dtype, at, shape = dtype_out(eqn), int(eqn.params["dimension"]), eqn.params["shape"]
    if len(shape) == 1:
        return Op(lambda n: np.arange(n, dtype=dtype), (shape[0],))

    def iota(shape: tuple[int, ...]) -> Any:
        return spread(
            np.arange(shape[at], dtype=dtype).reshape(beside((shape[at],), (at,), len(shape))),
            shape,
        )

    return Op(iota, (shape,))


def _dim(eqn: Any) -> Op:
    return Op(dtype_out(eqn).type, (eqn.params["dim"],))


def _transpose(eqn: Any) -> Op:
    order = axes_of(eqn.params["permutation"])
    return Op(lambda x: x.transpose(order))


def _tile(eqn: Any) -> Op:
    return Op(lambda x, reps: np.tile(x, reps), (tuple(eqn.params["reps"]),))


def _empty(eqn: Any) -> Op:
    dtype = dtype_out(eqn)
    return Op(lambda shape: np.zeros(shape, dtype), (eqn.outvars[0].aval.shape,))


def _concatenate(eqn: Any) -> Op:
    at = int(eqn.params["dimension"])
    return Op(lambda *xs: np.concatenate(xs, at))


def _stack(eqn: Any) -> Op:
    at = int(eqn.params["axis"])
    return Op(lambda *xs: np.stack(xs, at))


def _unstack(eqn: Any) -> Op:
    at = int(eqn.params["axis"])
    return Op(lambda x: list(np.moveaxis(x, at, 0)), many=True)


def _split(eqn: Any) -> Op:
    at = int(eqn.params["axis"])

    def split(x: Any, sizes: tuple[int, ...]) -> Any:
        made, start, before = [], 0, (slice(None),) * at
        for n in sizes:
            made.append(x[(*before, slice(start, start + n))])
            start += n
        return made

    return Op(split, (tuple(eqn.params["sizes"]),), many=True)


def _rev(eqn: Any) -> Op:
    turned = axes_of(eqn.params["dimensions"])
    key = tuple(
        slice(None, None, -1) if k in turned else slice(None)
        for k in range(len(eqn.invars[0].aval.shape))
    )
    return Op(lambda x: x[key])


def _pad(eqn: Any) -> Op:
    return Op(padded, (tuple(map(tuple, eqn.params["padding_config"])),))


def padded(x: Any, value: Any, config: tuple[tuple[int, int, int], ...]) -> Any:
    """Numbers before, after and between those of each axis; negative ones cut."""
    lengths, into, taken = [], [], []
    for n, (low, high, between) in zip(x.shape, config, strict=True):
        step = between + 1
        inner = (n - 1) * step + 1 if n else 0
        lengths.append(max(inner + low + high, 0))
        # Element k of the operand comes to low + k * step, if that is inside.
        first = max(0, -(low // step))
        last = min(n - 1, (lengths[-1] - 1 - low) // step)
        taken.append(slice(first, max(last + 1, first)))
        start = low + first * step
        into.append(
            slice(start, start + max(last - first, -1) * step + 1 if last >= first else start, step)
        )
    made = np.full(lengths, value, x.dtype)
    made[tuple(into)] = x[tuple(taken)]
    return made


# ---- slices ----------------------------------------------------------------------------


def _slice(eqn: Any) -> Op:
    p = eqn.params
    starts, limits = tuple(p["start_indices"]), tuple(p["limit_indices"])
    steps = tuple(p["strides"] or (1,) * len(starts))
    shape = eqn.invars[0].aval.shape
    if not symbolic_in((starts, limits, steps)):
        key = tuple(map(slice, starts, limits, steps))
        return Op(lambda x: x[key])
    whole = [
        bool(s == 0 and x is n and t == 1)
        for s, x, t, n in zip(starts, limits, steps, shape, strict=True)
    ]
    kept = tuple(
        [None if w else (a, b, c) for w, a, b, c in zip(whole, starts, limits, steps, strict=True)]
    )
    return Op(lambda x, parts: x[tuple([slice(*p) if p else slice(None) for p in parts])], (kept,))


def _dynamic_slice(eqn: Any) -> Op:
    rank = len(eqn.invars[0].aval.shape)
    return Op(
        lambda x, *rest: x[window(x.shape, rest[:rank], rest[-1])],
        (tuple(eqn.params["slice_sizes"]),),
    )


def window(
    lengths: Sequence[int], starts: Sequence[Any], sizes: Sequence[int]
) -> tuple[slice, ...]:
    """The slices of these sizes from there on, moved to lie inside."""
    key = []
    for n, start, size in zip(lengths, starts, sizes, strict=True):
        first = min(max(int(start), 0), n - size)
        key.append(slice(first, first + size))
    return tuple(key)


def _dynamic_update_slice(eqn: Any) -> Op:
    def update(x: Any, new: Any, *starts: Any) -> Any:
        made = x.copy()
        made[window(x.shape, starts, new.shape)] = new
        return made

    return Op(update)


# ---- gather and scatter ----------------------------------------------------------------------------


class _Places:
    """How windows of an operand are addressed: shared by gather and scatter.

    Axes of the operand with an index array come first (``moved``), then those taken whole. ``order`` brings
    the axes of (batch, windows of indexed axes, whole axes) into that of gather's result.
    """

    def __init__(
        self,
        shape: Sequence[Any],
        sizes: Sequence[Any],
        index_map: Sequence[int],
        dropped: Sequence[int],
        batched: Sequence[int],
        index_batch: Sequence[int],
        offsets: Sequence[int],
        n_batch: int,
    ):
        rank = len(shape)
        self.n_batch = n_batch
        self.index_map = axes_of(index_map)
        windows = [d for d in range(rank) if d not in dropped and d not in batched]
        self.whole = [d for d in windows if d not in self.index_map and _same(sizes[d], shape[d])]
        self.moved = [d for d in range(rank) if d not in self.whole]
        self.perm = (*self.moved, *self.whole)
        self.turned = self.perm != tuple(range(rank))
        self.batched = dict(zip(batched, index_batch, strict=True))
        self.inner = [d for d in windows if d in self.moved]  # axes whose window is spelt out
        #: Where each axis of (batch, inner, whole) stands in the result of gather or in scatter's updates.
        place = dict(zip(windows, sorted(offsets), strict=True))
        rest = [k for k in range(n_batch + len(windows)) if k not in place.values()]
        self.out = tuple([*rest, *[place[d] for d in self.inner], *[place[d] for d in self.whole]])
        self.plain = self.out == tuple(range(len(self.out)))

    def keys(
        self, indices: Any, shape: Sequence[int], sizes: Sequence[int], clip: bool
    ) -> tuple[list[Any], Any]:
        """An index array for each moved axis, and which windows lie inside (None: all)."""
        extra = len(self.inner)
        batch = indices.shape[:-1]
        inside: Any = None
        made = []
        for d in self.moved:
            at: Any = 0
            if d in self.index_map:
                at = indices[..., self.index_map.index(d)]
                if at.dtype.kind == "u":
                    at = at.astype(np.int64)
                top = shape[d] - sizes[d]
                good = (at >= 0) & (at <= top)
                if not good.all():
                    if not clip:
                        inside = good if inside is None else inside & good
                    at = np.minimum(np.maximum(at, 0), max(top, 0))
            elif d in self.batched:
                k = self.batched[d]
                at = np.arange(shape[d]).reshape(beside((shape[d],), (k,), len(batch)))
            if extra:
                at = np.asarray(at)
                at = at.reshape(at.shape + (1,) * extra) if at.ndim else at
                if d in self.inner:
                    k = self.inner.index(d)
                    at = at + np.arange(sizes[d]).reshape(beside((sizes[d],), (k,), extra))
            made.append(at)
        return made, inside

    def window(
        self, at: Any, shape: Sequence[int], sizes: Sequence[int], clip: bool
    ) -> tuple[Any, ...] | None:
        """The key of the moved axes where there is one window alone, which is a view; None where it lies outside."""
        made: list[Any] = []
        for d in self.moved:
            first = int(at[self.index_map.index(d)]) if d in self.index_map else 0
            top = max(shape[d] - sizes[d], 0)
            if not 0 <= first <= top:
                if not clip:
                    return None
                first = min(max(first, 0), top)
            made.append(slice(first, first + sizes[d]) if d in self.inner else first)
        return (*made, ...)


def _same(a: Any, b: Any) -> bool:
    return bool(a is b or a == b)


def _mode(eqn: Any) -> str:
    name = str(getattr(eqn.params["mode"], "name", eqn.params["mode"]))
    if name not in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"):
        raise NotHere(f"indices of mode {name}")
    return name


def _gather(eqn: Any) -> Op:
    dn, sizes = eqn.params["dimension_numbers"], tuple(eqn.params["slice_sizes"])
    operand, indices = (v.aval for v in eqn.invars)
    places = _Places(
        operand.shape, sizes, dn.start_index_map, dn.collapsed_slice_dims, dn.operand_batching_dims,
        dn.start_indices_batching_dims, dn.offset_dims, len(indices.shape) - 1,
    )  # fmt: skip
    clip = _mode(eqn) != "FILL_OR_DROP"
    fill = eqn.params["fill_value"]
    dtype = dtype_out(eqn)
    if fill is None and not clip:
        fill = (
            np.nan
            if is_float(dtype) or dtype.kind == "c"
            else least(dtype)
            if dtype.kind == "i"
            else True
        )
        if dtype.kind == "u":
            fill = np.iinfo(dtype).max
    back = tuple(int(k) for k in np.argsort(places.out)) if not places.plain else None
    lone = (
        len(places.moved) == 1
        and not places.turned
        and not places.inner
        and places.moved[0] in places.index_map
    )

    def gather(x: Any, at: Any, sizes: tuple[int, ...]) -> Any:
        x, at = np.asarray(x), np.asarray(at)
        if x.size == 0 and any(x.shape[d] == 0 for d in places.index_map):
            shape = (*at.shape[:-1], *[sizes[d] for d in (*places.inner, *places.whole)])
            made = np.zeros(shape, dtype) if clip else np.full(shape, fill, dtype)
            return made if back is None else made.transpose(back)
        if not places.n_batch:
            key = places.window(at, x.shape, sizes, clip)
            if key is None:
                made = np.full([sizes[d] for d in (*places.inner, *places.whole)], fill, dtype)
            else:
                made = (x.transpose(places.perm) if places.turned else x)[key]
            return made if back is None else made.transpose(back)
        keys, inside = places.keys(at, x.shape, sizes, clip)
        if lone:
            made = x.take(keys[0], axis=0)
        else:
            made = (x.transpose(places.perm) if places.turned else x)[tuple(keys)] if keys else x
            lead = (*at.shape[:-1], *[sizes[d] for d in places.inner])
            if made.ndim != len(places.out) or made.shape[: len(lead)] != lead:
                made = np.broadcast_to(made, (*lead, *made.shape[made.ndim - len(places.whole) :]))
        if inside is not None:
            good = inside.reshape(inside.shape + (1,) * (made.ndim - inside.ndim))
            made = np.where(good, made, dtype.type(fill))
        return made if back is None else made.transpose(back)

    return Op(gather, (sizes,))


_SCATTERS: dict[str, Any] = {"scatter": None} | {
    f"scatter{sign}{name}": ufunc
    for sign in "-_"  # JAX spells them in both ways
    for name, ufunc in dict(
        add=np.add, sub=np.subtract, mul=np.multiply, min=np.minimum, max=np.maximum
    ).items()
}


def _scatter(eqn: Any) -> Op:
    name = eqn.primitive.name
    body = eqn.params.get("update_jaxpr")
    if name == "scatter" and body is not None and getattr(body, "jaxpr", body).eqns:
        raise NotHere("a scatter with a function of its own")
    ufunc = _SCATTERS[name]
    dn = eqn.params["dimension_numbers"]
    operand, indices, updates = (v.aval for v in eqn.invars)
    rank = len(operand.shape)
    dropped = (*dn.inserted_window_dims, *dn.operand_batching_dims)
    kept = [d for d in range(rank) if d not in dropped]
    sizes: list[Any] = [1] * rank
    for d, k in zip(kept, sorted(dn.update_window_dims), strict=True):
        sizes[d] = updates.shape[k]
    places = _Places(
        operand.shape, sizes, dn.scatter_dims_to_operand_dims, dn.inserted_window_dims, dn.operand_batching_dims,
        dn.scatter_indices_batching_dims, dn.update_window_dims, len(indices.shape) - 1,
    )  # fmt: skip
    clip = _mode(eqn) == "CLIP"
    dtype = dtype_in(eqn)

    def scatter(x: Any, at: Any, new: Any, sizes: tuple[int, ...]) -> Any:
        at, new = np.asarray(at), np.asarray(new)
        made = np.array(x, np.float32 if half else dtype)
        if half:
            new = new.astype(np.float32)
        if new.size == 0 or made.size == 0:
            return made.astype(dtype) if half else made
        if not places.plain:
            new = new.transpose(places.out)
        view = made.transpose(places.perm) if places.turned else made
        if not places.n_batch:
            window = places.window(at, made.shape, sizes, clip)
            if window is not None:
                view[window] = new if ufunc is None else ufunc(view[window], new)
            return made.astype(dtype) if half else made
        keys, inside = places.keys(at, made.shape, sizes, clip)
        if inside is not None:
            # The windows inside alone, in one row.
            n, lead, tail = len(places.inner), at.shape[:-1], new.shape[len(at.shape) - 1 :]
            spelt = [sizes[d] for d in places.inner]
            full = np.broadcast_shapes(
                *[np.shape(k) for k in keys], (*lead, *[1] * n), (*[1] * len(lead), *spelt)
            )
            keys = [
                np.broadcast_to(k, full).reshape((-1, *spelt))[inside.reshape(-1)] for k in keys
            ]
            new = new.reshape((-1, *tail))[inside.reshape(-1)]
        if not keys:
            keys = [...]
        key = tuple(keys)
        if ufunc is None:
            view[key] = new
        elif ufunc is not np.add or not _add_rows(view, key, new):
            ufunc.at(view, key, new)
        return made.astype(dtype) if half else made

    half = ufunc is not None and is_half(dtype)
    return Op(scatter, (tuple(sizes),))


#: So many numbers in rows, at least, are added up by a product with a sparse matrix, which takes 0.7 to 1.5 ns for each
#: where NumPy takes 3 to 10. After how many SciPy is asked, whose import takes 0.1 s.
_ADDED, _SCIPY_AFTER = 1 << 14, 1 << 24
_added = [0]


def _add_rows(x: Any, key: tuple[Any, ...], rows: Any) -> bool:
    """Add many rows, in their order, to those of ``x`` that ``key`` numbers, all of them zeros without a sign.

    False where NumPy is to do it.
    """
    if (
        len(key) != 1
        or rows.size < _ADDED
        or rows.dtype not in (np.float32, np.float64)
        or rows.shape[np.ndim(key[0]) :] != x.shape[1:]
        or x.ndim < 2
    ):
        return False
    _added[0] += rows.size
    if _added[0] < _SCIPY_AFTER or x.view(f"i{x.itemsize}").any():
        return False
    try:
        from scipy import sparse
    except ImportError:
        return False
    at = key[0].reshape(-1)
    which = sparse.coo_array(
        (np.ones(len(at), rows.dtype), (at, np.arange(len(at)))), (len(x), len(at))
    )
    x[...] = (which.tocsr() @ rows.reshape(len(at), -1)).reshape(x.shape)
    return True


def _barrier(eqn: Any) -> Op:
    return Op(lambda *xs: xs, many=True)


ARRAYS: dict[str, Rule] = {
    "broadcast_in_dim": _broadcast, "concatenate": _concatenate, "dim_as_value": _dim, "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice, "empty": _empty, "empty2": _empty, "expand_dims": _to_shape,
    "gather": _gather, "iota": _iota, "optimization_barrier": _barrier, "pad": _pad, "reshape": _reshape, "rev": _rev,
    "slice": _slice, "split": _split, "squeeze": _to_shape, "stack": _stack,
    "tile": _tile, "transpose": _transpose, "unstack": _unstack, **dict.fromkeys(_SCATTERS, _scatter),
}  # fmt: skip
