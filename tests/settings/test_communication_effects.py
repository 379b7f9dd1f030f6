"""What the settings make of sums over devices: their number, their place, their order."""

import re

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import nn


def network(device):
    net = nn.HybridSequential()
    net.add(
        *(
            nn.Dense(units, in_units=wide, use_bias=False)
            for units, wide in ((4, 8), (64, 4), (4, 64))
        )
    )
    net.initialize(mx.init.Constant(0.1), device=device)
    net.hybridize()
    return net


def one_step(net, trainer, batches):
    with mx.autograd.record():
        losses = [net(x).sum() for x in batches]
    mx.autograd.backward(losses)
    trainer.step(8)
    return [p.list_data()[0].asnumpy() for p in net.collect_params().values()]


def order(text):
    """The products and sums over devices of a program, as they follow each other."""
    body = text[text.index("ENTRY") :]
    return re.findall(r"= \S.*? (all-reduce|dot)\(", body)


@pytest.mark.observes
def test_gradients_are_summed_where_they_are_ready_or_all_at_the_end(programs):
    mesh = mx.mesh(data=4)
    net = network(mx.cpu(0))
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=mesh)
    x = mesh.split(mx.np.array(np.random.uniform(size=(8, 8))))

    def step(overlap):
        programs.clear()
        with mx.config.scope(hcom_parallel=overlap, compiler_cpu_library=False):
            one_step(net, trainer, [x])
        return [kind for compiled, _ in programs for kind in order(compiled.as_text())]

    together, apart = step(0), step(1)
    assert together.count("all-reduce") == 1
    assert "dot" not in together[together.index("all-reduce") :]  # behind the backward pass
    assert apart.count("all-reduce") >= 3  # one for each weight
    first = apart.index("all-reduce")
    assert "dot" in apart[first:] and "all-reduce" in apart[first + 1 :]


def test_what_overlaps_is_told_to_xla_gpu():
    import jax

    from mxjax.core.hooks import option_contributors

    def told(**given):
        with mx.config.scope(given):
            merged = {}
            for contribute in option_contributors:
                merged.update(contribute("gpu", ()))
        jax.jit(lambda x: x + 1).lower(1.0).compile(compiler_options=merged)  # XLA knows them all
        return merged

    name = "xla_gpu_enable_latency_hiding_scheduler"
    assert (
        name not in told()
        and told(hcom_parallel=1)[name] is True
        and told(hcom_parallel=0)[name] is False
    )
    assert told(hcom_parallel=0)["xla_gpu_all_reduce_combine_threshold_bytes"] == 1 << 40
    assert told(is_tailing_optimization=1)[name] is True


class Order:
    """Notes what the engine runs, in its order: sums over devices, and updates by optimizers."""

    def __init__(self):
        self.ran = []

    def on_run(self, name, steps, start, stop):
        if name.startswith("kvstore"):
            self.ran.append("sum")
        elif any("sgd" in step.label for step in steps):
            self.ran.append("update")

    def on_record(self, record): ...

    def on_compile(self, name, reason, start, stop): ...

    def on_sync(self, name, start, stop): ...

    def on_python(self, name, start, stop): ...


@pytest.mark.programs
@pytest.mark.observes
def test_the_last_gradients_are_summed_while_others_are_used():
    devices = [mx.cpu(0), mx.cpu(1)]
    batch = np.random.uniform(size=(4, 8))

    def trained(tail):
        net = network(devices)
        seen = Order()
        with mx.config.scope(is_tailing_optimization=tail):
            trainer = mx.gluon.Trainer(
                net.collect_params(),
                "sgd",
                {"learning_rate": 0.1},
                kvstore="device",
                update_on_kvstore=False,
            )
            batches = [mx.np.array(batch + k, device=d) for k, d in enumerate(devices)]
            one_step(net, trainer, batches)
            mx.core.observe(seen)
            try:
                found = one_step(net, trainer, batches)
            finally:
                mx.core.unobserve(seen)
        return found, seen.ran

    plain, usual = trained(0)
    with_tail, ran = trained(1)
    assert usual.count("sum") == 1 and usual.count("update") == 2
    assert ran == ["sum", "sum", *["update"] * 4]  # two of them on each device
    for a, b in zip(plain, with_tail, strict=True):
        np.testing.assert_array_equal(a, b)


class ParameterServerStrategy:
    """As TensorFlow's is called."""


@pytest.mark.observes
def test_a_strategy_of_servers_lets_the_store_update():
    for given in (ParameterServerStrategy(), "PS-Worker", "parameter_server"):
        with mx.config.scope():
            mx.config.set(distribute=given)
            assert mx.config.get("comm.distribute") == "ParameterServer"
            explanation = mx.config.explain("comm.update_on_kvstore")
            assert (explanation.value, explanation.source) == (True, "comm.distribute")
    mx.config.reset()
    assert mx.config.get("comm.update_on_kvstore") is None
    with pytest.raises(mx.config.SettingError, match="expected 'ParameterServer'"):
        mx.config.set(distribute=object())
