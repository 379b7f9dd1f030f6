"""What the settings make of DataLoaders and their workers."""

import os

import numpy as np
import pytest

import mxjax as mx
from mxjax.errors import MXNetMemoryError
from mxjax.gluon.data import ArrayDataset, DataLoader, Dataset
from mxjax.gluon.data._parcel import pack_for_parent, scratch_folder, unpack
from mxjax.gluon.data._pools import _worker_environment

pytestmark = pytest.mark.programs


def host(array):
    from mxjax.gluon.data._parcel import as_host

    return as_host(array)


@pytest.mark.observes
def test_a_batch_stays_within_the_budget_of_shared_memory(capfd):
    folder = scratch_folder()
    batch = [host(np.ones((200, 200), np.float32))]  # 160,000 bytes
    try:
        assert pack_for_parent(batch, folder).path is not None
        with mx.config.scope(MGE_PLASMA_MEMORY=0, MGE_DATALOADER_PLASMA_DEBUG=1):
            parcel = pack_for_parent(batch, folder)
            assert parcel.path is None and not capfd.readouterr().out
        np.testing.assert_array_equal(unpack(parcel, remove=False)[0].asnumpy(), batch[0])
        with (
            mx.config.scope(MGE_PLASMA_MEMORY="100KB"),
            pytest.raises(
                MXNetMemoryError,
                match=r"160000 bytes .*data.shm_bytes \(MGE_PLASMA_MEMORY\) allows, 102400",
            ),
        ):
            pack_for_parent(batch, folder)
    finally:
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


@pytest.mark.observes
def test_the_loader_says_which_way_a_batch_goes(capfd):
    folder = scratch_folder()
    batch = [host(np.ones((200, 200), np.float32))]
    try:
        pack_for_parent(batch, folder)
        assert not capfd.readouterr().err
        with mx.config.scope(MGE_DATALOADER_PLASMA_DEBUG=1):
            pack_for_parent(batch, folder)
            assert "a batch of 160000 bytes goes through shared memory" in capfd.readouterr().err
            with mx.config.scope(MGE_PLASMA_MEMORY=0):
                pack_for_parent(batch, folder)
            assert "160000 bytes goes through a pipe" in capfd.readouterr().err
    finally:
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


@pytest.mark.observes
@pytest.mark.parametrize(
    ("given", "needed", "taken"),
    [
        ({}, 3_000_000, 3_000_000),
        ({"MXNET_GPU_MEM_POOL_ROUND_LINEAR_CUTOFF": 24}, 3_000_000, 1 << 22),
        ({"MXNET_GPU_MEM_POOL_ROUND_LINEAR_CUTOFF": 24}, 17 << 20, 32 << 20),
        ({"MXNET_GPU_MEM_LARGE_ALLOC_ROUND_SIZE": 2097152}, 3_000_000, 1 << 22),
        ({"MXNET_GPU_MEM_LARGE_ALLOC_ROUND_SIZE": 2097152}, 100_000, 100_000),
        ({"MXNET_GPU_MEM_LARGE_ALLOC_ROUND_SIZE": 1}, 3_000_000, 3_000_000),
    ],
)
def test_files_in_shared_memory_are_rounded_as_mxnets_pools_are(given, needed, taken):
    from mxjax.gluon.data._parcel import discard

    folder = scratch_folder()
    with mx.config.scope(given):
        parcel = pack_for_parent([host(np.zeros(needed, np.uint8))], folder)
        environment = _worker_environment()
    try:
        assert os.path.getsize(parcel.path) == taken
        assert unpack(parcel, remove=False)[0].shape == (needed,)
        assert ("MXJAX_MEMORY_HOST_ROUND_CUTOFF" in environment) == ("CUTOFF" in str(given))
    finally:
        discard(parcel)
        os.rmdir(folder)


class Environment(Dataset):
    """Tells each worker's environment."""

    def __len__(self):
        return 2

    def __getitem__(self, idx):
        return {
            name: os.environ.get(name)
            for name in ("OPENCV_FOR_THREADS_NUM", "OMP_NUM_THREADS", "MXJAX_DATA_SHM_BYTES")
        }


@pytest.mark.observes
@pytest.mark.parametrize(("given", "threads"), [(0, "1"), (-1, "1"), (3, "3")])
def test_opencv_has_so_many_threads_in_a_worker(given, threads):
    with mx.config.scope(MXNET_MP_OPENCV_NUM_THREADS=given):
        assert _worker_environment()["OPENCV_FOR_THREADS_NUM"] == threads


@pytest.mark.observes
def test_workers_get_what_the_settings_say():
    pytest.importorskip("loky", reason="worker processes need loky, of the extra 'data'")
    with mx.config.scope(
        MXNET_MP_OPENCV_NUM_THREADS=3, MXNET_MP_WORKER_NTHREADS=2, MGE_PLASMA_MEMORY=5000
    ):
        [batch] = DataLoader(Environment(), 2, num_workers=1, batchify_fn=list)
    assert batch[0] == {
        "OPENCV_FOR_THREADS_NUM": "3",
        "OMP_NUM_THREADS": "2",
        "MXJAX_DATA_SHM_BYTES": "5000",
    }


@pytest.mark.observes
def test_without_preprocessing_ahead_batches_are_made_when_they_are_asked_for():
    made = []

    class Counting(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, idx):
            made.append(idx)
            return np.float32(idx)

    def made_for_the_first_batch(**given):
        made.clear()
        with mx.config.scope(**given):
            loader = DataLoader(Counting(), 1, num_workers=2, thread_pool=True)
        batches = iter(loader)
        next(batches)
        count = loader._prefetch
        list(batches)
        return count

    assert made_for_the_first_batch() == 4
    assert made_for_the_first_batch(enable_data_pre_proc=False) == 0
    assert DataLoader(ArrayDataset(np.ones(3)), 1, num_workers=2, prefetch=3)._prefetch == 3


def batch_of_many():
    return ArrayDataset(
        np.arange(24, dtype=np.float32).reshape(4, 6),
        np.arange(4, dtype=np.int32),
        np.array([True, False, True, True]),
        np.arange(4) * 0.5,
        np.arange(4 * 5000, dtype=np.float32).reshape(4, 5000),
    )


@pytest.mark.observes
@pytest.mark.parametrize("given", [{}, {"num_workers": 1, "thread_pool": True}])
def test_small_arrays_of_a_batch_are_one_copy(monkeypatch, given):
    from mxjax.array import handle

    copies = []
    put = handle.quick_put
    monkeypatch.setattr(
        handle, "quick_put", lambda array, device: copies.append(array.nbytes) or put(array, device)
    )

    def batch(threshold):
        with mx.config.scope(input_fusion_size=threshold):
            loader = DataLoader(batch_of_many(), 4, **given)
        list(loader)  # the first time it looks at the dataset
        copies.clear()
        [found] = loader
        for a in found:
            a.wait_to_read()
        return found, list(copies)

    plain, each = batch(0)
    together, few = batch(16384)
    assert len(each) == 5 and sorted(few) == [320, 80000]  # one copy, and that of the large array
    for a, b in zip(plain, together, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    with pytest.raises(mx.config.SettingError, match="input_fusion_size=.*from 0 to 33554432"):
        mx.config.set(input_fusion_size=1 << 30)


class Guarded(Dataset):
    """A dataset that only one thread may read."""

    def __init__(self, reader):
        self.reader = reader

    def __len__(self):
        return 10

    def __getitem__(self, idx):
        import threading

        assert threading.current_thread().name == self.reader
        return np.float32(idx), np.full(2, idx, np.int32)


@pytest.mark.observes
def test_one_process_loads_for_all(monkeypatch, tmp_path):
    """Threads stand for the processes of a job: a scope's settings are those of its thread."""
    import threading

    from mxjax.errors import MXNetError, MXNetValueError
    from mxjax.gluon.data import _feed

    monkeypatch.setattr(_feed, "scratch_root", lambda: str(tmp_path))
    found, errors = {}, []

    def process(rank):
        try:
            with mx.config.scope(local_rank_id=rank, local_device_list="0,1,2"):
                loader = DataLoader(Guarded("rank0"), 3, last_batch="discard", timeout=60)
                found[rank] = [
                    [a.asnumpy().tolist() for a in batch] for _ in range(2) for batch in loader
                ]
        except Exception as error:
            errors.append(error)

    with (
        pytest.raises(MXNetError, match="mxjax.launch"),
        mx.config.scope(local_rank_id=0, local_device_list="0,1"),
    ):
        DataLoader(Guarded("rank0"), 3)
    monkeypatch.setenv("DMLC_JOB_TOKEN", "a job")
    with pytest.raises(MXNetValueError, match="must name this process"):
        with mx.config.scope(local_rank_id=5, local_device_list="0,1"):
            DataLoader(Guarded("rank0"), 3)
    threads = [
        threading.Thread(target=process, args=(rank,), name=f"rank{rank}") for rank in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for rank in range(3):
        once = [[[i + rank], [[i + rank] * 2]] for i in (0, 3, 6)]
        assert found[rank] == once * 2
    [folder] = os.listdir(tmp_path)
    assert not os.listdir(tmp_path / folder)  # everything was taken


@pytest.mark.observes
def test_batches_are_cut_between_the_devices_listed():
    import jax

    with mx.config.scope(local_device_list="2,0"):
        loader = DataLoader(ArrayDataset(np.arange(8.0, dtype=np.float32).reshape(4, 2)), 4)
    [batch] = loader
    here = jax.local_devices()
    shards = {s.device: np.asarray(s.data) for s in batch.jax.addressable_shards}
    assert set(shards) == {here[2], here[0]}
    np.testing.assert_array_equal(shards[here[2]], [[0, 1], [2, 3]])
    with (
        mx.config.scope(local_device_list="99"),
        pytest.raises(ValueError, match="has the devices 0 to"),
    ):
        DataLoader(ArrayDataset(np.ones((4, 2))), 4)
    with pytest.raises(
        mx.config.SettingError, match="local_device_list='0,0': expected different numbers"
    ):
        mx.config.set(local_device_list="0,0")
