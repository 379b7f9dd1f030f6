"""What is below: features, libraries, loggers; the exchange of arrays; libraries that cannot be loaded."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax.runtime import Feature, Features, feature_list

#: The features of MXNet 2.0.0b1 and 1.9.1.
OF_MXNET = """
CUDA CUDNN NCCL TENSORRT CUTENSOR CPU_SSE CPU_SSE2 CPU_SSE3 CPU_SSE4_1 CPU_SSE4_2 CPU_SSE4A CPU_AVX CPU_AVX2 OPENMP SSE
F16C JEMALLOC BLAS_OPEN BLAS_ATLAS BLAS_MKL BLAS_APPLE LAPACK ONEDNN OPENCV DIST_KVSTORE INT64_TENSOR_SIZE
SIGNAL_HANDLER DEBUG TVM_OP CUDA_RTC MKLDNN CAFFE PROFILER CXX14
""".split()


def test_features_have_mxnets_names_and_tell_of_this_machine():
    features = Features()
    assert set(features) == {*OF_MXNET, "JAX_PRIVATE_NAMES"} and Features() is features
    assert features.is_enabled("lapack") and not features.is_enabled("TVM_OP")
    assert features.is_enabled("CUDA") == (mx.num_gpus() > 0)
    assert repr(features["LAPACK"]) == "✔ LAPACK" and repr(Feature("X", False)) == "✖ X"
    assert [feature.name for feature in feature_list()] == list(features)
    with pytest.raises(RuntimeError, match="LAPACK"):
        features.is_enabled("LAPAK")
    info = Path("/proc/cpuinfo")
    if info.exists() and "flags" in info.read_text():
        assert features.is_enabled("CPU_AVX2") == (" avx2" in info.read_text())


def test_the_branch_and_commit_of_a_working_copy(tmp_path, monkeypatch):
    from mxjax import runtime

    git = tmp_path / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/topic\n")
    (git / "refs" / "heads" / "topic").write_text("a" * 40 + "\n")
    monkeypatch.setattr(runtime, "__file__", str(tmp_path / "mxjax" / "runtime.py"))
    assert (runtime.get_branch(), runtime.get_commit_hash()) == ("topic", "a" * 40)
    (git / "refs" / "heads" / "topic").unlink()
    (git / "packed-refs").write_text(f"# pack-refs\n{'b' * 40} refs/heads/topic\n")
    assert runtime.get_commit_hash() == "b" * 40
    (git / "HEAD").write_text("c" * 40 + "\n")
    assert (runtime.get_branch(), runtime.get_commit_hash()) == ("HEAD", "c" * 40)
    (git / "HEAD").unlink()
    assert (runtime.get_branch(), runtime.get_commit_hash()) == ("", "")


def test_where_compiled_code_and_headers_lie():
    libraries = mx.libinfo.find_lib_path()
    assert libraries and all(Path(path).is_file() for path in libraries)
    assert any(Path(mx.libinfo.find_include_path()).rglob("*.h"))
    assert mx.libinfo.__version__ == mx.__version__
    for missing in (lambda: mx.libinfo.find_lib_path("libtvm"), mx.libinfo.find_conf_path):
        with pytest.raises(RuntimeError):
            missing()


def test_libraries_of_operators_are_refused(tmp_path):
    other, library = tmp_path / "a.txt", tmp_path / "a.so"
    for path in (other, library):
        path.touch()
    for path, words in (("no.so", "does NOT exist"), (str(other), "is NOT a library file")):
        with pytest.raises(mx.MXNetError, match=words):
            mx.library.load(path)
    with pytest.raises(NotImplementedError, match="CustomOp"):
        mx.library.load(str(library))
    assert mx.library.loaded_libs == [] and mx.library.compiled_with_gcc_cxx11_abi() == -1


def test_loggers(tmp_path, capfd):
    from mxjax import log

    shown = log.get_logger("mxjax.test.shown", level=log.INFO)
    assert (
        log.get_logger("mxjax.test.shown", level=log.ERROR) is shown and shown.level == logging.INFO
    )
    shown.propagate = False
    shown.info("words")
    shown.debug("not shown")
    text = capfd.readouterr().err
    assert text.startswith("\x1b[32mI") and "test_runtime.py:test_loggers:" in text
    assert text.endswith("]\x1b[0m words\n")
    kept = log.get_logger("mxjax.test.kept", str(tmp_path / "log"))
    kept.propagate = False
    kept.warning("lines")
    assert (tmp_path / "log").read_text() == "lines\n"
    assert log.get_logger() is logging.getLogger()
    with pytest.warns(DeprecationWarning):
        assert log.getLogger("mxjax.test.kept") is kept
    for logger in (shown, kept):
        for handler in logger.handlers[:]:
            handler.close()
            logger.removeHandler(handler)


def test_arrays_are_exchanged():
    from mxjax import dlpack

    assert (
        dlpack.DLDeviceType(2) is dlpack.DLDeviceType.DLGPU
        and int(dlpack.DLDeviceType.DLEXTDEV) == 12
    )
    take = dlpack.ndarray_from_dlpack(mx.nd.NDArray)
    for maker in (dlpack.ndarray_to_dlpack_for_read(), dlpack.ndarray_to_dlpack_for_write()):
        got = take(maker(mx.nd.array([1, 2])))
        assert type(got) is mx.nd.NDArray and got.asnumpy().tolist() == [1, 2]
    from_numpy = dlpack.ndarray_from_numpy(mx.np.ndarray, mx.np.array)
    source = np.arange(3, dtype="float32")
    assert from_numpy(source, zero_copy=False).asnumpy().tolist() == [0, 1, 2]
    source[0] = 5  # still ours
    assert type(from_numpy(source)) is mx.np.ndarray
    with pytest.raises(ValueError, match="contiguous"):
        from_numpy(np.ones((2, 3), "float32").T)
