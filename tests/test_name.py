"""Managers of names; what `get` gives is from MXNet 2.0.0b1."""

from __future__ import annotations

import threading

import pytest

import mxjax as mx
from mxjax.gluon.block import _block_scope


def test_names_are_counted_by_hint():
    with mx.name.NameManager() as names:
        assert mx.name.current() is names
        assert [names.get(None, "fc"), names.get(None, "fc"), names.get(None, "conv")] == [
            "fc0",
            "fc1",
            "conv0",
        ]
        assert names.get("mine", "fc") == "mine" and names.get("", "fc") == "fc2"


def test_a_prefix_stands_before_every_name():
    with mx.name.Prefix("net_"):
        assert mx.name.current().get(None, "fc") == "net_fc0"
        assert mx.name.current().get("out", "fc") == "net_out"
        with mx.name.Prefix("in_"):  # prefixes do not add up
            assert mx.name.current().get(None, "fc") == "in_fc0"
        assert mx.name.current().get(None, "fc") == "net_fc1"


def test_a_manager_entered_twice_and_left_by_an_error():
    before = mx.name.current()
    names = mx.name.NameManager()
    with pytest.raises(ZeroDivisionError), names, names:
        1 / 0  # noqa: B018
    assert mx.name.current() is before


def test_each_thread_has_its_own():
    seen = []
    with mx.name.NameManager() as here:
        here.get(None, "x")
        thread = threading.Thread(target=lambda: seen.append(mx.name.current()))
        thread.start()
        thread.join()
    assert len(seen) == 1 and seen[0] is not here


def test_the_name_of_a_block_stands_before_names_within():
    class Net:
        pass

    class Dense:
        pass

    names = []
    with _block_scope(Net()):
        names.append(mx.name.current().get(None, "w"))
        for _ in range(2):
            with _block_scope(Dense()):
                names.append(mx.name.current().get(None, "w"))
        names.append(mx.name.current().get(None, "w"))
    with _block_scope(Net()):
        names.append(mx.name.current().get(None, "w"))
    assert names == ["net_w0", "net_dense0_w0", "net_dense1_w0", "net_w1", "net_w0"]


def test_mxnet_1_keeps_the_manager_in_a_value():
    with mx.name.Prefix("p_"):
        assert mx.name.NameManager._current.value.get(None, "fc") == "p_fc0"
        assert mx.name.Prefix._current.value is mx.name.current()
