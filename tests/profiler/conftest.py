"""A profiler in its first state for every test, in a folder of its own."""

from collections.abc import Callable, Iterator

import jax.numpy as jnp
import numpy as np
import pytest

from mxjax import core, profiler
from mxjax.profiler import _state, verify


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    for path in tmp_path.rglob("*.json"):  # whatever a test wrote has to be right
        assert verify.check(str(path)) == [], path
    state = _state.profiler
    state.resume()
    state.stop()
    # What is under test is one object for the process: put it back to how it was made.
    registered = state._at_exit
    state.__init__()
    state._at_exit = registered


def _scale(x):
    return x * 2.0


@pytest.fixture
def work() -> Callable[[], np.ndarray]:
    """Runs three operators on the engine: exp, scale, dot; they are compiled already."""
    exp = core.Row("exp", jnp.exp).bind()
    scale = core.Row("scale", _scale).bind()
    dot = core.Row("dot", jnp.matmul).bind()
    x = core.concrete(jnp.ones((64, 64)), shared=True)

    def run() -> np.ndarray:
        (y,) = core.record(exp, (x,))
        (y,) = core.record(scale, (y,))
        (y,) = core.record(dot, (y, x))
        return np.asarray(core.read(y))

    run()
    run()
    return run


@pytest.fixture
def config(tmp_path) -> Callable[..., str]:
    """Configures the profiler for a trace of its own; returns its path."""

    def configure(**options) -> str:
        path = str(tmp_path / "trace.json")
        given = {"profile_all": True, "continuous_dump": False, "filename": path, **options}
        profiler.set_config(**given)
        return path

    return configure
