"""What the settings make of programs: their text, their options, the files about them."""

import os
import re

import numpy as np
import pytest

import mxjax as mx
from mxjax import settings
from mxjax.engine import knows
from mxjax.settings import SettingError
from mxjax.settings.rows import OPTIONS

pytestmark = pytest.mark.programs

EMITTERS = pytest.mark.skipif(
    not knows("cpu", "xla_cpu_use_fusion_emitters", True),
    reason="this XLA has one emitter of fused loops left",
)


def chain():
    x = mx.np.array(np.arange(8.0))
    return (mx.np.sin(x) * 2 + mx.np.exp(x)).asnumpy()


def product():
    x = mx.np.array(np.arange(64.0).reshape(8, 8) / 64)
    return mx.np.dot(x, x).asnumpy()


def together(text):
    """The largest number of elementwise operators in one fused computation."""
    found = re.split(r"\n(?=%\S* \()", text)
    names = r"\b(?:sine|exponential|multiply|add)\("
    return max((len(re.findall(names, part)) for part in found if part.startswith("%")), default=0)


@pytest.mark.observes
@pytest.mark.parametrize(
    "given",
    [
        {"MXNET_USE_FUSION": 0},
        {"buffer_optimize": "off_optimize"},
        {"fusion_switch_file": '{"Switch": {"GraphFusion": {"ALL": "off"}}}'},
    ],
)
def test_without_fusion_no_two_operators_share_a_loop(programs, given):
    before = chain()
    assert together(programs.text) >= 4
    programs.clear()
    with mx.config.scope(given):
        after = chain()
    assert programs and together(programs.text) <= 1
    np.testing.assert_allclose(after, before, rtol=1e-6)


@pytest.mark.observes
def test_without_the_library_products_are_xlas_own(programs):
    before = product()
    assert "ynn" in programs.text
    programs.clear()
    with mx.config.scope(MXNET_MKLDNN_ENABLED=0):
        after = product()
    assert programs and "ynn" not in programs.text
    np.testing.assert_allclose(after, before, rtol=1e-6)


@pytest.mark.observes
def test_cse_off_computes_equal_operators_twice(programs, tmp_path):
    def twice():
        x = mx.np.array(np.arange(8.0))
        return (mx.np.sin(x) + mx.np.sin(x)).asnumpy()

    def sines():
        return len(re.findall(r"\bsine\(", programs.text))

    twice()
    assert sines() == 1
    file = tmp_path / "switch.cfg"
    file.write_text("cse:off\n# a comment\nfusion:off\n")
    for given in ({"MXNET_ELIMINATE_COMMON_EXPR": 0}, {"fusion_switch_file": str(file)}):
        programs.clear()
        with mx.config.scope(given):
            twice()
            assert sines() == 2
            assert "cse" in programs.options["xla_disable_hlo_passes"].split(",")


@pytest.mark.observes
def test_temp_workspaces_choose_the_order_of_work(programs):
    def branches():
        many = [mx.np.array(np.full((128, 128), (k + 1) / 128)) for k in range(8)]
        products = [mx.np.dot(x * 0.5, many[0]) for x in many]
        return float(sum((mx.np.exp(y).sum() for y in products), mx.np.zeros(())))

    def temporaries(count):
        programs.clear()
        with mx.config.scope(MXNET_EXEC_NUM_TEMP=count):
            branches()
        return max(c.memory_analysis().temp_size_in_bytes for c, _ in programs)

    assert temporaries(2) - temporaries(1) >= 2 * 128 * 128 * 4  # so many products at a time


@pytest.mark.observes
@pytest.mark.parametrize(
    ("given", "platform", "told"),
    [
        ({"MXNET_CUDNN_AUTOTUNE_DEFAULT": 0}, "gpu", {"xla_gpu_autotune_level": 0}),
        (
            {"MXNET_CUDNN_AUTOTUNE_DEFAULT": 2},
            "gpu",
            {"xla_gpu_autotune_level": 4, "xla_gpu_exhaustive_tiling_search": True},
        ),
        (
            {"MEGENGINE_EXECUTION_STRATEGY": "PROFILE_REPRODUCIBLE"},
            "gpu",
            {"xla_gpu_autotune_level": 4, "xla_gpu_deterministic_ops": True},
        ),
        ({"MEGENGINE_EXECUTION_STRATEGY": "heuristic"}, "gpu", {"xla_gpu_autotune_level": 0}),
        ({"MXNET_GPU_WORKER_NTHREADS": 3}, "gpu", {"xla_gpu_executable_num_compute_streams": 3}),
        (
            {"stream_max_parallel_num": "DNN_VM_AICPU:10,AIcoreEngine:5"},
            "gpu",
            {"xla_gpu_executable_num_compute_streams": 5},
        ),
        (
            {"MXNET_ENFORCE_DETERMINISM": 1},
            "gpu",
            {"xla_gpu_deterministic_ops": True, "xla_gpu_exclude_nondeterministic_ops": True},
        ),
        ({"CUDA_BIN_PATH": os.sep}, "gpu", {"xla_gpu_cuda_data_dir": os.sep}),
        ({"MGB_JIT_BACKEND": "NVRTC"}, "gpu", {"xla_gpu_enable_triton_gemm": False}),
        pytest.param(
            {"MGB_JIT_BACKEND": "HALIDE"},
            "cpu",
            {"xla_cpu_use_fusion_emitters": False},
            marks=EMITTERS,
        ),
        pytest.param(
            {"MGB_JIT_BACKEND": "MLIR"},
            "cpu",
            {"xla_cpu_use_fusion_emitters": True},
            marks=EMITTERS,
        ),
        ({"MXNET_USE_OPERATOR_TUNING": "0"}, "cpu", {"xla_cpu_multi_thread_eigen": False}),
        ({"op_select_implmode": "high_performance"}, "cpu", {"xla_cpu_enable_fast_math": True}),
    ],
)
def test_options_reach_xla_and_xla_knows_them(given, platform, told):
    """Without the device: XLA:CPU takes and checks the options of a GPU, too."""
    import jax

    from mxjax.core.hooks import option_contributors

    with mx.config.scope(given):
        merged = {}
        for contribute in option_contributors:
            merged.update(contribute(platform, ()))
        assert told.items() <= merged.items()
        jax.jit(lambda x: x + 1).lower(1.0).compile(compiler_options=merged)
        name = settings._registry.canonical(next(iter(given)))
        words = " ".join(settings.explain(name).becomes)
        assert all(option in words for option in told)
    plain = {}
    for contribute in option_contributors:
        plain.update(contribute(platform, ()))
    assert not set(told) - {"xla_gpu_deterministic_ops"} & set(plain)


def test_what_is_for_a_gpu_says_once_that_it_does_nothing_here(caplog):
    from mxjax import engine

    engine._told.clear()
    with mx.config.scope(MXNET_CUDNN_AUTOTUNE_DEFAULT=0):
        product()
        chain()
    told = [r.getMessage() for r in caplog.records]
    assert told == ["compiler.autotune='off' does nothing on cpu: it is for gpu"]
    assert "does nothing here" in str(settings.explain("MXNET_CUDNN_AUTOTUNE_DEFAULT"))
    caplog.clear()
    mx.config.set(MXNET_GPU_MEM_POOL_RESERVE=10, MGB_CUDA_RESERVE_MEMORY=0)
    mx.core.drop_programs()
    product()
    chain()
    assert [r.getMessage() for r in caplog.records] == [
        "memory.fraction=0.9 does nothing on cpu: it is for gpu",
        "memory.preallocate=False does nothing on cpu: it is for gpu",
    ]


def test_an_option_that_this_xla_lacks_is_left_out_and_said_once(monkeypatch, caplog):
    from mxjax import engine

    row = next(row for row in engine._COMPILED if row.name == "compiler.cpu_parallel")
    other = row._replace(
        compiler=lambda on, platform: {} if on else {"xla_cpu_option_of_yesterday": 1}
    )
    monkeypatch.setattr(engine, "_COMPILED", [other])
    engine._told.clear()
    with mx.config.scope(compiler_cpu_parallel=False):
        product()
        chain()
    assert [r.getMessage() for r in caplog.records] == [
        "compiler.cpu_parallel=False: this XLA has no option xla_cpu_option_of_yesterday any more, so it does "
        "nothing"
    ]


@pytest.mark.observes
def test_a_cuda_folder_that_is_not_there_is_an_error_everywhere():
    with pytest.raises(
        SettingError, match="CUDA_BIN_PATH='/nowhere/bin': expected a path to something"
    ):
        mx.config.set(CUDA_BIN_PATH="/nowhere/bin")


@pytest.mark.observes
def test_xla_refuses_options_it_does_not_know():
    with mx.config.scope(experimental_config={"xla_no_such_option": 1}):
        with pytest.raises(Exception, match="xla_no_such_option"):
            chain()


@pytest.mark.observes
def test_debug_levels_keep_more_and_more_files(tmp_path):
    def kinds(level):
        folder = tmp_path / str(level)
        with mx.config.scope(op_debug_level=level, MGB_JIT_WORKDIR=str(folder)):
            (mx.np.ones(3) * (level + 2)).asnumpy()
        return {name.split(".", 1)[1] for name in os.listdir(folder)} if folder.exists() else set()

    one, three = kinds(1), kinds(3)
    assert any(name.endswith("after_optimizations.txt") for name in one)
    assert any(name.endswith(".o") for name in one)
    assert len(three) > len(one) + 5


@pytest.mark.observes
def test_compiler_files_stay_where_they_are_wanted(tmp_path, caplog):
    from mxjax.effects import files

    kept, gone = tmp_path / "kept", tmp_path / "gone"
    with mx.config.scope(MGB_JIT_KEEP_INTERM=1, MGB_JIT_WORKDIR=str(kept)):
        (mx.np.ones(3) * 7).asnumpy()
    with mx.config.scope(MGB_JIT_WORKDIR=str(gone)):
        (mx.np.ones(3) * 8).asnumpy()
        assert os.listdir(gone)
    files._clean()  # what runs at exit
    assert os.listdir(kept) and not gone.exists()
    with mx.config.scope(MGB_JIT_KEEP_INTERM=1):
        (mx.np.ones(3) * 9).asnumpy()
        folder = files.folder()
        assert os.listdir(folder) and any(folder in r.getMessage() for r in caplog.records)


def test_rows_for_pieces_of_hardware_name_it():
    for row in OPTIONS:
        if row.compiler is not None and row.platforms:
            others = {"cpu", "gpu", "tpu"} - set(row.platforms)
            assert all(not row.compiler(row.default, platform) for platform in others)
