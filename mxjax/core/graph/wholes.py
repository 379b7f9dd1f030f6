"""Graphs whose gradients go through integers: MXNet has a formula there, JAX's derivative of a whole graph is 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ..calls.call import of_wholes
from ..calls.segment import SCALAR, Step
from ..compile.compiler import wide_types
from .graph import Graph


def through_integers(graph: Graph, wants: Sequence[bool]) -> bool:
    """Whether a result depends on a wanted input through integers, so that each call's own derivative is asked.

    >>> import mxjax as mx
    >>> graph = mx.gluon.nn.HybridLambda(lambda x: x.astype("int32") * 2.0).graph(mx.np.ones(3))
    >>> through_integers(graph, [True])
    True
    """
    wants = tuple(wants[: len(graph.avals)])
    found = graph.through.get(wants)
    if found is None:
        found = graph.through[wants] = _through_integers(graph, wants)
    return found


def _through_integers(graph: Graph, wants: tuple[bool, ...]) -> bool:
    avals = {-1 - i: a for i, a in enumerate(graph.avals)}
    # The numbers on which a gradient arrives: whether it came through integers.
    there = {-1 - i: False for i, w in enumerate(wants) if w}
    for step in graph.steps:
        avals.update(enumerate(step.avals, step.first))
        call, moving = step.call, [i for i in step.args if i in there]
        if not moving or call is None or not call.smooth:
            continue
        whole = [i for i in moving if not avals[i].differentiable]
        if whole and not (call.row.wholes and _takes_floats(step, avals, whole)):
            moving, whole = [i for i in moving if i not in whole], []
            if not moving:
                continue
        through = bool(whole) or any(there[i] for i in moving)
        for k, a in enumerate(step.avals, step.first):
            if a.differentiable or call.row.wholes:
                there[k] = through
    return any(there.get(k, False) and avals[k].differentiable for k in graph.outputs)


def _takes_floats(step: Step, avals: Mapping[int, Any], whole: Sequence[int]) -> bool:
    """Whether a call computes what it does of floats in place of integers: these, or all (`jaxprs.whole_gradients`)."""
    call = step.call
    if call is None or call.graph is not None:
        return False
    if any(i >= SCALAR for i in step.args):
        return len(step.args) == 2  # with a number
    for all_of_them in (False, True):
        operands = []
        for i in step.args:
            a = avals[i]
            dtype = np.dtype(a.dtype)
            if i in whole or (all_of_them and dtype.kind in "biu"):
                dtype = np.dtype(np.float64)
            operands.append(jax.ShapeDtypeStruct(a.shape, dtype))
        try:
            with wide_types():
                jax.eval_shape(of_wholes(call), *operands)
            return True
        except (TypeError, ValueError, IndexError, NotImplementedError):
            continue
    return False
