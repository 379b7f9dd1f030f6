"""What `import mxjax` does and leaves alone, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mxjax as mx
from mxjax import settings

CODE = """
import logging, os, sys, threading
import jax
flags, environment, loaded = dict(jax.config.values), dict(os.environ), set(sys.modules)
threads, handlers = threading.active_count(), list(logging.getLogger().handlers)
import mxjax
assert dict(jax.config.values) == flags, "a JAX flag changed"
assert dict(os.environ) == environment, "the environment changed"
assert threading.active_count() == threads, "a thread was started"
assert logging.getLogger().handlers == handlers and logging.getLogger("mxjax").level == 0
from jax._src import xla_bridge
assert not xla_bridge._backends, "a backend was started, which takes memory"
# Each of these costs tens of milliseconds; who needs one imports it when it is used.
heavy = ("jax.extend", "jax._src.pallas", "optax", "flax", "unittest", "asyncio", "multiprocessing")
found = sorted(m for m in set(sys.modules) - loaded if m.startswith(heavy))
assert not found, found
"""


def test_the_import_is_light_and_changes_nothing():
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=settings.child_environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_older_names_lead_to_the_same_objects():
    """As `mx.numpy is mx.np` and `mx.rnd is mx.random` in MXNet."""
    from mxjax.context import cpu, current_context

    assert mx.numpy is mx.np and mx.numpy_extension is mx.npx and mx.rnd is mx.random
    assert cpu is mx.cpu and current_context is mx.current_context and mx.context.Context is mx.Context
    assert mx.use_np is mx.util.use_np and mx.RunConfig is mx.config.RunConfig
    assert {"use_np", "numpy", "context"} <= set(dir(mx))


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="'mxjax' has no attribute 'nmupy'"):
        mx.nmupy  # noqa: B018
