"""The public names, and in which module each is at home."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import mxjax as mx
from mxjax.ops import help

#: Modules whose names all have docstrings with parameters and results (tests/display/test_help.py).
MODULES = """
    np np.random np.linalg npx npx.random nd nd.random nd.contrib nd.sparse sym sym.random sym.contrib
    gluon gluon.nn gluon.rnn gluon.loss gluon.data gluon.data.vision gluon.data.vision.transforms gluon.metric
    gluon.utils gluon.model_zoo.vision gluon.model_zoo.transformers
    gluon.probability gluon.functional optimizer lr_scheduler initializer io image
    recordio kvstore profiler memonger mod onnx amp autograd random engine config
""".split()

#: What the reference has besides.
MORE = """
    gluon.data.batchify gluon.model_zoo gluon.contrib.estimator executor model callback monitor operator sharding
    nd.linalg nd.image npx.image sym.linalg contrib.quantization contrib.text.vocab contrib.text.embedding visualization
    runtime util test_utils
""".split()


def module(path: str) -> Any:
    """The module ``mx.<path>``."""
    found: Any = mx
    for part in path.split("."):
        found = getattr(found, part)
    return found


def is_operator(value: Any) -> bool:
    """Whether the operator table made this function."""
    return isinstance(getattr(value, "__signature__", None), help.Signature)


def public(path: str, operators: bool = False) -> Iterator[tuple[str, Any]]:
    """The classes and functions of a module, but for errors and, unless asked for, what the operator table makes."""
    found = module(path)
    for name in getattr(found, "__all__", None) or dir(found):
        value = getattr(found, name)
        if name.startswith("_") or not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        if is_operator(value) and not operators:
            continue
        if inspect.isclass(value) and issubclass(value, BaseException):
            continue
        if (getattr(value, "__module__", None) or "").startswith("mxjax"):
            yield f"{path}.{name}", value
