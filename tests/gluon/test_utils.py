"""Gluon's helpers: splitting, clipping, files, hooks."""

from __future__ import annotations

import hashlib
import pickle
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax.errors import MXNetError, MXNetOSError, MXNetValueError
from mxjax.gluon import utils


@pytest.mark.parametrize(
    "length, parts, expected",
    [(6, 3, [2, 2, 2]), (5, 2, [3, 2]), (10, 4, [3, 3, 2, 2]), (2, 4, [1, 1, 0, 0]), (4, 1, [4])],
)
def test_split_data(length, parts, expected):
    x = np.arange(length * 2.0).reshape(length, 2)
    got = utils.split_data(mx.np.array(x), parts, even_split=False)
    assert [part.shape[0] for part in got] == expected
    np.testing.assert_array_equal(np.concatenate([part.asnumpy() for part in got]), x)


def test_split_data_along_another_axis():
    x = np.arange(12.0).reshape(2, 6)
    left, right = utils.split_data(mx.np.array(x), 2, batch_axis=1)
    np.testing.assert_array_equal(right.asnumpy(), x[:, 3:])


def test_uneven_splits_must_be_asked_for():
    with pytest.raises(MXNetValueError, match=r"shape \(5, 2\).*multiple of 2, or even_split"):
        utils.split_data(mx.np.ones((5, 2)), 2)


def test_split_and_load():
    devices = [mx.cpu(0), mx.cpu(1)]
    x = np.arange(8.0).reshape(4, 2)
    for data in (x, mx.np.array(x), x.tolist()):
        parts = utils.split_and_load(data, devices)
        assert [part.device for part in parts] == devices
        np.testing.assert_array_equal(parts[1].asnumpy(), x[2:])
    (whole,) = utils.split_and_load(x, [mx.cpu(1)])
    assert whole.device == mx.cpu(1)


def test_split_and_load_runs_no_program_and_copies():
    x = mx.np.array(np.arange(8.0).reshape(4, 2), dtype="float64")
    x.wait_to_read()
    mx.engine.reset()
    left, right = utils.split_and_load(x, [mx.cpu(0), mx.cpu(1)])
    left += 1
    np.testing.assert_array_equal(x.asnumpy()[0], [0, 1])
    assert np.dtype(right.dtype) == np.float64
    assert mx.engine.stats()["segments"] <= 1  # the addition


def test_parts_are_differentiable_while_recording():
    x = mx.np.ones((4, 2))
    x.attach_grad()
    with mx.autograd.record():
        left, right = utils.split_and_load(x, [mx.cpu(0), mx.cpu(0)])
        loss = (left * 2).sum() + (right * 3).sum()
    loss.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [[2, 2], [2, 2], [3, 3], [3, 3]])


def test_clip_global_norm():
    arrays = [mx.np.ones(3) * 3, mx.np.ones((2, 2)) * 4]
    # the norm is sqrt(3 * 9 + 4 * 16)
    assert utils.clip_global_norm(arrays, 1.0) == pytest.approx(91**0.5, rel=1e-6)
    np.testing.assert_allclose(arrays[0].asnumpy(), np.full(3, 3 / 91**0.5), rtol=1e-5)
    np.testing.assert_allclose(arrays[1].asnumpy(), np.full((2, 2), 4 / 91**0.5), rtol=1e-5)


def test_small_norms_stay():
    x = mx.np.array([0.3, 0.4])
    norm = utils.clip_global_norm([x], 1.0, check_isfinite=False)
    assert isinstance(norm, mx.np.ndarray) and norm.shape == (1,)
    assert norm.item() == pytest.approx(0.5)
    np.testing.assert_allclose(x.asnumpy(), [0.3, 0.4], rtol=1e-6)


def test_clipping_over_devices():
    arrays = [mx.np.array([3.0], device=mx.cpu(0)), mx.np.array([4.0], device=mx.cpu(1))]
    assert utils.clip_global_norm(arrays, 2.5) == pytest.approx(5.0)
    assert arrays[1].device == mx.cpu(1)
    np.testing.assert_allclose(arrays[1].asnumpy(), [2.0], rtol=1e-5)


def test_clipping_nan_warns():
    with pytest.warns(UserWarning, match="the global norm is nan"):
        assert np.isnan(utils.clip_global_norm([mx.np.array([np.nan])], 1.0))
    with pytest.raises(AssertionError, match="at least one"):
        utils.clip_global_norm([], 1.0)


def test_shape_is_known():
    shapes = (None, (), (1, 2), (0, 1), (-1, 2))
    # from MXNet 2.0.0b1
    assert [utils.shape_is_known(s) for s in shapes] == [False, True, True, True, False]
    with pytest.raises(AssertionError, match=r"\(-2, 1\)"):
        utils.shape_is_known((-2, 1))
    with mx.config.scope(compat_version="1.9"):  # from MXNet 1.9.1: 0 is not known there
        assert [utils.shape_is_known(s) for s in shapes[:4]] == [False, False, True, False]
        with pytest.raises(AssertionError):
            utils.shape_is_known((-1, 2))


def test_hook_handles():
    hooks = OrderedDict()
    with utils.HookHandle() as handle:
        handle.attach(hooks, print)
        assert list(hooks.values()) == [print]
        with pytest.raises(MXNetValueError, match="another handle"):
            handle.attach(hooks, len)
    assert not hooks
    handle.detach()  # once more does no harm
    utils.HookHandle().detach()
    kept = pickle.loads(pickle.dumps(handle))
    kept.detach()


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "there" / "data.bin"
    path.parent.mkdir()
    path.write_bytes(b"content")
    return path


def test_download_into_folders_and_files(source, tmp_path, monkeypatch):
    url = source.as_uri()
    monkeypatch.chdir(tmp_path)
    assert utils.download(url) == "data.bin"
    folder = tmp_path / "folder"
    folder.mkdir()
    assert utils.download(url, path=str(folder)) == str(folder / "data.bin")
    deep = str(tmp_path / "a" / "b" / "other.bin")
    assert utils.download(url, path=deep) == deep
    assert Path(deep).read_bytes() == b"content"


def test_files_that_are_there_are_not_fetched_again(source, tmp_path):
    target = tmp_path / "data.bin"
    target.write_bytes(b"mine")
    utils.download("http://nowhere.invalid/data.bin", path=str(target))
    assert target.read_bytes() == b"mine"
    utils.download(source.as_uri(), path=str(target), overwrite=True)
    assert target.read_bytes() == b"content"


def test_hashes(source, tmp_path):
    sha1 = hashlib.sha1(b"content").hexdigest()
    assert utils.check_sha1(str(source), sha1) and utils.check_sha1(str(source), sha1.upper())
    target = tmp_path / "data.bin"
    target.write_bytes(b"old")
    utils.download(source.as_uri(), path=str(target), sha1_hash=sha1)
    assert target.read_bytes() == b"content"
    with pytest.raises(MXNetError, match="SHA-1 is not 0000"):
        utils.download(source.as_uri(), path=str(tmp_path / "new.bin"), sha1_hash="0" * 40)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.bin", "there"]


def test_what_cannot_be_fetched_says_what_to_do(tmp_path):
    with pytest.raises(MXNetOSError, match="Without a network.*put it at .*new.bin"):
        utils.download((tmp_path / "no.bin").as_uri(), path=str(tmp_path / "new.bin"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(MXNetValueError, match="retries"):
        utils.download("file:///x", path=str(tmp_path / "x"), retries=-1)


def test_repository_urls_follow_the_setting():
    with mx.config.scope(data_repo="https://example.org/mxnet"):
        url = utils._get_repo_file_url("gluon/dataset/mnist", "a.gz")
    assert url == "https://example.org/mxnet/gluon/dataset/mnist/a.gz"
