"""Checkpoints: whole ones or none."""

from __future__ import annotations

import pytest

import mxjax as mx
from mxjax.launch import Checkpoints


def write(text):
    return {"a.txt": lambda path: path.write_text(text), "b.txt": lambda path: path.write_text("b")}


def test_the_newest_is_found_and_old_ones_go(tmp_path):
    points = Checkpoints(tmp_path / "runs", keep=2)
    assert points.latest() is None and points.load({}) is None
    for step in (3, 20, 100):
        points.save(step, write(str(step)))
    step, files = points.latest()
    assert step == 100 and files["a.txt"].read_text() == "100"
    assert sorted(p.name for p in points.folder.iterdir()) == ["step-00000020", "step-00000100"]
    points.save(100, write("again"))
    read = []
    assert points.load({"a.txt": lambda path: read.append(path.read_text())}) == 100
    assert read == ["again"]


@pytest.mark.parametrize("damage", ["cut", "changed", "gone", "index"])
def test_one_that_is_not_whole_is_passed_over(tmp_path, damage):
    points = Checkpoints(tmp_path)
    points.save(1, write("first"))
    points.save(2, write("second"))
    file = tmp_path / "step-00000002" / "a.txt"
    if damage == "cut":
        file.write_text("sec")
    elif damage == "changed":
        file.write_text("secomd")
    elif damage == "gone":
        file.unlink()
    else:
        (file.parent / "index.json").write_text("{")
    assert points.latest()[0] == 1


def test_a_failure_while_writing_leaves_the_earlier_ones(tmp_path):
    points = Checkpoints(tmp_path)
    points.save(1, write("first"))

    def fail(path):
        path.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        points.save(2, {"a.txt": fail})
    assert [p.name for p in tmp_path.iterdir()] == ["step-00000001"]


def test_mistakes_are_named(tmp_path, monkeypatch):
    monkeypatch.delenv("DMLC_CHECKPOINTS", raising=False)
    with pytest.raises(ValueError, match="--checkpoints"):
        Checkpoints()
    monkeypatch.setenv("DMLC_CHECKPOINTS", str(tmp_path))
    assert Checkpoints().folder == tmp_path
    with pytest.raises(ValueError, match="at least 1"):
        Checkpoints(tmp_path, keep=0)
    with pytest.raises(ValueError, match="no name for a file"):
        Checkpoints(tmp_path).save(1, {"../x": print})
    Checkpoints(tmp_path).save(1, write("x"))
    with pytest.raises(FileNotFoundError, match=r"no 'c\.txt', only a\.txt, b\.txt"):
        Checkpoints(tmp_path).load({"c.txt": print})


def test_a_network_and_its_trainer_come_back(tmp_path):
    def made():
        net = mx.gluon.nn.Dense(2, in_units=3)
        net.initialize()
        return net, mx.gluon.Trainer(net.collect_params(), "adam")

    def step(net, trainer):
        with mx.autograd.record():
            loss = (net(mx.np.ones((4, 3))) ** 2).sum()
        loss.backward()
        trainer.step(4)

    points = Checkpoints(tmp_path)
    net, trainer = made()
    step(net, trainer)
    points.save(1, {"net": net.save_parameters, "trainer": trainer.save_states})
    step(net, trainer)
    other, its = made()
    assert points.load({"net": other.load_parameters, "trainer": its.load_states}) == 1
    step(other, its)
    assert (other.weight.data().asnumpy() == net.weight.data().asnumpy()).all()
