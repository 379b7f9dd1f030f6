"""The three products of a convolution, each in the forms that a plan may name: images with their channels last.

x (N, H, W, C) and w, (O, KH, KW, C) or (O, C, KH, KW), give y (N, OH, OW, O). Each product is bilinear, and the other two
are its transposes. As primitives they keep x and w themselves for the backward pass: never x's patches, which are larger
by the kernel's number of elements, nor w in another order.
"""

from __future__ import annotations

from functools import cache, partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from mxjax.core.compile.cpu_product import materialize
from mxjax.ops.lowering import grouped, winograd
from mxjax.ops.lowering.columns import Window, col2im, im2col
from mxjax.ops.lowering.convolution_plan import Plan, blocks_in, choose, neighbours
from mxjax.ops.lowering.linear import bilinear_triple, linear_pair
from mxjax.ops.lowering.product import NARROW as SHORT

# A weight gradient sums over the batch: patches that it alone needs are made, and gone again, so many
# bytes at a time.
PIECE_BYTES = 2 << 20
# Bands of one image's rows may be so many times smaller, where its rows are not divided better.
WASTE = 4
# The same where memory is short. There a gradient that is larger is made of so many channels at least at a time.
LEAN_BYTES = 512 << 10
BLOCK = 32
# At most so many pieces of an input's gradient, which are all written down in the program.
PIECES = 8


def _lax(x, w, shape):
    return lax.conv_general_dilated(
        x,
        w,
        shape.stride,
        [(p, p) for p in shape.pad],
        rhs_dilation=shape.dilate,
        dimension_numbers=("NHWC", "OIHW" if shape.first else "OHWI", "NHWC"),
        feature_group_count=shape.groups,
    )


def _blocks_of(shape, parts):
    """The shape of one of so many convolutions of one group, and what cuts the k-th part out of an array along its last
    or its first axis."""

    def cut(a, k, axis):
        size = a.shape[axis] // parts
        return lax.slice_in_dim(a, k * size, (k + 1) * size, axis=axis)

    return shape._replace(groups=1), cut


def _dense_plan(x, w_shape, shape):
    own = (w_shape[0], *shape.kernel, w_shape[shape.axis])
    return choose(
        "cpu", x.dtype, x.shape, own, shape.stride, shape.dilate, shape.pad, 1, shape.lean
    )


def _abreast(x, w, shape):
    """The same with filters for several pixels that lie side by side, each moved by as much in the kernel's width.

    They have zeros where their neighbours read: where an image is not finite, that many pixels more are not (as in
    Winograd's and Fourier's ways).
    """
    count, stride = neighbours(shape.window.out[1], len(w)), shape.stride[1]
    width = 3 if shape.first else 2

    def moved(k):
        around = k * stride, (count - 1 - k) * stride
        return jnp.pad(w, [around if axis == width else (0, 0) for axis in range(4)])

    filters = jnp.concatenate([moved(k) for k in range(count)])
    out = _lax(x, filters, shape._replace(stride=(shape.stride[0], count * stride)))
    return out.reshape(len(x), *shape.window.out, len(w))


def _mirrored(w, shape):
    """With which weight and shape the convolution of a result's gradient is the image's, where the stride is 1."""
    w = lax.rev(w, (2, 3) if shape.first else (1, 2))
    return jnp.swapaxes(w, 0, shape.axis), _mirrored_shape(shape)


def _mirrored_shape(shape):
    pad = [d * (k - 1) - p for d, k, p in zip(shape.dilate, shape.kernel, shape.pad, strict=True)]
    return shape._replace(size=shape.window.out, pad=tuple(pad))


def _rows(a):
    return a.reshape(-1, a.shape[-1])


def _by_channel(n, filters, shape):
    """Whether patches lie as the weight does, channels first, which spares it the change of order.

    Either they or the weight change their order for a product of both: the smaller ones.
    """
    return shape.first and n * prod(shape.window.out) <= filters


def _patches(x, shape, by_channel):
    """x as one row of all its kernel's elements per output pixel."""
    if shape.kernel == (1, 1) and not any(shape.pad):
        return _rows(x[:, :: shape.stride[0], :: shape.stride[1]])
    if any(shape.pad):
        ph, pw = shape.pad
        x = jnp.pad(x, ((0, 0), (ph, ph), (pw, pw), (0, 0)))
    cols = im2col(x, geometry=shape.window)
    size = prod(shape.kernel)
    if by_channel:
        cols = materialize(_swapped(cols.reshape(-1, size, x.shape[-1])))
    return cols.reshape(-1, size * x.shape[-1])


def _swapped(a):
    """Three axes with the last two exchanged, a kernel's elements one of them: by its height and width XLA:CPU takes up to
    five times as long (392 patches of 3x3 and 256 channels, ms of one core: 5.3 and 1.0)."""
    return jnp.swapaxes(a, 1, 2)


def _filters(w, shape, by_channel):
    """w as one row per filter, in the order of the patches."""
    if shape.first and not by_channel:
        w = _swapped(w.reshape(*w.shape[:2], -1))
    return w.reshape(len(w), -1)


# ---- products of bfloat16, with sums in float32 ---------------------------------------------------
def _together(images, out, patch, filters):
    """How many images' patches are made at a time: whole ones, no more than PIECE_BYTES or the weight's gradient."""
    most = max(PIECE_BYTES, 2 * filters * patch) // (2 * prod(out) * patch)
    return max(n for n in range(1, images + 1) if images % n == 0 and n <= max(1, most))


def _in_turns(fn, a, size):
    """fn(a), so many images at a time."""
    if size == len(a):
        return fn(a)
    made = lax.map(fn, a.reshape(-1, size, *a.shape[1:]))
    return made.reshape(len(a), *made.shape[2:])


def _summed_wide(a, b, axis):
    return lax.dot_general(a, b, (((1,), (axis,)), ((), ())), preferred_element_type=jnp.float32)


def _narrow_value(x, w, shape):
    filters = _filters(w, shape, False)

    def some(x):
        out = _summed_wide(_patches(x, shape, False), filters, 1).astype(x.dtype)
        return out.reshape(len(x), *shape.window.out, -1)

    return _in_turns(some, x, _together(len(x), shape.window.out, filters.shape[1], len(w)))


def _narrow_input_gradient(g, w, shape):
    filters, (ph, pw), (high, wide) = _filters(w, shape, False), shape.pad, shape.size

    def some(g):
        cols = _summed_wide(_rows(g), filters, 0)
        cols = cols.reshape(*g.shape[:3], *shape.kernel, -1)
        padded = col2im(cols, geometry=shape.window)
        return padded[:, ph : ph + high, pw : pw + wide].astype(g.dtype)

    return _in_turns(some, g, _together(len(g), g.shape[1:3], filters.shape[1], len(w)))


def _narrow_weight_gradient(x, g, shape):
    patch = prod(shape.kernel) * x.shape[-1]
    size = _together(len(x), shape.window.out, patch, g.shape[-1])

    def some(k):
        read, given = (
            a if size == len(x) else lax.dynamic_slice_in_dim(a, k * size, size) for a in (x, g)
        )
        return _summed_wide(materialize(_rows(given).T), _patches(read, shape, False), 0)

    sums = some(0)
    if size < len(x):
        sums = lax.fori_loop(1, len(x) // size, lambda k, sums: sums + some(k), sums)
    return _in_order(sums.astype(x.dtype), x.shape[-1], shape)


def _in_order(found, channels, shape):
    """A weight's gradient of rows of a patch's order."""
    if not shape.first:
        return found.reshape(len(found), *shape.kernel, channels)
    found = materialize(_swapped(found.reshape(len(found), -1, channels)))
    return found.reshape(len(found), channels, *shape.kernel)


def _of_any_width(fn, narrow, at):
    """A pass of arrays of 16 bits as well: ``narrow``, or in float32, rounded at the end; ``at``: which of a plan's."""

    def run(a, b, *, plan, shape):
        if str(a.dtype) not in SHORT:
            return fn(a, b, plan=plan, shape=shape)
        if plan[at] == "narrow":
            return narrow(a, b, shape)
        if at:  # what the value has widened does not wait for the backward pass
            a, b = lax.optimization_barrier((a, b))
        wide = fn(a.astype(jnp.float32), b.astype(jnp.float32), plan=plan, shape=shape)
        return wide.astype(a.dtype)

    return run


# ---- the three passes -----------------------------------------------------------------------------
def _value(x, w, *, plan, shape):
    if plan.value == "lax":
        return _lax(x, w, shape)
    if plan.value == "abreast":
        return _abreast(x, w, shape)
    if plan.value == "winograd":
        return winograd.value(x, w, shape)
    if plan.value == "shifts":
        return grouped.shifted(x, w, shape)
    if parts := blocks_in(plan.value):
        one, cut = _blocks_of(shape, parts)
        made = []
        for k in range(parts):
            images, filters = (
                cut(x, k, 3),
                grouped.dense(cut(w, k, 0), shape.groups // parts, shape.axis),
            )
            made.append(
                _value(images, filters, plan=_dense_plan(images, filters.shape, one), shape=one)
            )
        return jnp.concatenate(made, -1)
    pieces = _few(len(x), prod(shape.kernel) * x.shape[-1], len(w), shape)
    if pieces > 1:
        return _in_pieces(
            partial(_value, w=w, plan=plan, shape=shape._replace(lean=False)), x, pieces
        )
    by_channel = _by_channel(len(x), len(w), shape)
    rows, filters = _patches(x, shape, by_channel), _filters(w, shape, by_channel)
    out = lax.dot_general(rows, filters, (((1,), (1,)), ((), ())))
    return out.reshape(x.shape[0], *shape.window.out, -1)


def _input_gradient(g, w, *, plan, shape):
    channels = w.shape[shape.axis] * shape.groups
    if plan.input_gradient == "lax":
        x = jax.ShapeDtypeStruct((g.shape[0], *shape.size, channels), g.dtype)
        return jax.linear_transpose(lambda x: _lax(x, w, shape), x)(g)[0]
    if plan.input_gradient == "abreast":
        return _abreast(g, *_mirrored(w, shape))
    if plan.input_gradient == "winograd":
        return winograd.input_gradient(g, w, shape)
    if plan.input_gradient == "shifts":
        return grouped.shifted_input_gradient(g, w, shape)
    if parts := blocks_in(plan.input_gradient):
        one, cut = _blocks_of(shape, parts)
        made = []
        for k in range(parts):
            filters, given = (
                grouped.dense(cut(w, k, 0), shape.groups // parts, shape.axis),
                cut(g, k, 3),
            )
            image = jax.ShapeDtypeStruct((len(g), *shape.size, channels // parts), g.dtype)
            made.append(
                _input_gradient(
                    given, filters, plan=_dense_plan(image, filters.shape, one), shape=one
                )
            )
        return jnp.concatenate(made, -1)
    pieces = _few(len(g), prod(shape.window.out) * prod(shape.kernel), prod(shape.size), shape)
    if pieces > 1:
        return _in_pieces(
            partial(_input_gradient, w=w, plan=plan, shape=shape._replace(lean=False)), g, pieces
        )
    by_channel = _by_channel(len(g), len(w), shape)
    cols = _rows(g) @ _filters(w, shape, by_channel)
    if by_channel:
        cols = _swapped(cols.reshape(len(cols), channels, -1))
    cols = cols.reshape(*g.shape[:3], *shape.kernel, channels)
    padded = col2im(cols, geometry=shape.window)
    (ph, pw), (h, w_) = shape.pad, shape.size
    return padded[:, ph : ph + h, pw : pw + w_]


def _turns(shape):
    """Whether image and result's gradient may change places."""
    return not shape.lean and shape.stride == (1, 1) and min(_mirrored_shape(shape).pad) >= 0


def _few(images, columns, made, shape):
    """In how many pieces the images are treated: where memory is short in so many, or a few, that the ``columns`` of a
    piece are no larger than what is ``made`` of all."""
    return min(PIECES, images, -(-columns // max(1, made))) if shape.lean else 1


def _in_pieces(fn, x, pieces):
    """fn(x), piece by piece, each written before the next begins."""
    size = -(-len(x) // pieces)
    out = fn(x[:size])
    out = lax.pad(
        out, jnp.zeros((), out.dtype), [(0, len(x) - size, 0), *[(0, 0, 0)] * (out.ndim - 1)]
    )
    for k in range(size, len(x), size):
        x, out = lax.optimization_barrier((x, out))
        out = lax.dynamic_update_slice_in_dim(out, fn(x[k : k + size]), k, 0)
    return out


def _weight_gradient(x, g, *, plan, shape):
    filters, channels = g.shape[-1], x.shape[-1] // shape.groups
    own = (filters, channels, *shape.kernel) if shape.first else (filters, *shape.kernel, channels)
    if plan.weight_gradient == "winograd":
        return winograd.weight_gradient(x, g, shape)
    if plan.weight_gradient == "shifts":
        return grouped.shifted_weight_gradient(x, g, shape).reshape(own)
    if parts := blocks_in(plan.weight_gradient):
        one, cut = _blocks_of(shape, parts)
        made = []
        for k in range(parts):
            images, given = cut(x, k, 3), cut(g, k, 3)
            whole = list(own)
            whole[0], whole[shape.axis] = filters // parts, images.shape[-1]
            found = _weight_gradient(
                images, given, plan=_dense_plan(images, tuple(whole), one), shape=one
            )
            made.append(grouped.of_groups(found, shape.groups // parts, shape.axis))
        return jnp.concatenate(made, 0)
    if plan.weight_gradient == "lax":
        w = jax.ShapeDtypeStruct(own, x.dtype)
        out = jax.linear_transpose(lambda w: _lax(x, w, shape), w)(g)[0]
        return materialize(out) if shape.first else out
    if filters < channels and plan.value != "cols" and _turns(shape):
        # Of the gradient there are fewer patches: a weight's gradient is one for both, but for its order.
        return materialize(
            _mirrored(_weight_gradient(g, x, plan=plan, shape=_mirrored_shape(shape)), shape)[0]
        )
    by_channel = _by_channel(len(g), filters, shape)

    def product(x, g, shape):
        # Small dimension first: with it last this product runs at half the speed.
        return lax.dot_general(_rows(g), _patches(x, shape, by_channel), (((0,), (0,)), ((), ())))

    size = len(x) if plan.value == "cols" and not shape.lean else _piece(x, g, shape)
    blocks = _blocks(x, filters, shape)
    if blocks > 1:
        return _in_blocks(partial(_weight_gradient, plan=plan), x, g, blocks, shape)
    piece, cut = (_bands if size < 1 else _images)(x, g, shape, size)
    # The first outside of the loop: zeros to begin with would be shared by all loops, and wait from one to the next.
    first = cut(0)
    if shape.lean and shape.kernel != (1, 1):  # not before there is what its patches are needed for
        first = lax.optimization_barrier(first)
    out = product(*first, piece)
    if size < len(x):
        out = lax.fori_loop(
            1, round(len(x) / size), lambda k, out: out + product(*cut(k), piece), out
        )
    # In its own order at once: XLA:CPU would carry it in the product's order to the end of the program
    # and copy it there, when that takes room for two of every weight.
    return out.reshape(own) if by_channel else _in_order(out, channels, shape)


def _piece(x, g, shape):
    """How many images' patches a weight gradient makes at a time, or what share of one's; its sum takes room as well."""
    item = x.dtype.itemsize
    one = prod(shape.window.out) * prod(shape.kernel) * x.shape[-1] * item
    total = g.shape[-1] * prod(shape.kernel) * x.shape[-1] * item
    if shape.kernel == (1, 1) or len(x) * one <= max(PIECE_BYTES, 2 * total):
        return len(x)
    most = max(LEAN_BYTES if shape.lean else PIECE_BYTES, total)
    if one > most:
        rows = shape.window.out[0]
        parts = next(
            n for n in range(1, rows + 1) if rows % n == 0 and (one <= n * most or n == rows)
        )
        if shape.lean or parts * most <= WASTE * one:
            return 1 / parts if parts > 1 else 1
    return max(n for n in range(1, len(x) + 1) if len(x) % n == 0 and n <= max(1, most // one))


def _blocks(x, filters, shape):
    """In how many blocks of channels a weight's gradient is made: where a sum over pieces of the batch would be carried
    through a loop in the gradient's own room, which then waits empty, though patches are large beside it."""
    channels = x.shape[-1]
    if not shape.lean or shape.kernel == (1, 1):
        return 1
    patches = len(x) * prod(shape.window.out) * prod(shape.kernel) * channels * x.dtype.itemsize
    total = filters * prod(shape.kernel) * channels * x.dtype.itemsize
    for n in range(1, PIECES + 1):
        if channels % n == 0 and patches <= n * LEAN_BYTES:
            return n if channels >= n * BLOCK and patches + total < n * patches else 1
    return 1


def _in_blocks(fn, x, g, blocks, shape):
    """fn(x, g, shape=shape), a weight's gradient, of so many blocks of x's channels, each written before the next
    begins."""
    axis, size = 1 if shape.first else 3, x.shape[-1] // blocks
    shape = shape._replace(lean=False)
    x, g = lax.optimization_barrier((x, g))
    out = fn(x[..., :size], g, shape=shape)
    out = lax.pad(
        out,
        jnp.zeros((), out.dtype),
        [(0, (d == axis) * (x.shape[-1] - size), 0) for d in range(4)],
    )
    for k in range(size, x.shape[-1], size):
        g, out = lax.optimization_barrier((g, out))
        out = lax.dynamic_update_slice_in_dim(
            out, fn(x[..., k : k + size], g, shape=shape), k, axis
        )
    return out


def _images(x, g, shape, size):
    """So many images at a time: their shape, and what cuts the k-th piece out of both arrays."""

    def cut(k):
        if size == len(x):
            return x, g
        return tuple(lax.dynamic_slice_in_dim(a, k * size, size) for a in (x, g))

    return shape, cut


def _bands(x, g, shape, share):
    """A band of one image at a time, what so many of its rows are made of."""
    (out, _), bands = shape.window.out, round(1 / share)
    rows = out // bands
    (high, wide), (kernel, _), (stride, _), (dilate, _), (up, left) = shape[:5]
    read = (rows - 1) * stride + (kernel - 1) * dilate + 1
    piece = shape._replace(size=(read, wide + 2 * left), pad=(0, 0))

    def cut(k):
        image, band = k // bands, k % bands
        one = jnp.pad(
            lax.dynamic_slice_in_dim(x, image, 1), ((0, 0), (up, up), (left, left), (0, 0))
        )
        given = lax.dynamic_slice(g, (image, band * rows, 0, 0), (1, rows, *g.shape[2:]))
        return lax.dynamic_slice_in_dim(one, band * rows * stride, read, 1), given

    return piece, cut


def _pick(x, *, geometry):
    """The pixels that a kernel of one element reads: ``geometry`` is the image's size and the stride."""
    _, (sh, sw) = geometry
    return x[:, ::sh, ::sw]


def _spread(g, *, geometry):
    """An image of zeros but for those pixels."""
    size, stride = geometry
    return col2im(g[:, :, :, None, None], geometry=Window(size, (1, 1), stride, (1, 1)))


@cache
def _strided() -> tuple[Any, Any]:
    return linear_pair("convolution_strided", _pick, _spread)


def _thin(*, plan, shape):
    """The gradient of a strided kernel of one element at the pixels that it reads, and how to spread it."""
    if not shape.lean or shape.kernel != (1, 1) or shape.stride == (1, 1) or any(shape.pad):
        return None
    small = shape._replace(size=shape.window.out, stride=(1, 1))
    return {"plan": plan, "shape": small}, partial(
        _strided()[1].bind, geometry=(shape.size, shape.stride)
    )


@cache
def primitives() -> tuple[Any, Any, Any]:
    passes = (
        _of_any_width(_value, _narrow_value, 0),
        _of_any_width(_input_gradient, _narrow_input_gradient, 1),
        _of_any_width(_weight_gradient, _narrow_weight_gradient, 2),
    )
    return bilinear_triple("convolution", *passes, _thin, _quick)


def _quick(plan, shape):
    """The plan of a quick program: what LLVM does not optimise takes 3 to 16 times as long, and a library of XLA's does
    not go by it. Few channels (8, 8, 64, 64) took 15 and 41 ms, forward and backward, and take 3 and 6; NumPy 5 and 7.

    Where a kernel covers more than its image XLA exchanges the two, and the library refuses what is left: 512 channels
    of 2x2 images take 570 ms for 7.
    """
    if (shape.kernel == (1, 1) and not any(shape.pad)) or shape.groups > 1 or shape.lean:
        return plan
    size, out, kernel = prod(shape.size), prod(shape.window.out), prod(shape.kernel)
    small = min(size, out) < kernel
    forms = size < kernel, small, small or out > size
    return Plan(*["cols" if covered else "lax" for covered in forms])
