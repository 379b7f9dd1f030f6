"""What is read once, before JAX starts, and what outlives a process: in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mxjax as mx
from mxjax import settings

pytestmark = pytest.mark.programs

ROOT = Path(__file__).parents[2]

PROGRAM = """
import json, os, sys, time
import mxjax as mx
from jax._src import monitoring
events = []
monitoring.register_event_listener(lambda name, **_: events.append(name))
from jaxlib import xla_client
from mxjax.gluon import nn
options = xla_client.generate_pjrt_gpu_plugin_options()
late = []
for name, value in {"MXNET_GPU_MEM_POOL_TYPE": "Round", "RUNTIME_OVERRIDE_LOG_LEVEL": 2}.items():
    if name.startswith("RUNTIME"):
        mx.np.ones(1).asnumpy()
    try:
        mx.config.set(name, value)
        late.append("set")
    except ValueError as error:
        late.append(str(error))
net = nn.HybridSequential()
net.add(nn.Dense(8, activation="relu", in_units=4), nn.Dense(2, in_units=8))
net.initialize(mx.init.Constant(0.1))
net.hybridize()
trainer = mx.gluon.Trainer(net.collect_params(), "adam")
mx.config.set("engine.cold", "compile")  # the first steps of a small network need no program
for _ in range(2):
    with mx.autograd.record():
        loss = (net(mx.np.ones((3, 4))) ** 2).sum()
    loss.backward()
    trainer.step(3)
value = float(loss)
try:
    mx.config.set("MXNET_GPU_MEM_POOL_TYPE", "Unpooled")
except ValueError as error:
    late.append(str(error))
print(json.dumps({
    "options": options, "late": late, "loss": value,
    "environment": {k: os.environ.get(k) for k in
                    ("PJRT_NPROC", "TF_CPP_MIN_LOG_LEVEL", "XLA_PYTHON_CLIENT_PREALLOCATE")},
    "hits": mx.engine.stats()["loaded"],
    "misses": mx.engine.stats()["compiled"],
    "jax": [name for name in events if "cache_hits" in name or "cache_misses" in name],
    "source": mx.config.explain("cache.dir").source,
    "remat": [mx.config.get("memory.remat"), mx.config.explain("memory.remat").source],
}))
"""


def run(**variables):
    environment = settings.child_environment(MXJAX_CACHE_DIR=None, **variables)
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return json.loads(result.stdout.splitlines()[-1]), result.stderr


@pytest.mark.observes
def test_a_second_process_compiles_nothing_and_hears_what_is_set_before_jax(tmp_path):
    first, quiet = run(
        MGE_FASTRUN_CACHE_DIR=str(tmp_path),
        MGE_FASTRUN_CACHE_TYPE="FILE",
        MXNET_GPU_MEM_POOL_RESERVE="10",
        MXNET_GPU_MEM_POOL_TYPE="Unpooled",
        MGB_CUDA_RESERVE_MEMORY="1",
        MXNET_CPU_NNPACK_NTHREADS="2",
        RUNTIME_OVERRIDE_LOG_LEVEL="4",
    )
    assert first["options"]["allocator"] == "platform"
    assert first["options"]["memory_fraction"] == 0.9
    assert first["options"]["preallocate"] is True
    assert first["environment"] == {
        "PJRT_NPROC": "2",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "true",
    }
    allowed, imported, backend = first["late"]
    assert allowed == "set" and "before JAX's libraries are loaded" in imported
    assert "comes too late" in backend and "MXJAX_MEMORY_ALLOCATOR" in backend
    assert first["source"] == "MGE_FASTRUN_CACHE_DIR"
    assert first["misses"] > 0 and first["hits"] == 0

    second, loud = run(
        ASCEND_CACHE_PATH="/nowhere",
        MGE_FASTRUN_CACHE_DIR=str(tmp_path),
        MXNET_USE_NUM_CORES_OPERATOR_TUNING="2",
        RUNTIME_OVERRIDE_LOG_LEVEL="0",
        MGB_ROCM_RESERVE_MEMORY="0",
        MXNET_GPU_MEM_POOL_TYPE="Naive",
    )
    assert second["loss"] == first["loss"]
    assert second["hits"] == first["misses"] and second["misses"] == 0
    assert not first["jax"] and not second["jax"]  # JAX's own cache is left alone
    assert second["options"]["allocator"] == "default" and second["options"]["preallocate"] is False
    assert second["environment"]["PJRT_NPROC"] == "2"
    assert len(loud.splitlines()) > len(quiet.splitlines()) + 50  # the libraries tell everything


@pytest.mark.observes
def test_a_library_that_is_no_device_is_an_error_that_names_it(tmp_path):
    library = tmp_path / "libmine.so"
    with pytest.raises(
        settings.SettingError, match="MXNET_LIBRARY_PATH=.*libmine.so': expected a path to"
    ):
        mx.config.set(MXNET_LIBRARY_PATH=str(library))
    library.write_text("no library")
    assert settings.RunConfig(MXNET_LIBRARY_PATH=str(library))["compiler.plugin"] == str(library)
    environment = settings.child_environment(MXNET_LIBRARY_PATH=str(library), JAX_PLATFORMS=None)
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    code = "import mxjax as mx, os; print(os.environ['PJRT_NAMES_AND_LIBRARY_PATHS']); mx.np.ones(1).asnumpy()"
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert result.stdout.strip() == f"mine:{library}"
    assert result.returncode != 0 and str(library) in result.stderr


@pytest.mark.observes
@pytest.mark.parametrize(
    ("variables", "meanwhile", "after"),
    [
        ({}, "1", None),
        ({"MXJAX_ENGINE_GPU_DISPATCH": "synchronous"}, "0", "0"),
        ({"XLA_PYTHON_CLIENT_USE_TFRT_GPU_CLIENT": "0"}, "0", "0"),
    ],
)
def test_programs_on_a_gpu_are_dispatched_asynchronously_unless_told(variables, meanwhile, after):
    code = """
import jax, os
import mxjax as mx
name, seen = "XLA_PYTHON_CLIENT_USE_TFRT_GPU_CLIENT", []
start = jax.local_devices
def starting(**given):
    seen.append(os.environ.get(name))
    return start(**given)
jax.local_devices = starting
mx.np.ones(1).asnumpy()
print(seen[0], os.environ.get(name))
"""
    unset = dict.fromkeys(
        ("XLA_PYTHON_CLIENT_USE_TFRT_GPU_CLIENT", "MXJAX_ENGINE_GPU_DISPATCH"), None
    )
    environment = settings.child_environment(**{**unset, **variables})
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.split() == [meanwhile, str(after)], done.stderr[-2000:]


@pytest.fixture
def cache_off_again():
    yield
    settings.reset()


def files(folder):
    return {path.name for path in folder.rglob("*") if path.is_file()}


def fresh(number):
    return (mx.np.ones(7) * number + 0.125).asnumpy()


@pytest.mark.observes
def test_modes_and_folders_of_the_cache_count_at_once(tmp_path, cache_off_again):
    import jax

    before = jax.config.jax_compilation_cache_dir
    mx.config.set(op_compiler_cache_dir=str(tmp_path / "a"))
    fresh(1001)
    one = files(tmp_path / "a")
    assert one and (tmp_path / "a" / "programs").is_dir()
    mx.config.set(op_compiler_cache_dir=str(tmp_path / "b"))
    fresh(1002)
    assert files(tmp_path / "a") == one and files(tmp_path / "b")
    settings.reset()
    mx.config.set({"engine.cold": "compile"})
    mx.config.set(ASCEND_CACHE_PATH=str(tmp_path / "c"))
    fresh(1005)
    mx.config.set(op_compiler_cache_dir=str(tmp_path / "b"))
    count, others = len(files(tmp_path / "b")), files(tmp_path / "c")
    assert others
    for off in ({"op_compiler_cache_mode": "disable"}, {"MGE_FASTRUN_CACHE_TYPE": "MEMORY"}):
        mx.config.set(off)
        fresh(1003 + 3 * len(off))
        assert len(files(tmp_path / "b")) == count
    (tmp_path / "b" / "mine.txt").write_text("x")
    mx.config.set(op_compiler_cache_mode="force")
    assert files(tmp_path / "b") == {"mine.txt"}  # emptied, but for what is not the cache's
    fresh(1004)
    assert len(files(tmp_path / "b")) >= 2 and files(tmp_path / "c") == others
    settings.reset()
    assert jax.config.jax_compilation_cache_dir == before


@pytest.mark.observes
def test_the_cache_is_bounded_in_bytes(tmp_path, cache_off_again):
    mx.config.set(cache_dir=str(tmp_path), cache_size="12KB")
    for number in range(8):
        (mx.np.ones(5 + number) * 2.5).asnumpy()
    sizes = [path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()]
    assert 0 < sum(sizes) <= 12 * 1024 and len(sizes) < 8


@pytest.mark.observes
def test_programs_in_memory_are_bounded_in_number(cache_off_again):
    def compiled():
        mx.engine.reset()
        for x in arrays:
            (x * 2).asnumpy()
        return mx.engine.stats()["compiled"]

    arrays = [mx.np.ones(size) for size in (3, 4, 5, 6)]
    for x in arrays:
        x.wait_to_read()

    compiled()
    assert compiled() == 0
    with mx.config.scope(MXNET_MKLDNN_CACHE_NUM=2):
        settings_changed = compiled()
        assert settings_changed == 0  # those from before stay
        mx.core.drop_programs()
        assert compiled() == 4 and compiled() == 4
    mx.core.drop_programs()
    compiled()
    assert compiled() == 0


@pytest.mark.observes
def test_dead_options_are_taken_and_say_once_that_they_do_nothing():
    for name in ("enable_reduce_precision", "graph_memory_max_size", "variable_memory_max_size"):
        with pytest.warns(UserWarning, match=f"{name} does nothing here"):
            config = mx.config.RunConfig({name: "1"})
        assert config[name] == "1"
        assert "works on: nothing" in str(mx.config.explain(name))


@pytest.mark.observes
def test_a_memory_policy_that_recomputes_is_a_mirror_unless_told_otherwise():
    with mx.config.scope():
        pass
    mx.config.set(memory_config={"memory_optimization_policy": "recompute"})
    explanation = mx.config.explain("memory.remat")
    assert (explanation.value, explanation.source) == ("mirror", "memory.policy")
    mx.config.set(memory_remat="sublinear")
    assert mx.config.get("memory.remat") == "sublinear"
    settings.reset()
    assert mx.config.get("memory.remat") == "none"
    with pytest.raises(ValueError, match="expected a dict"):
        mx.config.set(memory_config={"static_memory_policy": 9})
