"""The table itself and `mx.config`, where the environment matters in a process of its own."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mxjax import settings
from mxjax.settings.rows import OPTIONS

ROOT = Path(__file__).parents[2]


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a program with the variables set."""
    environment = settings.child_environment(**variables)
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )


def test_importing_mxjax_refuses_bad_values():
    result = run("import mxjax", MXNET_ENGINE_TYPE="Foo", MXNET_EXEC_BULK_EXEC_TRAIN="maybe")
    assert result.returncode != 0
    assert (
        "MXNET_ENGINE_TYPE='Foo': not one of NaiveEngine, ThreadedEngine, "
        "ThreadedEnginePerDevice (option engine.type)" in result.stderr
    )
    assert "MXNET_EXEC_BULK_EXEC_TRAIN='maybe': expected 0 or 1" in result.stderr


@pytest.mark.parametrize(
    ("variable", "text", "option", "value"),
    [
        ("MXNET_ENGINE_TYPE", "NaiveEngine", "engine.type", "NaiveEngine"),
        ("MEGENGINE_INTERP_ASYNC_LEVEL", "0", "engine.async_level", 0),
        ("MXNET_EXEC_BULK_EXEC_INFERENCE", "0", "engine.bulk_infer", False),
        ("MXNET_EXEC_BULK_EXEC_TRAIN", "0", "engine.bulk_train", False),
        ("MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN", "15", "engine.bulk_nodes", 15),
        ("MXNET_CPU_WORKER_NTHREADS", "3", "engine.cpu_threads", 3),
        ("MXNET_BACKWARD_DO_MIRROR", "1", "memory.remat", "mirror"),
        ("MXNET_ENFORCE_DETERMINISM", "1", "determinism.enabled", True),
        ("MXNET_PROFILER_AUTOSTART", "true", "profiler.autostart", True),
        ("MXNET_PROFILER_MODE", "3", "profiler.events", 3),
        ("MXJAX_COMPILER_OPTIONS", "--xla_a=1", "compiler.options", {"xla_a": 1}),
        ("MEGENGINE_LOGGING_LEVEL", "DEBUG", "debug.log_level", "DEBUG"),
        ("MXNET_HOME", "/x", "data.home", "/x"),
        ("MXNET_GLUON_REPO", "file:///x", "data.repo", "file:///x"),
    ],
)
def test_every_legacy_variable_reaches_its_option(variable, text, option, value):
    from mxjax.settings.registry import Registry

    registry = Registry(OPTIONS, {variable: text})
    assert registry.get(option) == value
    assert registry.sources(option)[0].source == variable


def test_variables_of_a_process_are_read_at_its_import():
    result = run(
        "import logging, os, sys; from mxjax import settings; import json;"
        "print(json.dumps([settings.get('data.home'), os.environ.get('PJRT_NPROC'),"
        "logging.getLogger('mxjax').level]))",
        MXNET_HOME="/somewhere",
        MXNET_CPU_WORKER_NTHREADS="2",
        MEGENGINE_LOGGING_LEVEL="ERROR",
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == ["/somewhere", "2", logging.ERROR]


def test_the_settings_import_nothing_heavy_and_touch_nothing():
    code = """
import logging, os, sys, threading
before = dict(os.environ)
import mxjax.settings
assert dict(os.environ) == before
assert threading.active_count() == 1
assert not logging.getLogger().handlers and logging.getLogger("mxjax").level == 0
heavy = {"jax", "numpy", "json", "difflib"} & set(sys.modules)
"""
    # The package around them may import JAX: the settings themselves are loaded on their own.
    alone = f"""
import sys, types
package = types.ModuleType("mxjax")
package.__path__ = [{str(ROOT / "mxjax")!r}]
sys.modules["mxjax"] = package
{code}
assert not heavy, heavy
"""
    result = run(alone)
    assert result.returncode == 0, result.stderr


def test_a_late_change_of_a_set_once_option_is_refused_by_a_running_backend():
    result = run(
        "import jax; from mxjax import settings\n"
        "settings.set('engine.cpu_threads', 2)\n"
        "jax.devices()\n"
        "settings.set('engine.cpu_threads', 2)\n"
        "try: settings.set('engine.cpu_threads', 4)\n"
        "except ValueError as error: print(error)\n"
    )
    assert result.returncode == 0, result.stderr
    assert "comes too late" in result.stdout
    assert "MXJAX_ENGINE_CPU_THREADS" in result.stdout


@pytest.mark.observes
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads through /proc")
def test_cpu_threads_size_the_pools_of_the_backend():
    code = (
        "import mxjax, jax, os; jax.numpy.zeros(1).block_until_ready();"
        "print(len(os.listdir('/proc/self/task')))"
    )
    one = run(code, XLA_FLAGS=None, MXNET_CPU_WORKER_NTHREADS="1")
    six = run(code, XLA_FLAGS=None, MXNET_CPU_NNPACK_NTHREADS="6")
    assert int(six.stdout) - int(one.stdout) >= 5, (one.stderr, six.stderr)


@pytest.mark.observes
def test_set_log_level_reaches_the_logger():
    logger = logging.getLogger("mxjax")
    settings.set(debug_log_level="WARNING")
    assert logger.level == logging.WARNING
    settings.reset()
    assert logger.level == logging.NOTSET


def test_describe_names_every_option_and_explain_says_where_a_value_is_from():
    text = settings.describe()
    assert all(row.name in text for row in OPTIONS)
    settings.set("engine.bulk_nodes", 7)
    explanation = settings.explain("MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN")
    assert (explanation.value, explanation.source) == (7, "mx.config.set")
    assert explanation.overruled == ("default (4096)",)
    assert settings.describe("engine.bulk_nodes") == str(explanation)
    assert "MXJAX_ENGINE_BULK_NODES" in str(explanation)


@pytest.mark.parametrize("row", OPTIONS, ids=lambda row: row.name)
def test_every_row_is_whole(row):
    assert row.doc.endswith(".") and row.effect
    assert row.name.count(".") == 1 and row.name == row.name.lower()
    if row.default is not None:
        assert row.kind.convert(row.default) == row.default


def test_env_reads_foreign_variables_and_refuses_options(monkeypatch):
    monkeypatch.setenv("DMLC_ROLE", "worker")
    assert settings.env("DMLC_ROLE") == "worker"
    assert settings.env("DMLC_NOTHING", "x") == "x"
    with pytest.raises(ValueError, match="settings.get"):
        settings.env("MXNET_ENGINE_TYPE")


def test_child_environment_copies_and_removes(monkeypatch):
    monkeypatch.setenv("DMLC_ROLE", "worker")
    environment = settings.child_environment(DMLC_ROLE=None, DMLC_RANK="1")
    assert "DMLC_ROLE" not in environment and environment["DMLC_RANK"] == "1"
    assert os.environ["DMLC_ROLE"] == "worker"
