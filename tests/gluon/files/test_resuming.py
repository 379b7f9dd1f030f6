"""A training that is saved, ended and goes on in another process is the one that never ended, bit by bit."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import mxjax as mx
from mxjax import amp, gluon
from mxjax.errors import FormatError
from mxjax.gluon import nn
from mxjax.gluon.data import ArrayDataset, BatchSampler, DataLoader, SimpleDataset
from mxjax.gluon.files import resuming


@pytest.fixture(autouse=True)
def as_before():
    yield
    mx.config.reset("engine.cold")  # loading a checkpoint sets it


#: Thirteen steps, of which the ninth and later are made once more by a new process: `first` saves in the middle of its
#: second epoch and goes on, `second` loads. Each ends with everything that it could differ in.
PROGRAM = """
    import random, sys
    import numpy as np
    import mxjax as mx
    from mxjax import gluon
    from mxjax.gluon import nn

    part, folder, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    mx.random.seed(7 if part == "first" else 99)
    np.random.seed(1 if part == "first" else 98)
    random.seed(2 if part == "first" else 97)

    def varied(x, y):
        return x + np.float32(np.random.normal(0, 0.1)) + np.float32(random.random()), y

    x = np.random.RandomState(0).normal(size=(26, 5)).astype("float32")
    data = gluon.data.ArrayDataset(x, (x.sum(1) > 0).astype("float32")).transform(varied)
    loader = gluon.data.DataLoader(data, 4, shuffle=True, last_batch="rollover", num_workers=workers)
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu"), nn.BatchNorm(), nn.Dropout(0.3), nn.Dense(1))
    net.initialize(mx.init.Xavier())
    net(mx.np.zeros((4, 5)))
    net.hybridize()
    schedule = mx.lr_scheduler.FactorScheduler(3, 0.7, base_lr=0.05, warmup_steps=2)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"lr_scheduler": schedule, "wd": 0.01})
    loss_of = gluon.loss.SigmoidBCELoss()

    def said(*more):
        net.save_parameters(f"{folder}/{part}.npz")
        trainer.save_states(f"{folder}/{part}.states")
        numbers = [mx.np.random.uniform(size=3).asnumpy(), np.random.rand(3), random.random()]
        print([np.asarray(each).tobytes().hex() for each in (*numbers, *more)])

    state = gluon.load_checkpoint(folder, net, trainer, loader) or {"epoch": 0, "step": 0}
    assert (part == "second") == (state["step"] > 0)
    step, losses = state["step"], []
    for epoch in range(state["epoch"], 2):
        for x, y in loader:
            with mx.autograd.record():
                loss = loss_of(net(x), y).mean()
            loss.backward()
            trainer.step(1)
            step += 1
            if step > 8:
                losses.append(loss.item())
            if part == "first" and step == 8:
                gluon.save_checkpoint(folder, net, trainer, loader, extra={"epoch": epoch, "step": step})
    said(np.array(losses))
"""


@pytest.mark.parametrize(
    "workers", [0, pytest.param(2, marks=pytest.mark.slow)]
)  # starts two pools of processes
def test_two_processes_are_one(tmp_path, workers):
    ended = []
    for part in ("first", "second"):
        command = [
            sys.executable,
            "-c",
            textwrap.dedent(PROGRAM),
            part,
            str(tmp_path),
            str(workers),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        ended.append(done.stdout)
    assert ended[0] == ended[1] and len(ended[0]) > 100
    for name in ("npz", "states"):
        one, other = ((tmp_path / f"{part}.{name}").read_bytes() for part in ("first", "second"))
        assert one == other or name == "npz"  # zip archives say when they were made
    one, other = (mx.npx.load(str(tmp_path / f"{part}.npz")) for part in ("first", "second"))
    assert one.keys() == other.keys() and all((one[k] == other[k]).all() for k in one)


def small(**options):
    net = nn.Dense(1, in_units=2, **options)
    net.initialize()
    return net, gluon.Trainer(net.collect_params(), "adam")


def test_what_is_kept_and_what_is_refused(tmp_path):
    net, trainer = small()
    assert gluon.load_checkpoint(tmp_path / "none", net, trainer) is None
    extra = {
        "best": 0.1,
        "seen": [1, "two", None, True],
        "a": {"array": np.arange(3, dtype="int16")},
    }
    for _ in range(4):
        with mx.autograd.record():
            loss = net(mx.np.ones((1, 2))).sum()
        loss.backward()
        trainer.step(1)
        gluon.save_checkpoint(tmp_path, net, trainer, extra=extra, keep=2)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["step-00000003", "step-00000004"]
    weight = net.weight.data().asnumpy()
    again, its = small()
    found = gluon.load_checkpoint(tmp_path, again, its)
    assert found["a"]["array"].dtype == np.int16 and found["a"]["array"].tolist() == [0, 1, 2]
    assert {k: v for k, v in found.items() if k != "a"} == {
        k: v for k, v in extra.items() if k != "a"
    }
    assert (again.weight.data().asnumpy() == weight).all() and its.optimizer.num_update == 4
    (tmp_path / "step-00000004" / "net.safetensors").write_bytes(b"cut")
    gluon.load_checkpoint(tmp_path, again, its)
    assert its.optimizer.num_update == 3  # the one before
    with pytest.raises(ValueError, match="has no position in data, but: none"):
        gluon.load_checkpoint(tmp_path, net, trainer, mx.io.NDArrayIter(np.ones((4, 2))))
    with pytest.raises(FileNotFoundError, match="net-generator"):
        gluon.load_checkpoint(tmp_path, {"generator": net}, trainer)
    with pytest.raises(TypeError, match="got Dense"):
        gluon.save_checkpoint(tmp_path, net, trainer, extra=net)
    with pytest.raises(ValueError, match="letters, digits"):
        gluon.save_checkpoint(tmp_path, {"../x": net}, trainer)
    with pytest.raises(ValueError, match="is no folder"):
        gluon.load_checkpoint(tmp_path / "step-00000003" / "index.json", net, trainer)
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".")]


def test_several_networks_and_the_loss_scale(tmp_path):
    pairs = [small(), small()]
    for _, trainer in pairs:
        trainer._amp_loss_scaler = amp.LossScaler()
    first = pairs[0][1]._amp_loss_scaler
    first.check([mx.np.array([np.inf])])
    first.check([mx.np.array([1.0])])
    before = first.state_dict()
    assert before == {"scale": 32768.0, "next": 32768.0, "unskipped": 1, "skipped": 1}
    nets, trainers = ({"a": one, "b": two} for one, two in zip(*pairs, strict=True))
    gluon.save_checkpoint(tmp_path, nets, trainers, step=5)
    pairs[0][1]._amp_loss_scaler = amp.LossScaler()
    gluon.load_checkpoint(tmp_path, nets, trainers)
    assert pairs[0][1]._amp_loss_scaler.state_dict() == before
    assert (
        pairs[0][1]._amp_loss_scaler.loss_scale == 32768.0
        and pairs[0][1]._amp_loss_scaler.skipped == 1
    )
    pairs[0][1]._amp_loss_scaler = None
    with pytest.raises(ValueError, match="had a loss scale"):
        gluon.load_checkpoint(tmp_path, nets, trainers)


def test_random_numbers_go_on():
    mx.random.seed(3)
    mx.np.random.normal(size=4)
    mx.np.random.normal(size=4, device=mx.cpu(1))
    state = json.loads(json.dumps(mx.random.get_state()))

    def drawn():
        return [
            mx.np.random.uniform(size=3, device=mx.cpu(k)).asnumpy().tolist() for k in (0, 1, 2, 0)
        ]

    before = drawn()
    mx.random.seed(4)
    assert drawn() != before
    mx.random.set_state(state)
    assert drawn() == before
    for bad in ({}, None, {"seed": 1, "devices": [2]}, {"seed": 1, "devices": {"cpu(0)": [1, -2]}}):
        with pytest.raises(FormatError, match="not a state returned by get_state"):
            mx.random.set_state(bad)


@pytest.mark.parametrize("last_batch", ["keep", "discard", "rollover"])
@pytest.mark.parametrize(
    "options", [{}, {"num_workers": 2, "thread_pool": True}], ids=["here", "threads"]
)
def test_place_of_a_loader(last_batch, options):
    def made():
        return DataLoader(
            ArrayDataset(np.arange(11)), 3, shuffle=True, last_batch=last_batch, **options
        )

    def rest(loader, loops):
        return [
            batch.asnumpy().tolist()
            for loop in loops
            for batch in (loader if loop is None else loop)
        ]

    np.random.seed(3)
    loader = made()
    assert len(list(loader)) >= 3
    for given in (1, 2, 3):
        batches = iter(loader)
        for _ in range(given):
            next(batches)
        state, now = loader.state_dict(), np.random.get_state()
        expected = rest(loader, [batches, None])
        other = made()
        other.load_state_dict(state)
        assert other.state_dict()["epoch"]["given"] == given
        np.random.set_state(now)
        assert rest(other, [None, None]) == expected
    assert loader.state_dict()["epoch"] is None  # the loop is over
    for _ in loader:
        assert loader.state_dict()["epoch"]["given"] == 1
        break
    assert loader.state_dict()["epoch"] is None  # left for good
    with pytest.raises(FormatError, match="99 batches were given"):
        loader.load_state_dict({**state, "epoch": {**state["epoch"], "given": 99}})


def test_a_sampler_of_batches_that_rolls_over():
    order = [[5, 6, 7], [8]]
    loader = DataLoader(
        SimpleDataset(list(range(9))),
        batch_sampler=BatchSampler(order[0] + order[1], 3, "rollover"),
    )
    assert len(list(loader)) == 1
    state = loader.state_dict()
    assert state["left"] == [8]
    other = DataLoader(
        SimpleDataset(list(range(9))),
        batch_sampler=BatchSampler(order[0] + order[1], 3, "rollover"),
    )
    other.load_state_dict(state)
    assert [batch.asnumpy().tolist() for batch in other] == [[8, 5, 6]]


@pytest.mark.parametrize("spoilt", ["header", "format", "array", "nothing"])
def test_a_position_that_is_none(spoilt):
    from mxjax import safetensors

    text = {"header": "[", "format": '{"format": "x", "version": 1}', "nothing": None}
    text["array"] = (
        '{"format": "mxjax.position", "version": 1, "found": {"dict": {"data": {"array": 3}}}}'
    )
    metadata = {} if text[spoilt] is None else {"mxjax": text[spoilt]}
    with pytest.raises(FormatError, match="not a checkpoint position file"):
        resuming.read_position(b"".join(safetensors.pack({}, metadata)))
    random.seed(0)
