"""Modules that MXNet's users import under another name: `from mxnet.ndarray import NDArray`, `import mxnet.numpy`.

They are the very modules of this package: there is no second copy.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any

#: Name after `mxjax.` -> the module that it is; what is inside follows.
NAMES = {
    "contrib.amp": "amp",
    "contrib.nd": "nd.contrib",
    "contrib.ndarray": "nd.contrib",
    "contrib.quant": "contrib.quantization",
    "contrib.sym": "symbol.contrib",
    "contrib.symbol": "symbol.contrib",
    "gluon.nn.basic_layers": "gluon.nn",
    "gluon.nn.conv_layers": "gluon.nn",
    "kvstore.byteps": "kvstore.adapters",
    "kvstore.horovod": "kvstore.adapters",
    "kvstore.kvstore": "kvstore.store",
    "metric": "gluon.metric",
    "mod": "module",
    "nd.np": "np",
    "nd.npx": "npx",
    "nd.numpy": "np",
    "nd.numpy_extension": "npx",
    "ndarray": "nd",
    "ndarray.ndarray": "nd",
    "ndarray.np": "np",
    "ndarray.npx": "npx",
    "ndarray.numpy": "np",
    "ndarray.numpy_extension": "npx",
    "ndarray.op": "nd",
    "numpy": "np",
    "numpy.multiarray": "np",
    "numpy_extension": "npx",
    "optimizer.adabelief": "optimizer.adam",
    "optimizer.adadelta": "optimizer.adaptive",
    "optimizer.adagrad": "optimizer.adaptive",
    "optimizer.adamW": "optimizer.adam",
    "optimizer.adamax": "optimizer.adam",
    "optimizer.contrib": "optimizer.adaptive",
    "optimizer.dcasgd": "optimizer.sgd",
    "optimizer.ftml": "optimizer.adaptive",
    "optimizer.ftrl": "optimizer.adaptive",
    "optimizer.lamb": "optimizer.adam",
    "optimizer.lans": "optimizer.adam",
    "optimizer.lars": "optimizer.sgd",
    "optimizer.nadam": "optimizer.adam",
    "optimizer.nag": "optimizer.sgd",
    "optimizer.rmsprop": "optimizer.adaptive",
    "optimizer.sgld": "optimizer.sgd",
    "optimizer.signum": "optimizer.sgd",
    "optimizer.utils": "optimizer.optimizer",
    "sym": "symbol",
    "symbol.numpy._symbol": "symbol.numpy",
    "symbol.op": "symbol",
}
#: Modules of MXNet whose contents are in the package around them here.
_PARTS = {
    "gluon.contrib.data.vision": "bbox utils",
    "gluon.contrib.nn": "basic_layers",
    "gluon.probability": (
        "bernoulli beta binomial categorical cauchy chi2 constraint dirichlet distribution divergence exp_family "
        "exponential fishersnedecor gamma geometric gumbel half_cauchy half_normal independent laplace multinomial "
        "multivariate_normal negative_binomial normal one_hot_categorical pareto poisson relaxed_bernoulli "
        "relaxed_one_hot_categorical stochastic_block studentT transformed_distribution uniform utils weibull"
    ),
    "nd": "ndarray op utils",
    "np": "arrayprint function_base io multiarray set_functions stride_tricks type_functions utils",
    "npx": "utils",
}
NAMES |= {f"{package}.{name}": package for package, names in _PARTS.items() for name in names.split()}
NAMES |= {
    "init": "initializer", "kv": "kvstore", "kvstore_server": "kvstore.kvstore_server", "mon": "monitor",
    "opt": "optimizer", "rnd": "random", "symbol.np": "symbol.numpy", "symbol.npx": "symbol.numpy_extension",
    "viz": "visualization",
}  # fmt: skip
_HERE = __package__ or "mxjax"
_BEGINNINGS = tuple(f"{_HERE}.{name}" for name in NAMES)


def real(name: str) -> str | None:
    """The full name of the module that `name` stands for; None if it stands for itself.

    >>> real("mxjax.optimizer.nag"), real("mxjax.ndarray.random"), real("mxjax.gluon")
    ('mxjax.optimizer.sgd', 'mxjax.nd.random', None)
    """
    if not name.startswith(_BEGINNINGS):
        return None
    head, rest = name[len(_HERE) + 1 :], ""
    while head:
        if head in NAMES:
            return f"{_HERE}.{NAMES[head]}{rest}"
        head, dot, last = head.rpartition(".")
        rest = f"{dot}{last}{rest}"
    return None


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of `NAMES` and what is in them."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        origin = real(fullname)
        if _stands_in and fullname.startswith("mxnet."):
            inner = f"{_HERE}.{fullname.removeprefix('mxnet.')}"
            origin = real(inner) or inner
            if origin not in sys.modules and importlib.util.find_spec(origin) is None:
                return None
        return None if origin is None else importlib.machinery.ModuleSpec(fullname, self, origin=origin)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        assert spec.origin is not None
        module = importlib.import_module(spec.origin)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module ran already; the import system has only overwritten how it was found."""
        spec = module.__spec__
        if spec is not None and spec.loader_state is not None:
            module.__spec__ = spec.loader_state


_stands_in: list[str] = []  # the packages whose modules are those of this one


def stand_in_for_mxnet() -> None:
    """Let imports of `mxnet`'s modules find this package's."""
    if not _stands_in:
        _stands_in.append("mxnet")


def stands_in() -> bool:
    """Whether `mxnet` is this package."""
    return bool(_stands_in)


def install() -> None:
    """Let Python's imports find them."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
