"""The stub writer on a small module of its own, and on the package."""

import ast
import importlib.util
import inspect
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def stubs():
    spec = importlib.util.spec_from_file_location("stubs", ROOT / "tools" / "stubs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Array:
    pass


Array.__module__ = "mxjax.somewhere"


def front_end() -> types.ModuleType:
    module = types.ModuleType("mxjax.front")

    def made(*args, **kwargs):
        return None

    parameter = inspect.Parameter
    made.__signature__ = inspect.Signature(
        [
            parameter("x", parameter.POSITIONAL_OR_KEYWORD),
            parameter("axis", parameter.POSITIONAL_OR_KEYWORD, default=None),
            parameter("scale", parameter.POSITIONAL_OR_KEYWORD, default=float("inf")),
            parameter("out", parameter.KEYWORD_ONLY, default=None),
        ]
    )

    def written(shape: int | tuple[int, ...], /, dtype: str = "float32") -> list[Array]:
        return []

    made.__module__ = written.__module__ = "mxjax.front"
    module.made, module.written, module.ndarray, module.pi = made, written, Array, 3.14
    module._private = 1
    return module


def test_signatures_types_and_constants(stubs):
    text = stubs.Stub(front_end(), Array).render()
    ast.parse(text)
    parameters = "x: Any, axis: Any = None, scale: Any = ..., *, out: Any = None"
    assert f"def made({parameters}) -> _Array: ..." in text
    assert (
        "def written(shape: builtins.int | builtins.tuple[builtins.int, ...], /, "
        "dtype: builtins.str = 'float32') -> builtins.list[_Array]" in text
    )
    assert "from mxjax.somewhere import Array as ndarray" in text
    assert "pi: builtins.float" in text
    assert "_private" not in text


def test_a_list_of_public_names_is_obeyed(stubs):
    module = front_end()
    module.__all__ = ["made"]
    text = stubs.Stub(module, Array).render()
    assert "made" in text and "written" not in text
