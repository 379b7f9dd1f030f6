"""`horovod.mxnet` of one process; of several: processes/with_horovod.py."""

from __future__ import annotations

import subprocess
import sys

import numpy as onp
import pytest

import mxjax as mx
from mxjax.kvstore import horovod_mxnet as hvd


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in ("DMLC_PS_ROOT_URI", "HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)
    hvd.shutdown()
    hvd.init()
    yield
    hvd.shutdown()


@pytest.mark.parametrize("array", [mx.nd.array, mx.np.array])
def test_one_process_keeps_its_numbers_and_kind(array):
    x = array([[1.0, 2.0], [3.0, 4.0]], dtype="float16")
    for found in (
        hvd.allreduce(x), hvd.allreduce(x, op=hvd.Max), hvd.allgather(x), hvd.broadcast(x, 0), hvd.alltoall(x),
        hvd.reducescatter(x),
    ):  # fmt: skip
        assert type(found) is type(x) and found.dtype == onp.float16
        onp.testing.assert_array_equal(found.asnumpy(), x.asnumpy())
    assert hvd.allreduce_(x, average=False) is x and hvd.broadcast_(x, 0) is x
    assert (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.cross_rank(), hvd.is_homogeneous()) == (
        0,
        1,
        0,
        0,
        True,
    )


def test_a_trainer_of_one_process_is_a_trainer():
    weights = []
    for make in (hvd.DistributedTrainer, mx.gluon.Trainer):
        net = mx.gluon.nn.Dense(1, in_units=2)
        net.initialize(mx.init.One())
        hvd.broadcast_parameters(net.collect_params())
        trainer = make(net.collect_params(), "adam", {"learning_rate": 0.1})
        for _ in range(2):
            with mx.autograd.record():
                loss = (net(mx.np.ones((3, 2))) ** 2).sum()
            loss.backward()
            trainer.step(3)
        weights.append(net.weight.data().asnumpy())
    onp.testing.assert_array_equal(*weights)


def test_an_optimizer_in_an_optimizer_is_unwrapped_with_a_word():
    net = mx.gluon.nn.Dense(1, in_units=2)
    net.initialize()
    inner = mx.optimizer.create("sgd", learning_rate=0.25)
    with pytest.warns(UserWarning, match="unwrapped"):
        trainer = hvd.DistributedTrainer(net.collect_params(), hvd.DistributedOptimizer(inner))
    assert trainer.learning_rate == 0.25


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda x: hvd.allreduce(x, op=hvd.Adasum), NotImplementedError, "Adasum"),
        (lambda x: hvd.allreduce(x, op="Summ"), ValueError, r"op='Summ'.*hvd\.Sum"),
        (lambda x: hvd.broadcast_parameters([x]), ValueError, "invalid params of type: list"),
        (lambda x: hvd.allreduce(x, True, op=hvd.Sum), ValueError, "one of them"),
        (lambda x: hvd.broadcast(x, 1), ValueError, "root_rank=1.*0 to 0"),
        (lambda x: hvd.alltoall(x, splits=[3]), ValueError, r"splits=\[3\]: expected 1"),
        (lambda x: hvd.broadcast_object(object()), TypeError, "JSON"),
        (lambda x: hvd.init(comm=[0, 1]), NotImplementedError, "communicator"),
    ],
)
def test_mistakes(call, kind, match):
    with pytest.raises(kind, match=match):
        call(mx.nd.ones((2, 2)))


def test_who_was_not_initialized_is_told():
    hvd.shutdown()
    with pytest.raises(ValueError, match=r"hvd\.init"):
        hvd.rank()


def test_processes_of_another_launcher_do_not_train_by_themselves(monkeypatch):
    hvd.shutdown()
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    with pytest.raises(mx.MXNetError, match=r"mxjax\.launch -n 4"):
        hvd.init()


def test_programs_find_it_under_horovods_name(tmp_path):
    program = (
        "import horovod.mxnet as hvd, horovod; hvd.init(); print(hvd.size(), horovod.mxnet is hvd)"
    )
    run = [sys.executable, "-m", "mxjax", tmp_path / "old.py"]
    (tmp_path / "old.py").write_text(program)
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.split() == [
        "1",
        "True",
    ]
    (
        tmp_path / "horovod"
    ).mkdir()  # one that is installed stays what it is, but for its half for MXNet
    (tmp_path / "horovod" / "__init__.py").write_text("real = True")
    (tmp_path / "old.py").write_text(f"{program}; assert horovod.real")
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.split() == [
        "1",
        "True",
    ]
    alone = "import mxjax\ntry:\n    import horovod.mxnet\nexcept ImportError:\n    print('none')"
    found = subprocess.run(
        [sys.executable, "-c", alone], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["none"]
