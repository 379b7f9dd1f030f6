"""Run by any number of processes: the optimizer in the store, shared out between them, check by check.

Sums are added in the order of the ranks, here and in the store, so that both give optimizers the same gradients.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from pathlib import Path

import numpy as np

import mxjax as mx
from mxjax import optimizer as opt

SHAPES = {"big": (70, 11), "odd": (1001,), "small": (3, 2), "scalar": ()}
BOUND = 500
folder = Path(sys.argv[1])
mx.config.set(comm_bigarray_bound=BOUND)
kv = mx.kv.create("dist_sync")
rank, size = kv.rank, kv.num_workers


def values(step, part, dtype="float32"):
    rng = np.random.RandomState(100 * step + part)
    return {k: np.asarray(rng.randn(*s)).astype(dtype) for k, s in SHAPES.items()}


def store(optimizer, name="dist_sync", dtype="float32"):
    made = mx.kv.create(name)
    made.set_optimizer(optimizer)
    first = values(99, 0, dtype)
    made.init(list(SHAPES), [mx.np.array(first[k], dtype=dtype) for k in SHAPES])
    return made


def push(one, step, dtype="float32"):
    """Each rank's gradients to a store of all processes, or their sums to one of this process."""
    mine = values(step, rank, dtype)
    if one.type != "dist_sync":
        every = [values(step, r, dtype) for r in range(size)]
        mine = {k: functools.reduce(np.add, [v[k] for v in every]) for k in SHAPES}
    for at, k in enumerate(SHAPES):
        one.push(k, mx.np.array(mine[k], dtype=dtype), priority=-at)


def weights(one, dtype="float32"):
    outs = {k: mx.np.zeros(s, dtype=dtype) for k, s in SHAPES.items()}
    for k, out in outs.items():
        one.pull(k, out=out)
    return {k: out.asnumpy() for k, out in outs.items()}


def same_everywhere(found):
    """Whether all ranks have these numbers, bit by bit."""
    mark = hashlib.sha256(b"".join(a.tobytes() for a in found.values())).hexdigest()
    assert len(set(kv._processes.tell(mark))) == 1


def agree(together, alone, tolerance=1e-5, dtype="float32"):
    found, expected = weights(together, dtype), weights(alone, dtype)
    same_everywhere(found)
    for k in SHAPES:
        np.testing.assert_allclose(
            found[k].astype("float64"),
            expected[k].astype("float64"),
            rtol=0,
            atol=tolerance,
            err_msg=k,
        )


def raises(kind, texts, work, *arguments):
    try:
        work(*arguments)
    except kind as error:
        assert all(text in str(error) for text in texts), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def weights_are_those_of_one_process():
    made = {
        "sgd": lambda: opt.SGD(learning_rate=0.1, momentum=0.9, wd=0.01),
        "plain": lambda: opt.SGD(learning_rate=0.1),
        "adam": lambda: opt.Adam(learning_rate=0.05),
        "ftrl": lambda: opt.Ftrl(learning_rate=0.1),
        "dcasgd": lambda: opt.DCASGD(learning_rate=0.1, momentum=0.9),
        "lamb": lambda: opt.LAMB(learning_rate=0.05),
    }
    for name, make in made.items():
        together, alone = store(make()), store(make(), "local")
        before = kv._processes.batches
        for step in range(4):
            push(together, step)
            push(alone, step)
            agree(together, alone)
        # Four calls a step, one exchange.
        assert kv._processes.batches == before + 4
        cut = {k: any(v.cut) for k, v in together._updater._kept.items()}
        big = name not in ("plain", "lamb")  # there is no state, or the rule looks at whole arrays
        assert cut == {"big": big, "odd": big, "small": False, "scalar": False}


def states_are_a_part():
    """Each process has ceil(n / processes) elements of each state of a big array, and no more."""
    made = store(opt.Adam(learning_rate=0.05))
    push(made, 0)
    weights(made)
    for k, shape in SHAPES.items():
        n = int(np.prod(shape))
        share = -(-n // size) if n >= BOUND else n
        leaves = made._updater._kept[k].leaves
        assert [leaf.nbytes for leaf in leaves] == [4 * share] * 2, k
    assert not made._updater.states
    mine = sum(leaf.nbytes for v in made._updater._kept.values() for leaf in v.leaves)
    whole = 8 * sum(int(np.prod(s)) for s in SHAPES.values())
    print("bytes of states", mine, "of", whole, flush=True)


def sixteen_bits_with_a_float32_copy():
    make = functools.partial(opt.Adam, learning_rate=0.05, multi_precision=True)
    together, alone = store(make(), dtype="float16"), store(make(), "local", "float16")
    for step in range(3):
        push(together, step, "float16")
        push(alone, step, "float16")
    agree(together, alone, 2e-3, "float16")
    master, mean, variance = together._updater._kept["big"].leaves
    assert {x.dtype.name for x in (master, mean, variance)} == {"float32"}
    assert master.size == -(-770 // size)


def rates_and_decays_that_change():
    def make():
        made = opt.SGD(
            learning_rate=0.1, momentum=0.9, wd=0.1, param_idx2name={k: k for k in SHAPES}
        )
        made.set_wd_mult({"big": 0.5})
        made.set_lr_mult({"odd": 2.0})
        return made

    together, alone = store(make()), store(make(), "local")
    for step in range(4):
        for one in (together, alone):
            push(one, step)
            if step == 1:
                one._updater.optimizer.set_learning_rate(
                    0.01
                )  # the push before is at the rate before
    agree(together, alone)
    rates = [mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1) for _ in range(2)]
    together = store(opt.Adam(learning_rate=0.1, lr_scheduler=rates[0]))
    alone = store(opt.Adam(learning_rate=0.1, lr_scheduler=rates[1]), "local")
    for step in range(5):
        push(together, step)
        push(alone, step)
    agree(together, alone)
    assert rates[0](5) == rates[1](5) == 0.025


def several_devices_of_each_process():
    made, alone = store(opt.Adam(learning_rate=0.05)), store(opt.Adam(learning_rate=0.05), "local")
    devices = [mx.cpu(k) for k in range(2)]
    outs = [mx.np.zeros((70, 11), device=d) for d in devices]
    for _ in range(2):
        given = [mx.np.ones((70, 11), device=d) * (1 + k) for k, d in enumerate(devices)]
        made.push("big", given)
        made.pull("big", out=outs)
        alone.push("big", mx.np.full((70, 11), 3.0 * size))
    agree(made, alone)
    assert (outs[0].asnumpy() == outs[1].asnumpy()).all() and outs[1].device == devices[1]


def stores_that_are_read_in_another_order():
    """As those of two trainers, of which rank 0 alone looks at the second one's weights."""
    made = [store(opt.Adam(learning_rate=0.05)) for _ in range(2)]
    alone = [store(opt.Adam(learning_rate=0.05), "local") for _ in range(2)]
    for step in range(3):
        for k in range(2):
            push(made[k], 10 * k + step)
            push(alone[k], 10 * k + step)
        if rank == 0:
            weights(made[1])
    third = mx.kv.create("dist_sync")  # and what is not a push
    push(made[0], 3)
    push(alone[0], 3)
    if rank == 0:
        weights(made[0])
    third.init("w", mx.np.zeros(3))
    for k in range(2):
        agree(made[k], alone[k])


def states_in_the_host_s_memory():
    """There each process keeps all of them."""
    made, alone = store(opt.Adam(learning_rate=0.05)), store(opt.Adam(learning_rate=0.05), "local")
    for step in range(3):
        if step == 1:
            weights(made)
            made._updater.place("pinned_host")
        push(made, step)
        push(alone, step)
    agree(made, alone)
    assert not made._updater._kept


def what_is_wrong_is_an_error_on_every_rank():
    """And nothing has changed: training goes on."""
    made, alone = store(opt.Adam(learning_rate=0.05)), store(opt.Adam(learning_rate=0.05), "local")
    push(made, 0)
    push(alone, 0)
    last = size - 1
    here = rank == last
    good, missing = folder / f"good {size}", folder / "missing"
    made.save_optimizer_states(good)
    raises(FileNotFoundError, ["missing"], made.load_optimizer_states, missing)
    raises(
        FileNotFoundError if here else mx.MXNetError,
        ["missing"] if here else [f"rank {last}: MXNetFileNotFoundError", "missing"],
        made.load_optimizer_states, missing if here else good,
    )  # fmt: skip
    other = mx.kv.create("dist_sync")
    other.set_optimizer(opt.Adam())
    other.init("unknown", mx.np.zeros(600))
    other.push("unknown", mx.np.ones(600))
    strange = folder / f"strange {size}"
    other.save_optimizer_states(strange, dump_optimizer=True)
    told = ["states of key 'unknown'", "'big', 'odd', 'small', 'scalar'"]
    raises(ValueError, told, made.load_optimizer_states, strange)
    raises(
        ValueError if here else mx.MXNetError,
        told if here else [f"rank {last}: ", *told],
        made.load_optimizer_states, strange if here else good,
    )  # fmt: skip
    thin = store(opt.SGD(momentum=0.9, learning_rate=0.1))
    push(thin, 0)
    thin.save_optimizer_states(folder / f"thin {size}")
    raises(
        ValueError,
        ["'big'", "[(70, 11)]", "Adam"],
        made.load_optimizer_states,
        folder / f"thin {size}",
    )
    push(made, 1)
    made.save_optimizer_states(folder / f"later {size}")
    push(alone, 1)
    told = ["files differ", f"on rank {last}"]
    raises(
        mx.MXNetError,
        told,
        made.load_optimizer_states,
        folder / f"{'later' if here else 'good'} {size}",
    )
    nowhere = folder / "nowhere" / "states"
    kind, told = (
        (OSError, "nowhere") if rank == 0 else (mx.MXNetError, "rank 0: MXNetFileNotFoundError")
    )
    raises(kind, [told], made.save_optimizer_states, nowhere)
    assert made._updater.optimizer.lr == 0.05
    push(made, 2)
    push(alone, 2)
    agree(made, alone)


def a_rank_that_cannot_update_is_named_to_all():
    made = store(opt.Adam(learning_rate=0.05))
    push(made, 0)
    weights(made)
    last = size - 1
    if rank == last:
        made._updater._run = lambda *given: 1 // 0
    push(made, 1)
    kind, told = (
        (ZeroDivisionError, "")
        if rank == last
        else (mx.MXNetError, f"rank {last} could not update")
    )
    raises(kind, [told], weights, made)


def one_process_has_all_states_of_a_weight():
    """`comm.distribute`: whole states of some keys; a file has those of all."""
    with mx.config.scope(distribute="ParameterServer"):
        made = store(opt.Adam(learning_rate=0.05))
    alone = store(opt.Adam(learning_rate=0.05), "local")
    for step in range(2):
        push(made, step)
        push(alone, step)
    served = set(made._updater.states)
    made.save_optimizer_states(folder / f"served {size}")
    assert set(made._updater.states) == served
    again = store(opt.Adam(learning_rate=0.05))
    for one in (made, again):
        one.load_optimizer_states(folder / f"served {size}")
    assert set(made._updater.states) == served
    states = opt.get_updater(opt.Adam())
    states.set_states((folder / f"served {size}").read_bytes())
    for k in SHAPES:
        for mine, expected in zip(states.states[k], alone._updater.states[k], strict=True):
            np.testing.assert_allclose(mine.asnumpy(), expected.asnumpy(), rtol=0, atol=1e-6)


def states_that_mxnet_wrote():
    """A file of MXNet's trainer, in a store of all processes and in one of this process."""
    file = Path(__file__).parents[2] / "data" / "trainer_adam_mxnet2.states"
    there = opt.get_updater(opt.Adam())
    there.set_states(file.read_bytes())
    shapes = {k: mean.shape for k, (mean, _) in there.states.items()}
    outs = {}
    with mx.config.scope(comm_bigarray_bound=100):
        for name in ("dist_sync", "local"):
            made = mx.kv.create(name)
            made.set_optimizer(opt.Adam(learning_rate=123.0))  # the file knows better
            made.init(list(shapes), [mx.np.ones(s) for s in shapes.values()])
            made.load_optimizer_states(file)
            assert made._updater.optimizer.lr == there.optimizer.lr
            given = rank + 1 if name == "dist_sync" else sum(range(1, size + 1))
            outs[name] = [mx.np.zeros(s) for s in shapes.values()]
            grads = [mx.np.full(s, given / 8) for s in shapes.values()]
            made.pushpull(list(shapes), grads, out=outs[name])
            if name == "dist_sync":
                found = {
                    made._updater._kept[k].leaves[0].size
                    for k, s in shapes.items()
                    if np.prod(s) > 100
                }
                assert found == {-(-108 // size)}
    for ours, alone in zip(outs["dist_sync"], outs["local"], strict=True):
        np.testing.assert_allclose(ours.asnumpy(), alone.asnumpy(), rtol=0, atol=1e-6)


CHECKS = (
    weights_are_those_of_one_process, states_are_a_part, sixteen_bits_with_a_float32_copy,
    rates_and_decays_that_change, several_devices_of_each_process, stores_that_are_read_in_another_order,
    states_in_the_host_s_memory, what_is_wrong_is_an_error_on_every_rank,
    states_that_mxnet_wrote, one_process_has_all_states_of_a_weight, a_rank_that_cannot_update_is_named_to_all,
)  # fmt: skip


if __name__ == "__main__":
    for check in CHECKS:
        check()
        print("done", check.__name__, flush=True)
