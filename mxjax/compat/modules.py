"""Modules that MXNet's users import under another name: `from mxnet.ndarray import NDArray`, `import mxnet.numpy`.

They are the very modules of this package: there is no second copy. And each module of the package answers for the names
that MXNet's module of that name imports from elsewhere (`module_names.py`).
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os.path
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..display import type_texts

#: Name after `mxjax.` -> the module that it is; what is inside follows.
NAMES = {
    "contrib.amp": "amp",
    "contrib.nd": "nd.contrib",
    "contrib.ndarray": "nd.contrib",
    "contrib.quant": "contrib.quantization",
    "contrib.sym": "symbol.contrib",
    "contrib.symbol": "symbol.contrib",
    "gluon.contrib.cnn.conv_layers": "gluon.contrib.cnn",
    "gluon.contrib.data.sampler": "gluon.contrib.data",
    "gluon.contrib.rnn.conv_rnn_cell": "gluon.contrib.rnn",
    "gluon.contrib.rnn.rnn_cell": "gluon.contrib.rnn",
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
    "nd.gen__internal": "nd._internal",
    "nd.gen_op": "nd",
    "np._op": "np",
    "npx._op": "npx",
    "sym": "symbol",
    "symbol.gen__internal": "symbol._internal",
    "symbol.gen_op": "symbol",
    "symbol.numpy._op": "symbol.numpy",
    "symbol.numpy_extension._op": "symbol.numpy_extension",
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
NAMES |= {f"{package}.gen_{name}": f"{package}.{name}" for package in ("nd", "symbol") for name in (
    "contrib", "image", "linalg", "random", "sparse")}  # fmt: skip
NAMES |= {
    f"{package}.{name}": package for package, names in _PARTS.items() for name in names.split()
}
NAMES |= {
    "init": "initializer", "kv": "kvstore", "kvstore_server": "kvstore.kvstore_server", "mon": "monitor",
    "opt": "optimizer", "rnd": "random", "symbol.np": "symbol.numpy", "symbol.npx": "symbol.numpy_extension",
    "viz": "visualization",
}  # fmt: skip
_HERE = __package__.partition(".")[0]
_INSIDE = f"{_HERE}."
#: Parts that MXNet does not have: nobody asks them for its names.
_OWN = tuple(
    f"{_HERE}.{part}"
    for part in (
        "array",
        "compat",
        "core",
        "display",
        "effects",
        "files",
        "launch",
        "ops",
        "settings",
    )
)
#: Parts that show users none of their functions.
_INNER = tuple(f"{_HERE}.{part}" for part in ("core", "effects", "ops"))
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


def _is_part(package: ModuleType, name: str) -> bool:
    """Whether `name` is a public module in a package: `from package import module` asks for an attribute first."""
    folders = [] if name.startswith("_") else vars(package).get("__path__", ())
    return any(
        os.path.exists(f"{folder}/{name}{end}")
        for folder in folders
        for end in (".py", "/__init__.py")
    )


def give_names(module: ModuleType) -> None:
    """Let a module answer for the names that `module_names.py` has for it, and say which it leaves out on purpose."""
    whole = module.__name__
    short = whole[len(_HERE) + 1 :]
    own: Callable[[str], Any] | None = vars(module).get("__getattr__")
    later = vars(module).get("_LAZY", ())  # names that it has as soon as somebody wants them

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name not in later and not name.startswith("__") and not _is_part(module, name):
            from .left_out import why_excluded
            from .module_names import resolve

            try:
                found = resolve(short, name)
            except KeyError:
                pass
            else:
                setattr(module, name, found)
                return found
            why = why_excluded(name)
            if why is not None:
                from ..errors import left_out

                raise left_out(whole, name, why)
        if own is not None:
            return own(name)
        raise AttributeError(f"module {whole!r} has no attribute {name!r}", name=name, obj=module)

    module.__getattr__ = __getattr__  # type: ignore[method-assign]


class _Loader(importlib.machinery.SourceFileLoader):
    """Runs a module of the package, lets it show its types, and gives it the names that it holds in MXNet."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        type_texts.show(module)
        if not module.__name__.startswith(_OWN):
            give_names(module)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of `NAMES` and what is in them."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        origin = real(fullname)
        if origin is None and fullname.startswith(_INSIDE) and not fullname.startswith(_INNER):
            spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
            if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
                spec.loader = _Loader(fullname, spec.loader.path)
            return spec
        if _stands_in and fullname in ("horovod", "horovod.mxnet"):
            return _horovod(fullname, self)
        if _stands_in and fullname.startswith("mxnet."):
            inner = f"{_HERE}.{fullname.removeprefix('mxnet.')}"
            origin = real(inner) or inner
            if origin not in sys.modules and importlib.util.find_spec(origin) is None:
                return None
        return (
            None
            if origin is None
            else importlib.machinery.ModuleSpec(fullname, self, origin=origin)
        )

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


def _horovod(fullname: str, finder: _Finder) -> importlib.machinery.ModuleSpec:
    """Horovod's half for MXNet is the kvstore's; the package around it is Horovod's own where that is installed."""
    if fullname == "horovod.mxnet":
        return importlib.machinery.ModuleSpec(
            fullname, finder, origin=f"{_HERE}.kvstore.horovod_mxnet"
        )
    found = importlib.machinery.PathFinder.find_spec(fullname)
    return found or importlib.machinery.ModuleSpec(fullname, None, is_package=True)


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


install()
