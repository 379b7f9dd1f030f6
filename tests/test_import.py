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
        [sys.executable, "-c", CODE],
        env=settings.child_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


COLLECTOR = """
import gc
{before}
class Cycle:
    pass
a = Cycle()
a.a = a
passes = gc.get_stats()[2]["collections"]
import mxjax
assert gc.get_stats()[2]["collections"] == passes
assert (gc.isenabled(), gc.get_freeze_count() > 0) == ({enabled}, {frozen})
import weakref
kept = weakref.ref(a)
del a
gc.collect()
assert kept() is None
"""


@pytest.mark.parametrize(
    ("before", "enabled", "frozen"),
    [("", True, False), ("gc.disable()", False, False), ("gc.freeze()", True, True)],
)
def test_the_garbage_collector_is_as_it_was(before, enabled, frozen):
    code = COLLECTOR.format(before=before, enabled=enabled, frozen=frozen)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=settings.child_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


TRACES = """
import gc, weakref
import mxjax as mx
from mxjax.core.run import interrupts
passes = gc.get_stats()[2]["collections"]
x = mx.nd.ones((3, 4))
x.attach_grad()
for name in "sin cos tan tanh exp log sqrt cbrt square sigmoid relu erf arctan sinh cosh abs".split():
    with mx.autograd.record():
        y = getattr(mx.nd, name)(x).sum()
    y.backward()
    x.grad.asnumpy()
assert gc.get_stats()[2]["collections"] == passes
assert gc.isenabled() and not gc.get_freeze_count()
class Cycle:
    pass
for _ in range(2):  # what is collected, and, when the first traces are done, by a pass that comes by itself
    a = Cycle()
    a.a = a
    kept = weakref.ref(a)
    del a
    if not interrupts._first[0]:
        kinds = [[] for _ in range(5_000)]
    else:
        gc.collect()
        interrupts._first[0] = 0
    assert kept() is None
"""


def test_first_traces_cause_no_pass_through_all_that_was_imported():
    done = subprocess.run(
        [sys.executable, "-c", TRACES],
        env=settings.child_environment(), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


AT_EXIT = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_freeze_count() > 1000, gc.get_stats()[2]["collections"] == passes))
import mxjax
class Log:
    def __init__(self, name):
        self.file = open(name, "w")
        self.write = self.file.write
        self.again = self
log = Log(sys.argv[1])
log.write("the last line")
passes = gc.get_stats()[2]["collections"]
"""


def test_the_end_looks_for_no_cycles_and_files_in_them_are_written(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT, tmp_path / "log"],
        env=settings.child_environment(), capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True\n", "")
    assert (tmp_path / "log").read_text() == "the last line"


def test_older_names_lead_to_the_same_objects():
    """As `mx.numpy is mx.np` and `mx.rnd is mx.random` in MXNet."""
    from mxjax.context import cpu, current_context

    assert mx.numpy is mx.np and mx.numpy_extension is mx.npx and mx.rnd is mx.random
    assert (
        cpu is mx.cpu and current_context is mx.current_context and mx.context.Context is mx.Context
    )
    assert mx.use_np is mx.util.use_np and mx.RunConfig is mx.config.RunConfig
    assert {"use_np", "numpy", "context"} <= set(dir(mx))


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="'mxjax' has no attribute 'nmupy'"):
        mx.nmupy  # noqa: B018


def test_what_is_loaded_when_first_used_exists():
    for package in (mx, mx.gluon):
        lazy = [*package._LAZY, *getattr(package, "_FROM", ()), *getattr(package, "_OF_UTIL", ())]
        for name in {*lazy, *package.__all__}:
            assert getattr(package, name) is not None, name
    assert set(mx._LAZY) < set(dir(mx)) and not hasattr(mx, "nothing_of_this_name")


MISSPELLED = {
    "mx.autogrd": "autograd",
    "mx.np.aray": "array",
    "mx.np.linalg.nrom": "norm",
    "mx.np.random.normall": "normal",
    "mx.npx.relou": "relu",
    "mx.nd.Convolutoin": "Convolution",
    "mx.nd.random.unifrom": "uniform",
    "mx.nd.contrib.forech": "foreach",
    "mx.random.unifrom": "uniform",
    "mx.autograd.recrod": "record",
    "mx.engine.blk": "bulk",
    "mx.init.Xaver": "Xavier",
    "mx.optimizer.Adm": "Adam",
    "mx.lr_scheduler.FactorSchedulr": "FactorScheduler",
    "mx.config.scpe": "scope",
    "mx.kv.creat": "create",
    "mx.profiler.dmps": "dumps",
    "mx.memonger.pln": "plan",
    "mx.util.use_mp": "use_np",
    "mx.device.num_gpu": "num_gpus",
    "mx.test_utils.assert_allmost_equal": "assert_almost_equal",
    "mx.gluon.los": "loss",
    "mx.gluon.Trainr": "Trainer",
    "mx.gluon.nn.Dnse": "Dense",
    "mx.gluon.loss.L2Los": "L2Loss",
    "mx.gluon.metric.Acuracy": "Accuracy",
    "mx.gluon.utils.split_and_laod": "split_and_load",
    "mx.gluon.data.DataLoadr": "DataLoader",
    "mx.gluon.data.vison": "vision",
    "mx.gluon.data.vision.MINST": "MNIST",
    "mx.gluon.data.vision.transforms.ToTensr": "ToTensor",
}


@pytest.mark.parametrize("path", MISSPELLED)
def test_a_misspelled_name_says_what_was_meant(path):
    owner, name = path.removeprefix("mx").rpartition(".")[::2]
    module = mx
    for part in owner.strip(".").split(".") if owner else ():
        module = getattr(module, part)
    assert not hasattr(module, name) and not hasattr(module, "_" + name)
    with pytest.raises(
        AttributeError, match=f"has no attribute '{name}'; did you mean '{MISSPELLED[path]}'"
    ):
        getattr(module, name)
    assert getattr(module, name, None) is None


def test_the_error_travels_between_processes():
    import pickle

    with pytest.raises(AttributeError) as caught:
        mx.np.aray  # noqa: B018
    assert str(pickle.loads(pickle.dumps(caught.value))).endswith("did you mean 'array'?")


def test_imports_of_a_misspelled_name_say_so_too():
    with pytest.raises(ImportError, match="'aray' from 'mxjax.np'; did you mean 'array'"):
        from mxjax.np import aray  # noqa: F401
    with pytest.raises(ImportError, match="'autogrd' from 'mxjax'; did you mean 'autograd'"):
        from mxjax import autogrd  # noqa: F401
    with pytest.raises(ImportError, match="'Dnse' from 'mxjax.gluon.nn'; did you mean 'Dense'"):
        from mxjax.gluon.nn import Dense, Dnse  # noqa: F401
    from mxjax.gluon.data.vision import datasets  # a module that nobody has listed

    assert datasets.MNIST is mx.gluon.data.vision.MNIST


def test_modules_that_code_imports_by_mxnets_names():
    """`from mxnet.ndarray import NDArray` and the like; they are the very modules, not second copies."""
    code = """
import mxjax.ndarray, mxjax.numpy, mxjax.numpy_extension as npx, mxjax.metric as metric
import mxjax.ndarray.random, mxjax.numpy.linalg
from mxjax.ndarray.ndarray import NDArray
from mxjax.ndarray.op import exp
from mxjax.numpy.multiarray import ndarray
from mxjax.base import MXNetError
import mxjax
assert mxjax.numpy.linalg is mxjax.np.linalg
from mxjax.autograd import *
from mxjax.test_utils import *
assert mxjax.ndarray is mxjax.nd and mxjax.numpy is mxjax.np and npx is mxjax.npx
assert metric is mxjax.gluon.metric and mxjax.ndarray.random is mxjax.nd.random
assert NDArray is mxjax.nd.NDArray and ndarray is mxjax.np.ndarray and exp is mxjax.nd.exp
assert mxjax.nd.__spec__.name == "mxjax.nd" and metric.__spec__.name == "mxjax.gluon.metric"
assert mx is mxjax and np.__name__ == "numpy" and callable(record)
try:
    import mxjax.ndarray.nothing
except ModuleNotFoundError as error:
    assert "mxjax.nd.nothing" in str(error)
else:
    raise AssertionError("a module that is not there was found")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=settings.child_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_base_has_what_code_asks_it_for(tmp_path):
    from mxjax import base

    assert base.MXNetError is mx.MXNetError and issubclass(
        base.NotImplementedForSymbol, mx.MXNetError
    )
    assert isinstance(1, base.integer_types) and isinstance(1.5, base.numeric_types)
    assert isinstance("a", base.string_types)
    assert (
        base.py_str(b"abc") == "abc" and base._as_list(1) == [1] and base._as_list((1, 2)) == (1, 2)
    )
    with mx.config.scope(data_home=str(tmp_path)):
        assert base.data_dir() == str(tmp_path)


def test_is_np_array_follows_its_scopes_in_each_thread():
    import threading

    assert mx.is_np_array()
    seen = []
    with mx.np_array(False):
        assert not mx.is_np_array()
        with mx.np_array(True):
            assert mx.is_np_array()
        thread = threading.Thread(target=lambda: seen.append(mx.is_np_array()))
        thread.start()
        thread.join()
        assert not mx.is_np_array()
        assert mx.use_np(mx.is_np_array)()
    assert mx.is_np_array() and seen == [False]  # new threads begin so in MXNet 2, too
    mx.npx.reset_np()
    assert not mx.is_np_array()
    mx.npx.set_np()
    assert mx.is_np_array()


def test_operators_by_the_registrys_names():
    import mxjax as mx
    import mxjax.ndarray.numpy._internal as npi

    x = mx.np.array([[1.0, 2], [3, 4]])
    assert npi is mx.np._internal and mx.nd.np is mx.np
    assert npi.boolean_mask(x, mx.np.array([0, 1])).tolist() == [[3, 4]]
    assert npi.add(x, x).tolist() == [[2, 4], [6, 8]]
