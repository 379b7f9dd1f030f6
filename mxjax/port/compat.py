"""`python -m mxjax --compat`: names that Python, NumPy and others had in MXNet's time, given back for this process."""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any

from .older_names import TABLE, Older

__all__ = ["give_back"]


def give_back() -> None:
    """Let programs of MXNet's time find what they ask Python, NumPy, matplotlib and IPython for. What is there stays.

    Also `np.fromstring` of bytes, arrays of unequal rows (of objects), the module `imp`, and numbers out of arrays of
    one element that `asnumpy` gave (`float(loss.asnumpy())`), whatever their axes.
    """
    by_module: dict[str, list[Older]] = {}
    for row in TABLE:
        if row.give is not None:
            by_module.setdefault(row.module, []).append(row)
    for module, rows in by_module.items():
        if module in sys.modules or module in sys.stdlib_module_names:
            _fill(importlib.import_module(module), rows)
    later = {module: rows for module, rows in by_module.items() if module not in sys.modules}
    if not any(isinstance(finder, _Later) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Later(later))
    import numpy

    if not hasattr(numpy.array, "_ragged"):
        numpy.array = _ragged(numpy.array)  # type: ignore[assignment]
        numpy.asarray = _ragged(numpy.asarray)  # type: ignore[assignment]
        numpy.fromstring = _fromstring(numpy.fromstring)  # type: ignore[assignment]
    from ..array import one_element

    if one_element.REFUSED:
        _numbers_of_one_element()
    if importlib.util.find_spec("imp") is None:
        sys.modules["imp"] = _imp()


def _fill(module: Any, rows: list[Older]) -> None:
    for row in rows:
        if row.name not in vars(module) and not (
            row.module == "IPython.core.display" and hasattr(module, row.name)
        ):
            assert row.give is not None
            setattr(module, row.name, row.give())


class _Later(importlib.abc.MetaPathFinder):
    """Fills modules when a program imports them."""

    def __init__(self, rows: dict[str, list[Older]]):
        self._rows = rows

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        rows = self._rows.pop(fullname, None)
        if rows is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            run(module)
            _fill(module, rows)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _numbers_of_one_element() -> None:
    """Let `asnumpy` give such arrays of any size, so that what is computed of them is a number, too."""
    from ..array.ndarray import NDArray
    from ..array.one_element import array
    from ..array.sparse.classes import BaseSparseNDArray

    def taken_for_numbers(asnumpy: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(asnumpy)
        def of_its_time(self: Any) -> Any:
            return asnumpy(self).view(array)

        return of_its_time

    for owner in NDArray, BaseSparseNDArray:
        if "asnumpy" in vars(owner) and not hasattr(owner.asnumpy, "__wrapped__"):
            owner.asnumpy = taken_for_numbers(owner.asnumpy)  # type: ignore[method-assign]


def _ragged(make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def array(*args: Any, **kwargs: Any) -> Any:
        try:
            return make(*args, **kwargs)
        except ValueError as error:
            if (
                "inhomogeneous" not in str(error)
                or kwargs.get("dtype") is not None
                or len(args) > 1
            ):
                raise
            return make(*args, **{**kwargs, "dtype": object})

    array._ragged = make  # type: ignore[attr-defined]
    return array


def _fromstring(read: Callable[..., Any]) -> Callable[..., Any]:
    def fromstring(
        string: Any, dtype: Any = float, count: int = -1, sep: str = "", **kwargs: Any
    ) -> Any:
        import numpy

        if sep == "":
            data = string.encode("latin1") if isinstance(string, str) else string
            return numpy.frombuffer(data, dtype, count).copy()
        return read(string, dtype=dtype, count=count, sep=sep, **kwargs)

    return fromstring


def _imp() -> types.ModuleType:
    """What programs used of the module `imp`."""
    made = types.ModuleType("imp", "reload, load_source and new_module, as they were")

    def load_source(name: str, path: str) -> Any:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    made.reload, made.load_source, made.new_module = importlib.reload, load_source, types.ModuleType  # type: ignore[attr-defined]
    return made
