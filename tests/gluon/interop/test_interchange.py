"""Parameters in PyTorch's and Flax's names and layouts, and back."""

import flax.linen
import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import (
    from_flax_variables,
    from_torch_state_dict,
    nn,
    rnn,
    to_flax_variables,
    to_torch_state_dict,
)


def filled(net):
    """With different numbers everywhere, the statistics too."""
    net.initialize()
    rng = np.random.RandomState(4)
    for p in net.collect_params().values():
        p.set_data(mx.np.array(rng.uniform(0.5, 1.5, p.shape)))
    return net


def same(one, other):
    a, b = one.collect_params(), other.collect_params()
    assert a.keys() == b.keys()
    for k in a:
        np.testing.assert_array_equal(a[k].data().asnumpy(), b[k].data().asnumpy())


def sequential(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    return net


def layers(known=True):
    """The same network, with or without the sizes of inputs."""
    i, k, m = (2, 3, 3) if known else (0, 0, 0)
    return sequential(
        nn.Conv2D(3, (2, 5), in_channels=i), nn.BatchNorm(in_channels=k), nn.PReLU(), nn.Dense(4, in_units=m),
        nn.LayerNorm(in_channels=4 if known else 0), nn.Embedding(5, 2),
    )  # fmt: skip


# ---- PyTorch ------------------------------------------------------------------------------------------


def test_names_of_torch():
    net = filled(layers())
    state = to_torch_state_dict(net, tensors=False)
    # What torch.nn.Sequential(Conv2d, BatchNorm2d, PReLU, Linear, LayerNorm, Embedding) has.
    assert {k: v.shape for k, v in state.items()} == {
        "0.weight": (3, 2, 2, 5), "0.bias": (3,), "1.weight": (3,), "1.bias": (3,), "1.running_mean": (3,),
        "1.running_var": (3,), "1.num_batches_tracked": (), "2.weight": (1,), "3.weight": (4, 3), "3.bias": (4,),
        "4.weight": (4,), "4.bias": (4,), "5.weight": (5, 2),
    }  # fmt: skip
    params = net.collect_params()
    np.testing.assert_array_equal(state["1.weight"], params["1.gamma"].data().asnumpy())
    np.testing.assert_array_equal(state["4.bias"], params["4.beta"].data().asnumpy())
    same(from_torch_state_dict(layers(known=False), state), net)


def test_channels_last():
    net = filled(nn.Conv2D(4, (2, 3), layout="NHWC", in_channels=5))
    state = to_torch_state_dict(net, tensors=False)
    own = net.weight.data().asnumpy()  # (out, kh, kw, in)
    assert state["weight"].shape == (4, 5, 2, 3)
    np.testing.assert_array_equal(state["weight"][1, 4], own[1, :, :, 4])
    same(from_torch_state_dict(nn.Conv2D(4, (2, 3), layout="NHWC"), state), net)


@pytest.mark.parametrize("layer", [rnn.LSTM, rnn.GRU, rnn.RNN])
def test_recurrent(layer):
    net = filled(layer(3, num_layers=2, bidirectional=True, input_size=2))
    state = to_torch_state_dict(net, tensors=False)
    gates = {rnn.LSTM: 4, rnn.GRU: 3, rnn.RNN: 1}[layer]
    assert state["weight_ih_l0"].shape == (3 * gates, 2) and state[
        "weight_hh_l1_reverse"
    ].shape == (3 * gates, 3)
    assert set(state) == {
        f"{k}_{g}_l{n}{r}"
        for k in ("weight", "bias")
        for g in ("ih", "hh")
        for n in (0, 1)
        for r in ("", "_reverse")
    }
    pieces = net.unpack_weights()
    np.testing.assert_array_equal(state["bias_hh_l1_reverse"], pieces["r1_h2h_bias"].asnumpy())
    same(from_torch_state_dict(layer(3, num_layers=2, bidirectional=True), state), net)


class Tensor:
    """As PyTorch's: numbers behind detach() and cpu()."""

    def __init__(self, a):
        self._a, self.shape, self.dtype = a, a.shape, a.dtype

    def detach(self):
        return self

    def cpu(self):
        return self

    def __array__(self, dtype=None, copy=None):
        return self._a


def test_other_names_and_tensors():
    net = filled(sequential(nn.Dense(2, in_units=3), nn.Dense(1, in_units=2)))
    state = {
        f"body.fc{int(k[0]) + 1}{k[1:]}": Tensor(v)
        for k, v in to_torch_state_dict(net, tensors=False).items()
    }
    names = {"0": "body.fc1", "1": "body.fc2"}
    same(from_torch_state_dict(sequential(nn.Dense(2), nn.Dense(1)), state, names), net)
    assert set(to_torch_state_dict(net, lambda n: names.get(n, n), tensors=False)) == set(state)


def test_what_does_not_fit():
    net = filled(nn.Dense(2, in_units=3))
    state = to_torch_state_dict(net, tensors=False)
    before = net.weight.data().asnumpy()
    with pytest.raises(AssertionError, match="'bias' there, which the state has not"):
        from_torch_state_dict(net, {"weight": state["weight"]})
    with pytest.raises(AssertionError, match="no place for head.weight"):
        from_torch_state_dict(net, {**state, "head.weight": state["weight"]})
    with pytest.raises(AssertionError, match="shape"):
        from_torch_state_dict(net, {**state, "weight": np.zeros((2, 4), "float32")})
    np.testing.assert_array_equal(net.weight.data().asnumpy(), before)
    from_torch_state_dict(
        net,
        {"weight": np.zeros((2, 3), "float32"), "x": before},
        allow_missing=True,
        ignore_extra=True,
    )
    assert not net.weight.data().asnumpy().any() and net.bias.data().asnumpy().any()


# ---- Flax ------------------------------------------------------------------------------------------------


class Module(flax.linen.Module):
    @flax.linen.compact
    def __call__(self, x, tokens):
        x = flax.linen.Conv(3, (2, 5), padding="VALID")(x)
        x = flax.linen.BatchNorm(use_running_average=True, epsilon=1e-5)(x)
        x = flax.linen.Dense(4)(x)
        return flax.linen.LayerNorm(epsilon=1e-5)(x), flax.linen.Embed(5, 2)(tokens)


NAMES = {"0": "Conv_0", "1": "BatchNorm_0", "2": "Dense_0", "3": "LayerNorm_0", "4": "Embed_0"}


def of_flax(known=True):
    i, k, m = (2, 3, 4) if known else (0, 0, 0)
    return sequential(
        nn.Conv2D(3, (2, 5), layout="NHWC", in_channels=i), nn.BatchNorm(axis=-1, in_channels=k),
        nn.Dense(4, flatten=False, in_units=k), nn.LayerNorm(in_channels=m), nn.Embedding(5, 2),
    )  # fmt: skip


def test_flax_computes_the_same():
    net = filled(of_flax())
    x = np.random.RandomState(2).normal(size=(2, 4, 6, 2)).astype("float32")
    tokens = np.array([[0, 3]], "int32")
    want = mx.np.array(x)
    for layer in list(net)[:4]:
        want = layer(want)
    variables = to_flax_variables(net, NAMES)
    got, vectors = Module().apply(jax.tree.map(jax.numpy.asarray, variables), x, tokens)
    np.testing.assert_allclose(got, want.asnumpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(vectors, net[4](mx.np.array(tokens)).asnumpy())
    same(from_flax_variables(of_flax(known=False), variables, NAMES), net)


def test_orbax(tmp_path):
    """A tree goes to a checkpoint and comes back."""
    orbax = pytest.importorskip("orbax.checkpoint")
    net = filled(of_flax())
    with orbax.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "there", to_flax_variables(net, NAMES))
        same(from_flax_variables(of_flax(), checkpointer.restore(tmp_path / "there"), NAMES), net)


def test_convolutions_of_either_layout():
    """(out, in, h, w) and (out, h, w, in) give the one kernel (h, w, in, out)."""
    net = filled(nn.Conv2D(4, (2, 3), in_channels=5))
    kernel = to_flax_variables(net)["params"]["kernel"]
    np.testing.assert_array_equal(kernel[1, 2, 3], net.weight.data().asnumpy()[:, 3, 1, 2])
    last = from_flax_variables(nn.Conv2D(4, (2, 3), layout="NHWC"), to_flax_variables(net))
    np.testing.assert_array_equal(
        last.weight.data().asnumpy(), net.weight.data().asnumpy().transpose(0, 2, 3, 1)
    )


def test_what_flax_has_otherwise():
    with pytest.raises(NotImplementedError, match="cells where gluon has layers"):
        to_flax_variables(filled(rnn.LSTM(3, input_size=2)))
    with pytest.raises(NotImplementedError, match="transposed"):
        to_flax_variables(filled(nn.Conv2DTranspose(3, 2, in_channels=2)))
    with pytest.raises(AssertionError, match="params.kernel' there"):
        from_flax_variables(nn.Dense(2, in_units=3), {"params": {}})
