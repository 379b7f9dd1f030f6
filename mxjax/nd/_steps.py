"""Steps of optimizers that take lists of weights, and a scale that may be a number, as `mx.nd.contrib` has them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..array.classes import NDArray
from ..array.frontend import function
from ..modes import generation
from ..ops.table import TABLE, Op
from . import _internal

_STATES = ("mean", "var")


def _signature(required: tuple[str, ...], **optional: Any) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    found = [inspect.Parameter(n, kind) for n in required]
    found += [inspect.Parameter(n, kind, default=d) for n, d in optional.items()]
    return inspect.Signature([*found, inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)])


def _scale(scale: Any, weight: NDArray) -> NDArray:
    """The scale on the weight's device, as an array."""
    from . import full

    if isinstance(scale, NDArray):
        return scale.as_in_context(weight.context)
    return full((1,), scale, ctx=weight.context)


def _one(name: str, wide: bool) -> Callable[..., Any]:
    """The step of one weight."""
    takes = _signature(
        ("weight", "grad", *_STATES, *["weight32"] * wide, "rescale_grad", "lr", "eta"), beta1=0.9, beta2=0.999,
        epsilon=1e-8, wd=0.0, clip_gradient=-1.0, out=None, name=None,
    )  # fmt: skip

    def step(*args: Any, **kwargs: Any) -> Any:
        given = takes.bind(*args, **kwargs).arguments
        rest = given.pop("kwargs", {})
        given["rescale_grad"] = _scale(given["rescale_grad"], given["weight"])
        return getattr(_internal, "_" + name)(**given, **rest)

    return _named(
        step, name, takes, "Weight, gradient, mean, variance (and float32 copy), a scale, numbers."
    )


def _many(name: str, wide: bool, scaled: bool) -> Callable[..., Any]:
    """The step of many weights, whose arrays are given as lists."""
    size, lrs = ("size", "lrs") if scaled else ("num_tensors", "learning_rates")
    lists = ("weights", "grads", *_STATES, *["weights32"] * wide)
    after = ("rescale_grad", "lrs", "wds", "etas") if scaled else ("step_count", "lrs", "wds")
    takes = _signature(
        (*lists, *after), out=None, **({"name": None, size: 0} if scaled else {size: 0})
    )

    def step(*args: Any, **kwargs: Any) -> Any:
        given = takes.bind(*args, **kwargs).arguments
        rest = given.pop("kwargs", {})
        arrays = [given.pop(n) for n in lists]
        data = [x for of_one in zip(*arrays, strict=True) for x in of_one]
        if scaled:
            data.append(_scale(given.pop("rescale_grad"), arrays[0][0]))
        given["num_weights" if scaled else size] = given.pop(size, 0) or len(arrays[0])
        given[lrs] = given.pop("lrs")
        return getattr(_internal, "_" + name)(*data, **given, **rest)

    return _named(
        step, name, takes, "The arrays and numbers are lists, of an entry for each weight."
    )


_WORDS = {
    "weight": "the weight.",
    "grad": "the gradient, in the weight's shape.",
    "mean": "the mean of gradients, changed in place.",
    "var": "the mean of squared gradients, changed in place.",
    "weight32": "the float32 copy, changed in place.",
    "rescale_grad": "the scale of the gradient, a number or an array; where it is not finite nothing is done.",
    "lr": "the learning rate.",
    "eta": "the factor of the step.",
    "wd": "the weight decay.",
    "beta1": "the decay of the mean of gradients.",
    "beta2": "the decay of the mean of squared gradients.",
    "epsilon": "what is added to a denominator, against a division by zero.",
    "clip_gradient": "gradients are cut off at this absolute value; negative: never.",
    "step_count": "the number of each weight's step, from 1.",
    "size": "how many weights there are; counted without.",
    "num_tensors": "how many weights there are; counted without.",
    "out": "arrays for the new weights.",
    "name": "taken for compatibility.",
}


def _named(
    step: Callable[..., Any], name: str, takes: inspect.Signature, about: str
) -> Callable[..., Any]:
    step.__name__ = step.__qualname__ = name
    one = {
        p: p if p in _WORDS else p.replace("s32", "32").removesuffix("s")
        for p in takes.parameters
        if p != "kwargs"
    }
    words = "\n".join(f"  {p}: {_WORDS[n]}" for p, n in one.items())
    step.__doc__ = f"""One step: the new weights, into ``out`` if it is given; the states change in place. {about}

Args:
{words}

Returns:
  NDArray, or a list of them: the new weights, in their shapes and dtypes.
"""
    step.__signature__ = takes  # type: ignore[attr-defined]
    return step


def steps() -> dict[str, Callable[..., Any]]:
    """All of them by name."""
    made: dict[str, Callable[..., Any]] = {}
    for wide in (False, True):
        mp = "mp_" * wide
        for rule in ("adamw", "adabelief"):
            made[f"{mp}{rule}_update"] = _one(f"{mp}{rule}_update", wide)
            made[f"multi_{mp}{rule}_update"] = _many(f"multi_{mp}{rule}_update", wide, True)
        for rule in ("lamb", "lans"):
            made[f"multi_{mp}{rule}_update"] = _many(f"multi_{mp}{rule}_update", wide, False)
    return made


def of_both(rows: dict[str, Op], made: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """The functions of those rows that MXNet 1 takes otherwise (``older``), so that they look at the generation.

    There the gradient is clipped with the weight decay in it, epsilon stands under the root, and the state ``n`` of
    ``rmspropalex_update`` is the mean of squares and ``g`` that of gradients, which are the other way round in MXNet 2.
    Steps of Nesterov's momentum take the decay of the momentum from the weight that they have just written
    (``out=weight``).
    """
    return {name: _of_both(op, name, made[name]) for name, op in rows.items() if op.names.older}


def _of_both(op: Op, name: str, of_2: Callable[..., Any]) -> Callable[..., Any]:
    arrays = op.array_params
    rooted = TABLE.get(f"_rooted_{op.name.removeprefix('_')}")
    of_1 = function(rooted, name, NDArray, of_2.__module__) if rooted else of_2

    @functools.wraps(of_2)
    def either(*args: Any, **kwargs: Any) -> Any:
        step = of_2
        if generation() == 1:
            step = of_1
            given = {**dict(zip(arrays, args, strict=False)), **kwargs}
            if len(args) <= len(arrays) and arrays[-1] in given:
                if "mom" in given:
                    return _nesterov(step, given)
                args, kwargs = (), _clipped_with_decay(given)
                if "delta" in given:
                    kwargs["n"], kwargs["g"] = given["g"], given["n"]
        return step(*args, **kwargs)

    return either


def _nesterov(step: Callable[..., Any], given: dict[str, Any]) -> Any:
    written = given.get("weight32", given["weight"])
    beside = written is given["weight"] and given.get("out") is not written
    if beside or written.stype != "default":
        return step(**given)
    before = written.copy()
    made = step(**given)
    decay = float(given["lr"]) * float(given.get("wd", 0))
    if decay:
        given["mom"][:] = given["mom"] - decay * (written - before)
    return made


def _clipped_with_decay(given: dict[str, Any]) -> dict[str, Any]:
    name = "clip_grad" if "d" in given else "clip_gradient"
    bound, wd = float(given.get(name, -1)), float(given.get("wd", 0))
    if bound < 0 or not wd or given["grad"].stype != "default":
        return dict(given)
    grad = given["grad"].astype(given["weight"].dtype) * float(given.get("rescale_grad", 1))
    grad = (grad + wd * given["weight"]).clip(-bound, bound)
    return {**given, "grad": grad, "rescale_grad": 1.0, "wd": 0.0, name: -1.0}
