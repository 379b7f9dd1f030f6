"""Numbers of optimizers that change at each step are inputs of one program, with the values of constants."""

import numpy as onp
import pytest

import mxjax as mx
from mxjax import optimizer

STEPS = 10
#: A number that changes, by its name: its value at each step.
VALUES = {
    "momentum": lambda t: 0.5 + 0.03 * t, "beta1": lambda t: 0.8 + 0.01 * t, "beta2": lambda t: 0.9 + 0.005 * t,
    "epsilon": lambda t: 1e-3 * (1 + t), "rho": lambda t: 0.8 + 0.01 * t, "clip_gradient": lambda t: 0.4 + 0.05 * t,
    "clip_weights": lambda t: 0.9 + 0.01 * t, "wd_lh": lambda t: 0.01 * t, "lamda": lambda t: 0.01 + 0.01 * t,
    "lamda1": lambda t: 0.001 + 0.001 * t, "beta": lambda t: 1 + 0.1 * t, "eta": lambda t: 0.01 + 0.001 * t,
    "lower_bound": lambda t: 0.1 + 0.01 * t, "upper_bound": lambda t: 2 + 0.1 * t, "wd": lambda t: 0.001 * t,
    "rescale_grad": lambda t: 1 / (1 + t), "lr": lambda t: 0.1 / (1 + t), "schedule_decay": lambda t: 0.004 + 0.001 * t,
}  # fmt: skip

NAMES = [
    name
    for name, kind in sorted(optimizer.Optimizer.opt_registry.items())
    if kind.rule_fn is not None and kind.__module__.startswith("mxjax.")
]


def made(name, **more):
    """An optimizer with all of its numbers given, and their names."""
    options = {"clip_gradient": 0.4, **more}
    for switch in ("clip_weights", "lower_bound", "upper_bound"):
        if hasattr(optimizer.create(name), switch):
            options[switch] = VALUES[switch](0)
    if "momentum" in optimizer.create(name)._statics:
        options["momentum"] = 0.5
    if name == "rmsprop":
        options["centered"] = True
    opt = optimizer.create(name, **options)
    unknown = [
        n for n, v in zip(opt._statics, opt._raw_statics(), strict=True) if type(v) in (int, float)
    ]
    assert not set(unknown) - set(VALUES), "a number that this test does not know"
    others = ["rescale_grad", "lr", *(["wd"] if name != "groupadagrad" else [])]
    return opt, [*unknown, *others, *(["schedule_decay"] if name == "nadam" else [])]


def trained(name, constants, dtype="float32", aggregate=True, **more):
    """Weights after steps with changing numbers, and how many programs had been compiled at each."""
    rng = onp.random.RandomState(3)
    weights = [mx.np.array(rng.randn(*shape), dtype=dtype) for shape in ((3, 4), (2, 4))]
    opt, names = made(name, **more)
    updater = optimizer.get_updater(opt)
    compiled = []
    for t in range(STEPS):
        grads = [mx.np.array(rng.randn(*w.shape), dtype=dtype) for w in weights]
        for which in names:
            setattr(opt, which, VALUES[which](max(t - 3, 0)))
        if constants:
            opt._moving.last = None  # nothing is known to have changed
        if aggregate:
            updater([0, 1], grads, weights)
        else:
            for k in (0, 1):
                updater(k, grads[k], weights[k])
        mx.npx.waitall()
        compiled.append(mx.engine.stats()["compiled"])
    return [w.asnumpy().astype("float64") for w in weights], compiled


def compared(name, **how):
    with mx.config.scope(engine_cold="interpret"):
        constant, _ = trained(name, True, **how)
    with mx.config.scope(engine_cold="compile"):
        found, compiled = trained(name, False, **how)
    tolerance = 1e-3 if how.get("dtype") == "float16" else 1e-5
    for a, b in zip(found, constant, strict=True):
        onp.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    assert compiled[-1] == compiled[4], compiled  # the first change is that of the fifth step


@pytest.mark.programs
@pytest.mark.parametrize("name", NAMES)
def test_numbers_that_change_compile_nothing_after_their_first_change(name):
    compared(name)


@pytest.mark.programs
@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_with_copies_of_16_bit_weights_and_one_by_one(name):
    compared(name, dtype="float16", multi_precision=True)
    compared(name, aggregate=False)


@pytest.mark.programs
def test_switches_compile_once_each():
    opt = optimizer.create("sgd", learning_rate=1.0, momentum=0.5)
    updater = optimizer.get_updater(opt)
    weight, grad = mx.np.zeros(1), mx.np.ones(1)
    compiled, want, moment = [], 0.0, 0.0
    for t in range(16):
        opt.clip_gradient = None if t % 4 < 2 else 0.5 + 0.01 * t
        opt.momentum = 0.0 if t % 2 else 0.5 + 0.01 * t
        updater(0, grad, weight)
        mx.npx.waitall()
        moment = opt.momentum * moment - (
            1.0 if opt.clip_gradient is None else min(1.0, opt.clip_gradient)
        )
        want += moment
        onp.testing.assert_allclose(weight.asnumpy(), [want], rtol=1e-6)
        compiled.append(mx.engine.stats()["compiled"])
    assert compiled[-1] == compiled[7], compiled


@pytest.mark.programs
@pytest.mark.parametrize("hybridize", [False, True], ids=["imperative", "hybridized"])
def test_a_trainer_whose_momentum_and_multipliers_change(hybridize):
    net = mx.gluon.nn.Dense(3, in_units=4)
    net.initialize(mx.init.One())
    if hybridize:
        net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.5})
    x, compiled = mx.np.ones((2, 4)), []
    want, moment = onp.ones(4), onp.zeros(4)
    for t in range(10):
        momentum = 0.5 + 0.04 * max(t - 2, 0)
        trainer.optimizer.momentum = momentum
        net.weight.lr_mult, net.weight.wd_mult = 1 + 0.1 * t, 0.5 + t
        with mx.autograd.record():
            loss = (net(x) * (1 + t)).sum()
        loss.backward()
        trainer.step(2)
        mx.npx.waitall()
        compiled.append(mx.engine.stats()["compiled"])
        moment = momentum * moment - 0.1 * (1 + 0.1 * t) * (1.0 + t)
        want = want + moment
        onp.testing.assert_allclose(net.weight.data().asnumpy()[0], want, rtol=1e-5)
    assert compiled[-1] == compiled[4], compiled


@pytest.mark.programs
def test_a_module_whose_momentum_changes():
    data = mx.sym.Variable("data")
    net = mx.sym.LinearRegressionOutput(
        mx.sym.FullyConnected(data, num_hidden=2, name="fc"), name="out"
    )
    module = mx.mod.Module(net, label_names=("out_label",))
    module.bind([("data", (4, 3))], [("out_label", (4, 2))])
    module.init_params(mx.init.One())
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1, "momentum": 0.5})
    batch = mx.io.DataBatch([mx.nd.ones((4, 3))], [mx.nd.zeros((4, 2))])
    compiled = []
    for t in range(14):  # an executor of few nodes is a program from its fourth call on
        module._optimizer.momentum = 0.5 + 0.04 * max(t - 6, 0)
        module.forward_backward(batch)
        module.update()
        mx.nd.waitall()
        compiled.append(mx.engine.stats()["compiled"])
    assert compiled[-1] == compiled[9] <= compiled[6] + 2, compiled


def test_rows_alone_take_numbers_that_change():
    found = []
    for constants in (True, False):
        weight = mx.nd.array(onp.arange(12).reshape(4, 3), dtype="float32")
        opt = optimizer.create("adam", learning_rate=0.1, lazy_update=True)
        updater = optimizer.get_updater(opt)
        compiled = []
        for t in range(8):
            opt.beta1 = 0.8 + 0.01 * max(t - 2, 0)
            if constants:
                opt._moving.last = None
            grad = mx.nd.sparse.row_sparse_array(
                (onp.ones((2, 3), "float32"), [0, 2]), shape=(4, 3)
            )
            updater(0, grad, weight)
            mx.nd.waitall()
            compiled.append(mx.engine.stats()["compiled"])
        found.append(weight.asnumpy())
        assert constants or compiled[-1] == compiled[4], compiled
    onp.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    assert (found[0][1] == [3, 4, 5]).all()
