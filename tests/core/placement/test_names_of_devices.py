"""CPU devices are names: `mx.cpu(i)` always exists, and its work is done on XLA's device i mod n (four here).

What arrays, contexts and errors say is MXNet 2.0's, but for one thing: there cpu(0) + cpu(1) is computed on the first.
"""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, core

pytestmark = pytest.mark.programs

A, B = mx.cpu(4), mx.cpu(8)  # two names of XLA's first device, which is cpu(0)


def counted(work):
    """What the engine counted while this ran."""
    mx.waitall()
    before = mx.engine.stats()
    work()
    mx.waitall()
    now = mx.engine.stats()
    return {k: now[k] - before[k] for k in now}


@pytest.mark.parametrize("number", [0, 3, 4, 5, 1000, -1])
def test_every_number_is_a_device(number):
    device = mx.cpu(number)
    x = mx.np.ones(2, device=device)
    want = mx.cpu(max(number, 0))  # MXNet takes -1 for 0
    assert x.device == x.ctx == x.context == want
    assert device.jax_device is jax.local_devices(backend="cpu")[max(number, 0) % 4]
    assert x.jax.devices() == {device.jax_device}


@pytest.mark.parametrize("made", [
    lambda x: x + 1, lambda x: x * x, lambda x: x.copy(), lambda x: x[0:1], lambda x: x.reshape((1, 2)),
    lambda x: x.sum(), lambda x: x.astype("int32"), lambda x: x.detach(), mx.np.zeros_like, copy.deepcopy,
    lambda x: mx.np.concatenate([x, x]), lambda x: x[mx.np.array([True, False], dtype="bool", device=B)],
    lambda x: mx.np.split(x, 2)[1], lambda x: x.T, lambda x: pickle.loads(pickle.dumps(x)),
    lambda x: x.as_nd_ndarray(), lambda x: x.to_device(A).to_device(B),
])  # fmt: skip
def test_what_is_made_of_an_array_is_on_its_device(made):
    assert made(mx.np.ones(2, device=B)).device == B


def test_contexts_make_arrays_on_the_name():
    with B:
        assert mx.current_device() == mx.current_context() == B
        for x in (
            mx.np.ones(1),
            mx.np.array([1]),
            mx.np.arange(3),
            mx.nd.random.uniform(shape=2),
            mx.np.empty((0, 3)),
        ):
            assert x.device == B
        with mx.cpu(0):
            assert mx.np.ones(1).device == mx.cpu(0)
    assert mx.np.ones(1).device == mx.cpu(0)
    with mx.config.scope(engine_device="cpu9"):
        assert mx.current_device() == mx.np.ones(1).device == mx.cpu(9)


def test_nd_prints_the_name():
    assert repr(mx.nd.ones(2, ctx=mx.cpu(7))) == "\n[1. 1.]\n<NDArray 2 @cpu(7)>"
    assert repr(mx.nd.ones(2, ctx=mx.cpu_pinned(0))) == "\n[1. 1.]\n<NDArray 2 @cpu_pinned(0)>"
    assert repr(mx.np.ones(2, device=mx.cpu(7))) == "array([1., 1.])"


def test_names_are_told_apart():
    assert A != B and mx.cpu(0) != mx.cpu_pinned(0)
    assert hash(mx.cpu(4)) == hash(A)
    assert pickle.loads(pickle.dumps(B)) == B
    for other in (A, mx.cpu(0), mx.cpu(1)):
        with pytest.raises(
            mx.MXNetError, match=rf"different devices: .*on cpu\({other.device_id}\), .*on cpu\(8\)"
        ):
            mx.np.ones(2, device=other) + mx.np.ones(2, device=B)


def test_a_block_of_one_name_refuses_arrays_of_another():
    net = mx.gluon.nn.Dense(2, in_units=2)
    net.initialize(device=[A, B])
    said = r"not initialized on device cpu\(0\).* only initialized on \[cpu\(4\), cpu\(8\)\]"
    with pytest.raises(mx.MXNetError, match=said):
        net(mx.np.ones((1, 2)))
    for device in (A, B):
        assert net.weight.data(device).device == net.weight.grad(device).device == device
        assert net(mx.np.ones((1, 2), device=device)).device == device


def test_a_gpu_that_is_not_there_is_an_error():
    if mx.num_gpus():
        with pytest.raises(mx.MXNetError, match="invalid device ordinal"):
            mx.np.ones(2, device=mx.gpu(mx.num_gpus()))
    else:
        with pytest.raises(
            mx.MXNetError, match=r"no device gpu\(0\).*Compile with USE_CUDA=1 to enable GPU usage"
        ):
            mx.np.ones(2, device=mx.gpu(0))


# ---- what is computed ------------------------------------------------------------------------------------------


def test_names_share_programs():
    def work(device):
        x = mx.np.array(np.arange(6.0).reshape(2, 3), device=device)
        x.attach_grad()
        with autograd.record():
            y = (mx.np.tanh(x) * x).sum()
        y.backward()
        return x.grad.asnumpy(), mx.np.sort(x + 0.5).asnumpy()

    want = work(mx.cpu(0))
    counts = counted(lambda: np.testing.assert_array_equal(work(A)[0], want[0]))
    assert counts["compiled"] == 0 and counts["programs"] == 2 and counts["inferred"] == 0
    counts = counted(lambda: np.testing.assert_array_equal(work(B)[1], want[1]))
    assert counts["compiled"] == 0


def test_a_name_compiles_for_its_device():
    with B:
        counts = counted(lambda: mx.np.arctan(mx.np.ones((3, 5))).asnumpy())
    assert counts["compiled"] == 1
    assert counted(lambda: mx.np.arctan(mx.np.ones((3, 5))).asnumpy())["compiled"] == 0


def test_segments_too_strange_for_a_program_share_those_of_operators():
    def strange(device, n):
        x = mx.np.ones(2, device=device)
        for k in range(n):
            x = mx.np.sin(x) if k % 3 else mx.np.cos(x)
        return x.asnumpy()

    for _ in range(4):  # until each has its program
        want = [strange(mx.cpu(0), n) for n in range(2, 9)]
    counts = counted(
        lambda: [np.testing.assert_allclose(strange(A, n), w) for n, w in enumerate(want, 2)]
    )
    assert counts["compiled"] == 0


def test_bodies_of_loops_are_one_call_for_all_names():
    def loop(device):
        x = mx.np.ones((40, 3), device=device)
        state = mx.np.zeros(3, device=device)
        outs, last = mx.npx.foreach(lambda row, s: (row + s, row + s * 0.5), x, state)
        assert outs.device == last.device == device
        return outs.asnumpy()

    want = loop(mx.cpu(0))
    assert counted(lambda: np.testing.assert_array_equal(loop(B), want))["compiled"] == 0


def test_numbers_that_change_are_inputs_here_too():
    x = mx.np.ones(2, device=B)
    for k in range(5):
        assert (x * float(k) - 1.0).asnumpy().tolist() == [k - 1.0] * 2


def test_updates_overwrite_their_input():
    x = mx.np.zeros((64, 64), device=B)
    counts = counted(lambda: [x.__iadd__(1) for _ in range(3)] and x.wait_to_read())
    assert counts["donated"] == 1 and x.device == B and x[0, 0].item() == 3


# ---- from one to another -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [mx.cpu(0), A, mx.cpu(5)])
def test_copies_are_arrays_of_their_own(source):
    x = mx.np.array([1.0, 2.0], device=source)
    for y in (
        x.as_in_ctx(B),
        x.as_in_context(B),
        x.to_device(B),
        x.copyto(B),
        mx.np.array(x, device=B),
    ):
        assert y.device == B
        y[:] = 5
        x += 1
        y += 1
        assert y.asnumpy().tolist() == [6.0, 6.0]
    assert x.asnumpy().tolist() == [6.0, 7.0] and x.device == source
    assert x.as_in_ctx(source) is x


def test_another_name_costs_no_program_and_no_bytes():
    x = mx.np.ones((256, 256), device=mx.cpu(0)) + 0
    x.wait_to_read()
    made = []
    counts = counted(lambda: made.append(x.to_device(B)))
    (y,) = made
    assert not counts["compiled"] and not counts["programs"]
    assert y.jax.unsafe_buffer_pointer() == x.jax.unsafe_buffer_pointer()


def test_memory_that_others_write_to_is_copied():
    import ctypes

    raw = np.zeros(64 + 4 * 64, "uint8")
    start = -raw.ctypes.data % 64  # XLA shares memory that begins there
    host = raw[start : start + 4 * 64].view("float32")
    address = host.ctypes.data
    x = mx.np.from_dlpack(host)
    y = x.to_device(A)
    ctypes.c_float.from_address(address).value = 3.0
    assert x.asnumpy()[0] == 3.0 and y.asnumpy()[0] == 0.0


def test_writing_keeps_the_place():
    x, y = mx.np.zeros(2, device=A), mx.np.ones(2)
    x[:] = y
    assert x.device == A and x.asnumpy().tolist() == [1.0, 1.0]
    mx.np.add(y, y, out=x)
    assert x.device == A and x.asnumpy().tolist() == [2.0, 2.0]
    y.copyto(x)
    assert x.device == A and x.asnumpy().tolist() == [1.0, 1.0]
    z = mx.np.zeros(2)
    z[:] = x
    assert z.device == mx.cpu(0) and z.asnumpy().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("move", ["as_in_ctx", "to_device", "copyto"])
def test_gradients_find_their_way_back(move):
    x = mx.np.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = getattr(x, move)(B) * mx.np.array([3.0, 4.0], device=B)
        z = y.to_device(A).sum()
    z.backward()
    assert (y.device, z.device, x.grad.device) == (B, A, mx.cpu(0))
    assert x.grad.asnumpy().tolist() == [3.0, 4.0]


def test_arrays_of_no_elements():
    x = mx.np.ones((0, 3), device=A)
    assert (x + 1).to_device(B).device == B and x.copy().shape == (0, 3)
    assert x.sum().item() == 0


def test_random_streams_are_of_the_name():
    def drawn(device):
        return mx.np.random.uniform(size=3, device=device).asnumpy().tolist()

    mx.random.seed(1)
    a, b = drawn(A), drawn(B)
    assert a != b
    mx.random.seed(1)
    assert (drawn(B), drawn(A)) == (b, a)
    mx.random.seed(5, device=B)
    c = drawn(B)
    mx.random.seed(5, device=A)
    assert drawn(A) == c != b


def test_files_are_read_to_the_default_device(tmp_path):
    mx.nd.save(str(tmp_path / "x"), [mx.nd.ones(2, ctx=A)])
    assert mx.nd.load(str(tmp_path / "x"))[0].ctx == mx.cpu(0)
    with B:
        assert mx.nd.load(str(tmp_path / "x"))[0].ctx == B


def test_who_holds_memory_is_told_by_name():
    gc.collect()
    x = mx.np.ones((123, 7), device=B) + 1
    x.wait_to_read()
    (held,) = [h for h in core.holders.holders() if h.shape == (123, 7)]
    assert held.device == "cpu/8"


def test_a_mesh_needs_devices():
    with pytest.raises(mx.MXNetError, match=r"physical devices.*cpu\(0\), cpu\(4\)"):
        mx.mesh(data=2, devices=[mx.cpu(0), A])
    assert mx.mesh(data=2, devices=[A, mx.cpu(5)]).shape == {"data": 2}


# ---- memory that only keeps arrays ---------------------------------------------------------------------------------


@pytest.fixture(params=["cpu_pinned", "cpu_shared"])
def kept(request):
    return mx.np.ones(2, device=mx.Device(request.param, 1))


def test_what_keeps_arrays_keeps_copies(kept):
    place = kept.device
    assert place.device_id == 1 and place.device_type.startswith("cpu_")
    for y in (kept.copy(), kept[0:1], kept.detach(), mx.np.ones(2).to_device(place)):
        assert y.device == place
    kept += 1
    kept[0:1] = 7
    assert kept.device == place and kept.asnumpy().tolist() == [7.0, 2.0]


def test_what_is_computed_of_it_is_on_the_cpu(kept):
    one, two = mx.np.ones(2, device=mx.cpu(1)), mx.np.ones(2, device=mx.cpu(2))
    for y in (
        kept + kept,
        kept + 1,
        kept.astype("int32"),
        kept.reshape((1, 2)),
        mx.np.zeros_like(kept),
    ):
        assert y.device == mx.cpu(1)
    assert (kept + one).device == (one + kept).device == mx.cpu(1)
    assert (two + kept).device == mx.cpu(2)
    assert (kept[0:1] + 1).asnumpy().tolist() == [2.0]


def test_it_has_gradients(kept):
    kept.attach_grad()
    with autograd.record():
        y = (kept * 2).sum()
    y.backward()
    assert kept.grad.asnumpy().tolist() == [2.0, 2.0]


@pytest.mark.parametrize("hybrid", [False, True])
def test_blocks_take_it(kept, hybrid):
    net = mx.gluon.nn.Dense(3, in_units=2)
    net.initialize(mx.init.One(), device=mx.cpu(1))
    if hybrid:
        net.hybridize(static_shape=True)
    for _ in range(2):
        y = net(kept.reshape((1, 2)).to_device(kept.device))
        assert y.device == mx.cpu(1) and y.asnumpy().tolist() == [[2.0] * 3]


# ---- an ordinary process ---------------------------------------------------------------------------------------------

PLAIN = """
import numpy as np, mxjax as mx
a, b = mx.np.ones(2, device=mx.cpu(0)), mx.np.ones(2, device=mx.cpu(1))
assert (a.device, b.device, (b + 1).device) == (mx.cpu(0), mx.cpu(1), mx.cpu(1))
assert mx.cpu(0).jax_device is mx.cpu(1).jax_device
assert repr(mx.nd.ones(1, ctx=mx.cpu(1))).endswith("@cpu(1)>")
parts = mx.gluon.utils.split_and_load(np.arange(8.0).reshape(4, 2), [mx.cpu(0), mx.cpu(1)])
assert [p.device for p in parts] == [mx.cpu(0), mx.cpu(1)] and parts[1].asnumpy().tolist() == [[4, 5], [6, 7]]
kv = mx.kv.create("device")
kv.init(3, mx.np.zeros(2))
outs = [mx.np.zeros(2, device=mx.cpu(i)) for i in range(3)]
kv.push(3, [mx.np.full(2, i + 1.0, device=mx.cpu(i)) for i in range(3)])
kv.pull(3, out=outs)
assert all(o.asnumpy().tolist() == [6.0, 6.0] for o in outs)
assert [o.device for o in outs] == [mx.cpu(i) for i in range(3)]
try:
    mx.np.ones(2, device=mx.gpu(99))
except mx.MXNetError:
    print("well")
"""


def test_without_a_flag_there_are_two_cpus_as_well():
    env = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    env |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(Path(mx.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", PLAIN], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == "well", done.stderr


@pytest.mark.skipif(mx.device.num_gpus() > 0, reason="asks for a GPU that is not there")
def test_a_device_that_is_not_there_may_be_named():
    """As in MXNet the error comes where an array is made on it."""
    with mx.gpu(11):
        assert mx.current_device() == mx.gpu(11)
        with mx.cpu(0):
            assert mx.np.ones(2).device == mx.cpu(0)
        with pytest.raises(mx.MXNetError, match=r"no device gpu\(11\)"):
            mx.np.ones(2)
        with pytest.raises(mx.MXNetError, match=r"no device gpu\(11\)"):
            mx.np.array([1.0])
    assert mx.current_device() == mx.cpu(0)
