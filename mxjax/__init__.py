"""MXNet on anything XLA runs on: ``import mxjax as mx``."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from ._collection import paused

with paused():
    # The settings first: they tell JAX's libraries what those read when they are loaded.
    from . import settings as config

    # isort: split
    from .compat import modules as _modules

    # isort: split
    from . import autograd, device, engine, errors, nd, np, npx, random
    from . import nd as ndarray
    from .display import type_texts

from ._version import __version__
from .device import (
    Context,
    Device,
    cpu,
    cpu_pinned,
    current_context,
    current_device,
    gpu,
    gpu_memory_info,
    num_gpus,
    num_tpus,
    tpu,
)
from .errors import MXNetError
from .settings import RunConfig

if TYPE_CHECKING:  # what is loaded when it is first used
    from . import amp as amp
    from . import attribute as attribute
    from . import base as base
    from . import callback as callback
    from . import contrib as contrib
    from . import dlpack as dlpack
    from . import error as error
    from . import executor as executor
    from . import gluon as gluon
    from . import image as image
    from . import image as img  # noqa: F401
    from . import initializer as init  # noqa: F401
    from . import initializer as initializer
    from . import io as io
    from . import kvstore as kv  # noqa: F401
    from . import kvstore as kvstore
    from . import library as library
    from . import log as log
    from . import lr_scheduler as lr_scheduler
    from . import memonger as memonger
    from . import model as model
    from . import module as mod  # noqa: F401
    from . import module as module
    from . import monitor as mon  # noqa: F401
    from . import monitor as monitor
    from . import name as name
    from . import notebook as notebook
    from . import onnx as onnx
    from . import operator as operator
    from . import optimizer as opt  # noqa: F401
    from . import optimizer as optimizer
    from . import profiler as profiler
    from . import random as rnd  # noqa: F401
    from . import recordio as recordio
    from . import registry as registry
    from . import rnn as rnn
    from . import runtime as runtime
    from . import sharding as sharding
    from . import symbol as sym  # noqa: F401
    from . import symbol as symbol
    from . import test_utils as test_utils
    from . import util as util
    from . import visualization as visualization
    from . import visualization as viz  # noqa: F401
    from .attribute import AttrScope as AttrScope
    from .gluon import metric as metric
    from .memonger import dtr as dtr

# Loaded when first used, so that `import mxjax` stays quick: name -> module.
_LAZY = {
    "amp": "amp",
    "attribute": "attribute",
    "base": "base",
    "callback": "callback",
    "context": "context",
    "contrib": "contrib",
    "dlpack": "dlpack",
    "dtr": "memonger.dtr",
    "error": "error",
    "executor": "executor",
    "executor_manager": "executor_manager",
    "gluon": "gluon",
    "image": "image",
    "img": "image",
    "init": "initializer",
    "initializer": "initializer",
    "io": "io",
    "kv": "kvstore",
    "kvstore": "kvstore",
    "kvstore_server": "kvstore.kvstore_server",
    "libinfo": "libinfo",
    "library": "library",
    "log": "log",
    "lr_scheduler": "lr_scheduler",
    "memonger": "memonger",
    "metric": "gluon.metric",
    "misc": "misc",
    "mod": "module",
    "model": "model",
    "module": "module",
    "mon": "monitor",
    "monitor": "monitor",
    "name": "name",
    "notebook": "notebook",
    "numpy": "np",
    "numpy_dispatch_protocol": "numpy_dispatch_protocol",
    "numpy_extension": "npx",
    "numpy_op_signature": "numpy_op_signature",
    "onnx": "onnx",
    "operator": "operator",
    "opt": "optimizer",
    "optimizer": "optimizer",
    "profiler": "profiler",
    "recordio": "recordio",
    "registry": "registry",
    "rnd": "random",
    "rnn": "rnn",
    "runtime": "runtime",
    "sharding": "sharding",
    "sym": "symbol",
    "symbol": "symbol",
    "test_utils": "test_utils",
    "th": "torch",
    "torch": "torch",
    "util": "util",
    "visualization": "visualization",
    "viz": "visualization",
}
_OF_UTIL = (
    "is_np_array", "is_np_default_dtype", "is_np_shape", "np_array", "np_default_dtype", "np_shape",
    "set_np_shape", "use_np", "use_np_array", "use_np_default_dtype", "use_np_shape",
)  # fmt: skip

__all__ = [
    "Context",
    "Device",
    "MXNetError",
    "RunConfig",
    "__version__",
    "autograd",
    "config",
    "cpu",
    "cpu_pinned",
    "current_context",
    "current_device",
    "device",
    "engine",
    "errors",
    "gpu",
    "gpu_memory_info",
    "mesh",
    "nd",
    "ndarray",
    "np",
    "npx",
    "num_gpus",
    "num_tpus",
    "random",
    "tpu",
]


if _modules.stands_in():  # a worker process, which loads the package after that was said
    from .as_mxnet import mxnet_version

    __version__ = mxnet_version()


def __getattr__(name: str) -> Any:
    if name in _OF_UTIL:
        found: Any = getattr(importlib.import_module(f"{__name__}.util"), name)
    elif name == "AttrScope":
        found = importlib.import_module(f"{__name__}.attribute").AttrScope
    elif name in _LAZY:
        found = importlib.import_module(f"{__name__}.{_LAZY[name]}")
    else:
        raise errors.no_name(__name__, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_OF_UTIL, "AttrScope"})


def load_ipython_extension(ipython: Any) -> None:
    """What ``%load_ext mxjax`` does in a notebook: from then on ``import mxnet`` is mxjax."""
    from . import as_mxnet

    as_mxnet.install()


def waitall() -> None:
    """Run everything recorded and wait for it; raises the first error nobody has seen."""
    from .core import wait_all

    wait_all()


def mesh(axes: Any = None, *, devices: Any = None, **named: int) -> Any:
    """A mesh of devices that compute as one: `mxjax.sharding.mesh`, which says more.

    >>> import mxjax as mx
    >>> mx.mesh(data=1)
    mesh(data=1)
    """
    from .sharding import mesh as make

    return make(axes, devices=devices, **named)


def _switch_dtr(on: bool) -> None:
    """The settings that switch DTR load it; once loaded it follows them by itself."""
    if on:
        from .memonger import dtr as dtr


for _name in ("memory.dtr_auto_drop", "memory.dtr_drop", "memory.dtr_swap"):
    config.on_change(_name, _switch_dtr)
    _switch_dtr(config.get(_name))


def _import_profiler(_: object = None) -> None:
    from . import profiler as profiler


config.on_change("profiler.config", _import_profiler)
if config.get("profiler.autostart") or config.get("profiler.config"):
    _import_profiler()

_modules.give_names(sys.modules[__name__])
for _module in (config, sys.modules[__name__]):  # which were loaded before others were seen to
    type_texts.show(_module)
