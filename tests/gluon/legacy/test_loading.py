"""Files of either generation load into networks of either."""

from __future__ import annotations

import numpy as onp
import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.gluon import nn


def old(prefix):
    net = nn.HybridSequential(prefix=prefix)
    with net.name_scope():
        net.add(nn.Dense(3, in_units=2), nn.BatchNorm(in_channels=3), nn.Dense(3, in_units=3))
    net.initialize(mx.init.Normal(1.0))
    return net


def new():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=2), nn.BatchNorm(in_channels=3), nn.Dense(3, in_units=3))
    net.initialize()
    return net


def same(a, b):
    pairs = zip(a._walk(""), b._walk(""), strict=True)
    return all(onp.array_equal(p.data().asnumpy(), q.data().asnumpy()) for (_, p), (_, q) in pairs)


@pytest.mark.parametrize("arrays", [True, False])
@pytest.mark.parametrize("target", [lambda: old("b_"), new])
def test_every_way_to_write_into_every_network(tmp_path, arrays, target):
    net, file = old("a_"), str(tmp_path / "w")
    with mx.np_array(arrays):
        net.save_parameters(file)
        into = target()
        into.load_parameters(file)
        assert same(net, into)
    with pytest.warns(UserWarning, match="save_params is deprecated"):
        net.save_params(file)
    assert sorted(mx.nd.load(file))[:2] == ["batchnorm0_beta", "batchnorm0_gamma"]
    into = target()
    into.load_parameters(file)
    assert same(net, into)
    net.collect_params().save(file)
    assert "a_dense0_weight" in mx.nd.load(file)
    into = target()
    with pytest.warns(UserWarning, match="load_params is deprecated"):
        into.load_params(file)
    assert same(net, into)


def test_an_exported_file_separates_the_states(tmp_path):
    net, file = old("a_"), str(tmp_path / "w")
    arrays = {n: p.data() for n, p in net.collect_params().items()}
    aux = {n for n in arrays if "running" in n}
    mx.nd.save(file, {**{f"arg:{n}": a for n, a in arrays.items() if n not in aux},
                      **{f"aux:{n}": arrays[n] for n in sorted(aux)}})  # fmt: skip
    into = new()
    into.load_parameters(file)
    assert same(net, into)


def test_by_order_only_where_it_fits(tmp_path):
    net, file = old("a_"), str(tmp_path / "w")
    net.collect_params().save(file)
    other = nn.HybridSequential()
    other.add(nn.Dense(3, in_units=2), nn.Dense(3, in_units=3))
    other.initialize()
    with pytest.raises(AssertionError, match="is missing in file"):
        other.load_parameters(file)
    other.load_parameters(file, allow_missing=True, ignore_extra=True)


def test_parameter_dict_files(tmp_path):
    net, file = old("a_"), str(tmp_path / "w")
    net.collect_params().save(file, strip_prefix="a_")
    into = old("b_")
    into.collect_params().load(file, restore_prefix="b_")
    assert same(net, into)
    with pytest.raises(AssertionError, match="does not start with"):
        into.collect_params().load(file, restore_prefix="c_")
    with pytest.raises(ValueError, match="to be striped"):
        net.collect_params().save(file, strip_prefix="b_")
    with pytest.raises(AssertionError, match="is missing in"):
        into.collect_params().load(file)
    into[0].collect_params().load(file, restore_prefix="b_", ignore_extra=True)
    mx.nd.save(file, {"extra": mx.nd.ones((1,))})
    with pytest.raises(AssertionError, match="is not present"):
        gluon.ParameterDict().load(file)
