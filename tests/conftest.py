"""What every test has: four CPU devices, a seed, the settings as they were, errors for warnings.

Replay a failure with the line printed under "replay": it sets MXJAX_TEST_SEED to the seed that the
test ran with.  Without that variable a test's seed is a checksum of its name.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import sys
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import pytest

# XLA reads these once, when its CPU client is made: before anything imports jax. Most of the time of the
# tests is compilation, and what LLVM optimises changes neither counts nor bytes. That it changes no number either is
# what tests/ops/test_as_users.py and `make test-codegen` are for: with MXJAX_TEST_CODEGEN programs are compiled as
# users' are, and with what numeric.CODEGEN says of the variable's value.
_CODEGEN = os.environ.get("MXJAX_TEST_CODEGEN", "")
_FLAGS = {"xla_force_host_platform_device_count": "4"}
if not _CODEGEN:
    _FLAGS["xla_backend_optimization_level"] = "0"
    _FLAGS["xla_cpu_parallel_codegen_split_count"] = (
        "1"  # an LLVM module for each of 32 parts costs as much again
    )
    if version("jaxlib").startswith("0.10."):
        # MLIR takes two thirds of what is left; later versions have no other.
        _FLAGS["xla_cpu_use_fusion_emitters"] = "false"
for _flag, _value in _FLAGS.items():
    if _flag not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --{_flag}={_value}".strip()

# Worker processes share the cores: a product in two threads spins until the other one has a core, too (a language
# model by NumPy: 7 to 22 seconds of processor time instead of 2.5). NumPy reads this once, when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# No test reads or fills the user's own folder of programs; those about it have folders of their own. With a folder in
# MXJAX_TEST_CACHE all tests keep their programs there: a second run shows that loaded ones compute the same.
os.environ["MXJAX_CACHE_DIR"] = os.environ.get("MXJAX_TEST_CACHE", "")


def has_card() -> bool:
    """Whether there is a GPU, and what JAX needs for it."""
    return os.path.exists("/dev/nvidia0") and any(
        map(find_spec, ("jax_cuda12_plugin", "jax_cuda13_plugin"))
    )


# Beside a GPU the CPU stays JAX's default, whose four devices many tests count on; mx.gpu() is there all the same.
if has_card():
    os.environ.setdefault("JAX_PLATFORMS", "cpu,cuda")


def pytest_configure() -> None:
    """Programs get the options of MXJAX_TEST_CODEGEN's kind, for `make test-codegen`."""
    if _CODEGEN:
        from .numeric import add_options

        add_options(_CODEGEN)


def _seed_of(node_id: str) -> int:
    given = os.environ.get("MXJAX_TEST_SEED")
    return int(given) if given else zlib.crc32(node_id.encode()) & 0x7FFFFFFF


# XLA's trace ends the later the more programs a process holds, and what takes longest should not begin last.
FIRST = (
    "tests/profiler/",
    "tests/test_notebooks.py",
    "tests/test_training.py",
    "tests/test_demo.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that trace and the longest ones come first."""
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


#: So many programs are lowered in one context, which keeps the types and constants of all of them.
_LOWERED_TOGETHER = 100


def _share_contexts() -> None:
    """JAX gives each program a context of MLIR of its own, and loads all dialects into it: 3 to 5 ms of the 30 that a
    small program takes to be lowered and compiled. Here a thread's programs share one."""
    from jax._src.interpreters import mlir

    make, here = getattr(mlir, "make_ir_context", None), threading.local()
    if make is None:
        return  # a JAX that does it in another way

    def shared() -> object:
        if mlir.ir.Context.current is not None:
            return make()  # within another one's lowering: a clone would be put into that
        context, left = getattr(here, "context", (None, 0))
        if not left:
            context, left = make(), _LOWERED_TOGETHER
        here.context = context, left - 1
        return context

    mlir.make_ir_context = shared


#: Programs that are not compiled again, of the last tests; and whether this test takes any of them.
_COMPILED = 500
_take = [True]


def _share_programs() -> None:
    """A third of the programs are those of another test, which has made its own functions of the same: XLA compiles
    them once in a process. They are traced and lowered each time, and counted as compiled."""
    from jax._src import compiler

    import mxjax

    make = getattr(compiler, "backend_compile_and_load", None)
    if make is None:
        return  # a JAX that does it in another way
    kept: OrderedDict[tuple[object, ...], object] = OrderedDict()

    def shared(backend: Any, module: Any, devices: Any, options: Any, callbacks: Any) -> object:
        # A callback is the address of a function, which may be gone; what goes to a folder is as compiled.
        taken = _take[0] and not callbacks and mxjax.config.get("cache.dir") == ""
        text = module.operation.get_asm(enable_debug_info=False) if taken else ""
        if not taken or "callback" in text:
            return make(backend, module, devices, options, callbacks)
        key = id(backend), str(devices), options.SerializeAsString(), text
        if key not in kept:
            kept[key] = make(backend, module, devices, options, callbacks)
        kept.move_to_end(key)
        while len(kept) > _COMPILED:
            kept.popitem(last=False)
        return kept[key]

    compiler.backend_compile_and_load = shared


def pytest_collection_finish() -> None:
    """The collector need not look through what lives to the end, thousands of tests among it, at each pass."""
    _share_contexts()
    _share_programs()
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 10, 50)  # a full pass looks through a million objects of JAX's


_ended = [0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Nor through what a hundred tests left alive, programs and JAX's caches: a test that asks for a pass (some
    thirty of one file do) would wait two seconds for each."""
    _ended[0] += 1
    if _ended[0] % 100 == 0:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def surroundings(request: pytest.FixtureRequest) -> Iterator[None]:
    """What each test has, in one fixture, for pytest takes a millisecond for four.

    Python, NumPy and (where it is imported) mxjax have the test's seed. What earlier tests ran does not decide whether
    this one's calls are compiled together. Tests marked ``programs`` look at what is compiled, donated or shown of
    programs: no other tier runs there. In the end what a test told `mx.config.set`, `npx.set_np` and `npx.reset_np` is
    taken back.
    """
    _seed_all(_seed_of(request.node.nodeid))
    _forget_history()
    looks = request.node.get_closest_marker("programs") is not None
    _take[0] = not looks and not request.node.nodeid.startswith(FIRST[0])
    if looks:
        import mxjax

        mxjax.config.set({"engine.cold": "compile"})
    yield
    util = sys.modules.get("mxjax.util")
    if util is not None:
        util.set_np()
        util.modes.begin()
    settings = sys.modules.get("mxjax.settings")
    if settings is not None:
        settings.reset()


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The test's seed, for what has a generator of its own."""
    return _seed_of(request.node.nodeid)


def _seed_all(value: int) -> None:
    random.seed(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(value)
    generator = sys.modules.get("mxjax.random")
    if hasattr(generator, "seed"):
        generator.seed(value)


def _forget_history() -> None:
    scheduler = sys.modules.get("mxjax.core.run.scheduler")
    if scheduler is not None:
        sys.modules["mxjax.core.interpret.by_call"].strict[0] = True  # type: ignore[attr-defined]
        sys.modules["mxjax.core.calls.aval"].layouts_in_use[0] = False  # type: ignore[attr-defined]
        with contextlib.suppress(Exception):  # an error that the test before left pending
            scheduler.wait_all()
        scheduler.forget(programs=False)


@pytest.fixture
def collected() -> None:
    """The collector's passes in this test look through what it makes alone: after thousands of tests a pass through
    all that lives takes seconds."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def settled() -> Iterator[None]:
    """Nothing that failed in another test is left, nor what fails in this one."""
    import mxjax as mx

    mx.waitall()
    yield
    with contextlib.suppress(mx.MXNetError):
        mx.waitall()


# XLA leaves the conversions of float16 to a library that it does not bring where the processor has no F16C: as on
# processors before 2012, which `make test-isa` asks for, and which jaxlib's wheels, built for AVX, do not run on.
_CONVERSIONS = ("__truncsfhf2", "__extendhfsf2")
_NO_F16C = "XLA compiles no float16 for processors without F16C"
_ISA = os.environ.get("XLA_FLAGS", "").partition("--xla_cpu_max_isa=")[2].partition(" ")[0]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if (
        report.failed
        and any(name in report.capstderr for name in _CONVERSIONS)
        and "SSE4_2" in _ISA
    ):
        report.outcome, report.longrepr = (
            "skipped",
            (str(item.path), item.location[1] or 0, f"Skipped: {_NO_F16C}"),
        )
    elif report.failed:
        line = f"MXJAX_TEST_SEED={_seed_of(item.nodeid)} python -m pytest '{item.nodeid}'"
        report.sections.append(("replay", line))
