"""JAX's private names that mxjax uses, each with what is lost where a JAX has none of that name.

This is the one place that looks them up: `find` gives what a name stands for, or None, and whoever asks has another
way. `lost` tells which are missing; `mx.runtime.feature_list()` and ``python -m mxjax config`` show it.
"""

from __future__ import annotations

import functools
import importlib
import operator
import sys
from typing import Any, NamedTuple

#: The logger of JAX that writes what callbacks raise, and the module of its flat trees (from 0.12 on).
CALLBACKS_LOGGER = "jax._src.callback"
FLAT_TREES = "jax._src.flattree"


class Private(NamedTuple):
    """Where JAX has a name, newest place first (``module:attribute``), and what is lost without it.

    Where nothing is said to be lost, some supported versions have no such name, and need none.
    """

    places: tuple[str, ...]
    lost: str


_TRACES = "JAX's cache of traces grows without a bound"
_DIGESTS = "kept programs are lowered before they are looked up, which takes longer"
_ADDRESS = "CPUs of several processes listen where the machine's name points, not at DMLC_NODE_HOST"
_SMALL = "small arrays take three times as long to reach a device"
_QUICK = "calls are traced by jax.make_jaxpr, which takes twice as long"
_JAX_GRAD = "jax.grad refuses functions that return an array of mxjax's: they must return f(x).jax"

NAMES = {
    "ShapedArray": Private(("jax._src.core:ShapedArray",), _SMALL),
    "batched_device_put": Private(("jax._src.interpreters.pxla:batched_device_put",), _SMALL),
    "Static": Private(("jax._src.tree_util:Static",), ""),
    "FlatTree": Private(("jax._src.flattree:FlatTree", "jax._src.tree_util:FlatTree"), ""),
    "shape_poly": Private(
        ("jax._src.export.shape_poly:",), "calls are traced for each shape, not once for all"
    ),
    "user_context": Private(
        ("jax._src.source_info_util:user_context",), "profiles lose names inside cut graphs"
    ),
    "current_name_stack": Private(
        ("jax._src.source_info_util:current_name_stack",), "profiles lose names inside cut graphs"
    ),
    "trace_ctx": Private(("jax._src.core:trace_ctx",), _TRACES),
    "trace_to_jaxpr": Private(("jax._src.interpreters.partial_eval:trace_to_jaxpr",), _TRACES),
    "runtime_tokens": Private(
        ("jax._src.dispatch:runtime_tokens",), "an error of a callback is raised by each later wait"
    ),
    "dce_jaxpr": Private(
        ("jax._src.interpreters.pxla:_dce_jaxpr",),
        "programs may outlive their network, until others take their place",
    ),
    "prngs": Private(("jax._src.random.prng:prngs", "jax._src.prng:prngs"), _DIGESTS),
    "Primitive": Private(("jax._src.core:Primitive",), _DIGESTS),
    "trace_context": Private(("jax._src.config:trace_context",), _DIGESTS),
    "cache_key": Private(("jax._src.cache_key:get",), "programs are not kept for the next process"),
    "LoweringParameters": Private(
        ("jax._src.interpreters.mlir:LoweringParameters",),
        "CPUs' programs compute random bits, arc tangents and maxima as XLA does, NaN and the last places included",
    ),
    "mlir": Private(
        ("jax._src.interpreters.mlir:",),
        "CPUs' programs compute random bits, arc tangents and maxima as XLA does, NaN and the last places included",
    ),
    "threefry2x32_p": Private(
        ("jax._src.random.threefry2x32:threefry2x32_p", "jax._src.prng:threefry2x32_p"),
        "CPUs' programs compute random bits, arc tangents and maxima as XLA does, NaN and the last places included",
    ),
    "api": Private(("jax._src.api:",), _JAX_GRAD),
    "lax": Private(("jax._src.lax.lax:",), _JAX_GRAD),
    "runtime_service": Private(
        ("jax._src.lib:_jax.get_distributed_runtime_service",),
        "jobs of several processes cannot be started",
    ),
    "gloo_collectives": Private(("jax._src.lib:_jax.make_gloo_tcp_collectives",), _ADDRESS),
    "cpu_collectives": Private(("jax._src.config:cpu_collectives_implementation",), _ADDRESS),
    "make_cpu_client": Private(("jax._src.xla_bridge:make_cpu_client",), _ADDRESS),
    "register_backend_factory": Private(
        ("jax._src.xla_bridge:register_backend_factory",), _ADDRESS
    ),
    "core": Private(("jax._src.core:",), _QUICK),
    "ad": Private(("jax._src.interpreters.ad:",), _QUICK),
    "partial_eval": Private(("jax._src.interpreters.partial_eval:",), _QUICK),
    "source_info": Private(("jax._src.source_info_util:",), _QUICK),
    "lu": Private(("jax._src.linear_util:",), _QUICK),
    "loops": Private(("jax._src.lax.control_flow.loops:",), _QUICK),
    "global_state": Private(
        ("jax._src.distributed:global_state",), "rank 0 is told to the others by the machine's name"
    ),
}


#: What is replaced in JAX for the whole process, with what it is for. `jax.grad` and its like ask the function's result
#: for its shape, and begin with a one of its kind; JAX has no protocol for results that are trees of one number, so
#: these functions answer for our arrays first, and are JAX's own for all else (`array/transformations.py`). And
#: JAX's module of loops sees the flag `jax_disable_jit` as off while a call is traced (`core/graph/tracing.py`).
REPLACED = {
    "jax._src.api:_check_scalar": _JAX_GRAD,
    "jax._src.lax.lax:_one": _JAX_GRAD,
    "jax._src.lax.lax:_one_vjp": _JAX_GRAD,
    "jax._src.lax.control_flow.loops:config": _QUICK,
}


@functools.cache
def find(name: str) -> Any:
    """What one of `NAMES` stands for in this JAX; None where it has no such name."""
    for place in NAMES[name].places:
        module, _, attribute = place.partition(":")
        try:
            found = importlib.import_module(module)
            return operator.attrgetter(attribute)(found) if attribute else found
        except (ImportError, AttributeError):
            continue
    return None


def lost() -> dict[str, str]:
    """The names that this JAX does not have, with what is lost; asking imports JAX."""
    return {
        name: private.lost for name, private in NAMES.items() if private.lost and find(name) is None
    }


def described() -> str:
    """In words for people: which private names this JAX does not have; asking imports JAX."""
    version, missing = importlib.import_module("jax").__version__, lost()
    if not missing:
        return f"JAX {version} has all {len(NAMES)} private names that mxjax looks for."
    lines = [f"  {name} ({NAMES[name].places[0]}): {what}" for name, what in missing.items()]
    return "\n".join([f"JAX {version} lacks private names that mxjax looks for:", *lines])


def backends() -> Any:
    """The backends that JAX has started, by name; None where JAX is not imported. Nothing is imported for it."""
    return getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None)


def modules() -> list[Any]:
    """JAX's modules that are loaded, private ones too."""
    return [module for name, module in list(sys.modules.items()) if name.startswith("jax._src.")]
