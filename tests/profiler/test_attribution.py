"""From XLA's names to operators."""

import functools
import glob

import jax
import jax.numpy as jnp
import pytest

from mxjax.hlo import Computation, Instruction, Program
from mxjax.hlo import parse as parse_program
from mxjax.profiler._attribution import Attributor, Site, parse
from mxjax.profiler._traced_programs import programs


@pytest.mark.parametrize(
    ("op_name", "block", "operator"),
    [
        ("jit(step)/net0/conv0/Convolution/conv_general_dilated", "net0/conv0", "Convolution"),
        ("jit(step)/exp/exp", "", "exp"),
        ("jit(f)/jvp(net0/conv0/Activation)/jit(relu)/max", "net0/conv0", "Activation"),
        (
            "jit(f)/transpose(jvp(net0))/conv0/Convolution/mul",
            "net0/conv0",
            "_backward_Convolution",
        ),
        ("jit(f)/net0/_backward_Convolution/transpose(jvp())/mul", "net0", "_backward_Convolution"),
        (
            "jit(f)/_backward_Activation/transpose(_backward_Activation)/jvp()/select_n",
            "",
            "_backward_Activation",
        ),
        ("jit(f)/vmap(dense0/FullyConnected)/dot_general", "dense0", "FullyConnected"),
        ("jit(f)/rnn0/RNN/while/body/closed_call/dot_general", "rnn0", "RNN"),
        ("jit(f)/cond0/where/cond/branch_1_fun/add", "cond0", "where"),
        ("jit(f)/net0/body/conv0/Convolution/add", "net0/body/conv0", "Convolution"),
        ("jit(f)/net0/RNN/while/cond/lt", "net0", "RNN"),
        (
            "jit(f)/checkpoint/net0/rematted_computation/FullyConnected/dot",
            "net0",
            "FullyConnected",
        ),
    ],
)
def test_parse(op_name, block, operator):
    assert parse(op_name) == Site(block, operator)


@pytest.mark.parametrize("op_name", ["", "x", "jit(f)/add", "reduce_sum", "jit(f)/jit(relu)/max"])
def test_parse_finds_no_operator(op_name):
    assert parse(op_name) is None


def instruction(name, op_name="", operands=(), opcode="copy", elements=8):
    out = Instruction(name, opcode, op_name, elements, list(operands))
    for operand in operands:
        operand.users.append(out)
    return out


def program(*instructions):
    entry = Computation("entry", list(instructions), instructions[-1])
    return Program("module", [entry], {i.name: i for i in instructions})


def test_a_nameless_instruction_belongs_to_who_uses_it():
    made = instruction("a", "jit(f)/pool0/Pooling/max", opcode="maximum")
    copy = instruction("b", operands=[made])
    bitcast = instruction("c", operands=[copy], opcode="bitcast")
    used = instruction("d", "jit(f)/dense0/FullyConnected/dot", operands=[bitcast], opcode="dot")
    of = Attributor(program(made, copy, bitcast, used))
    assert (of("b").site.path, of("b").how) == ("dense0/FullyConnected", "sole")
    assert (of("d").site.path, of("d").how) == ("dense0/FullyConnected", "exact")


def test_of_several_that_use_it_the_nearest_has_it():
    made = instruction("a", "jit(f)/pool0/Pooling/max", opcode="maximum")
    copy = instruction("b", operands=[made])
    one = instruction("c", "jit(f)/dense0/FullyConnected/dot", [copy], "dot", 80)
    other = instruction("d", "jit(f)/dense1/FullyConnected/dot", [copy], "dot")
    of = Attributor(program(made, copy, one, other))
    assert (of("b").site.path, of("b").how) == ("dense0/FullyConnected", "inherited")


def test_what_nobody_named_uses_belongs_to_who_made_it():
    made = instruction("a", "jit(f)/pool0/Pooling/max", opcode="maximum")
    copy = instruction("b", operands=[made])
    result = instruction("c", operands=[copy], opcode="tuple")
    of = Attributor(program(made, copy, result))
    assert (of("b").site.path, of("b").how) == ("pool0/Pooling", "sole")


def test_the_gradient_of_an_input_belongs_to_its_convolution():
    """XLA writes it anew, without a name; whoever uses it is not whose it is."""
    weight = instruction("w", opcode="parameter")
    x = instruction("x", opcode="parameter")
    forward = instruction("f", "jit(f)/jvp(conv0/Convolution)/conv", [x, weight], "convolution")
    after = instruction("h", "jit(f)/jvp(act0/Activation)/max", [forward], "maximum")
    head = instruction("g", "jit(f)/transpose(jvp(act0/Activation))/select", [after], "select")
    of_weight = instruction(
        "dw", "jit(f)/transpose(jvp(conv0/Convolution))/conv", [x, head], "convolution"
    )
    turned = instruction("t", operands=[weight], opcode="reverse")
    of_input = instruction("dx", operands=[head, turned], opcode="convolution")
    before = instruction("b", "jit(f)/transpose(jvp(act1/Activation))/select", [of_input], "select")
    of = Attributor(program(weight, x, forward, after, head, of_weight, turned, of_input, before))
    assert (of("dx").site.path, of("dx").how) == ("conv0/_backward_Convolution", "sole")
    assert of("t").site.path == "conv0/_backward_Convolution"


def test_what_is_saved_from_being_written_over_belongs_to_who_writes():
    weight = instruction("w", opcode="parameter")
    saved = instruction("c", operands=[weight])
    turned = instruction("t", operands=[weight])
    turned.layout = (0, 1)
    instruction("f", "jit(f)/dense0/FullyConnected/dot", [saved, turned], "dot", 80)
    new = instruction("u", "jit(f)/sgd_update/add", [saved, turned], "add")
    every = program(weight, saved, turned, new)
    assert Attributor(every)("c").how == "inherited"
    every.overwritten["w"] = new
    of = Attributor(every)
    assert (of("c").site.path, of("c").how) == ("sgd_update", "sole")
    # One in another layout serves who reads it.
    assert (of("t").site.path, of("t").how) == ("dense0/FullyConnected", "inherited")


def test_the_inputs_that_results_are_written_over():
    """XLA tells where a donated input's memory goes."""

    def step(w, x):
        with jax.named_scope("read"):
            y = (x @ w).sum()
        with jax.named_scope("update"):
            return w - 0.5, y

    w = jnp.ones((8, 8))
    compiled = jax.jit(step, donate_argnums=0).lower(w, w).compile()
    (module, *_) = compiled.runtime_executable().hlo_modules()
    data = module.as_serialized_hlo_module_proto()
    size = len(data)
    header = b"\x0a" + bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
    found = parse_program(header + data)
    ((name, made),) = found.overwritten.items()
    assert found.instructions[name].opcode == "parameter"
    assert parse(made.op_name) == Site("", "update")
    assert found.instructions[name].layout == (1, 0)


def test_nobody():
    lonely = instruction("a")
    of = Attributor(program(lonely))
    assert (of("a").site.operator, of("a").how) == ("copy", "none")
    assert of("not there").how == "none"


def test_a_fusion_is_divided_by_the_work_in_it():
    x = instruction("x", opcode="parameter", elements=100)
    inner = instruction("i", "jit(f)/b/broadcast_add/add", [x], "add", 100)
    root = instruction("r", "jit(f)/b/Activation/max", [inner], "maximum", 300)
    fused = Computation("fused", [x, inner, root], root)
    fusion = instruction("fusion", "jit(f)/b/Activation/max", opcode="fusion")
    fusion.called = [fused]
    of = Attributor(Program("module", [fused], {"fusion": fusion}))
    found = of("fusion")
    assert found.how == "shared" and found.site == Site("b", "Activation")
    assert dict(found.shares) == {Site("b", "Activation"): 0.75, Site("b", "broadcast_add"): 0.25}


def test_every_instruction_of_a_training_step_finds_its_operator(tmp_path):
    """The programs in a trace, read from XLA's own serialization of a real gradient."""

    def loss(p, x):
        with jax.named_scope("net0/conv0/Convolution"):
            x = jax.lax.conv(x, p["w"], (1, 1), "SAME")
        with jax.named_scope("net0/conv0/Activation"):
            x = jax.nn.relu(x)
        with jax.named_scope("net0/dense0/FullyConnected"):
            x = x.reshape(x.shape[0], -1) @ p["d"]
        with jax.named_scope("loss0/_npi_mean"):
            return (x**2).mean()

    @functools.partial(jax.jit, donate_argnums=0)
    def step(p, x):
        g = jax.grad(loss)(p, x)
        with jax.named_scope("sgd_update"):
            return jax.tree.map(lambda a, b: a - 0.1 * b, p, g)

    p = {"w": jnp.ones((4, 1, 3, 3)), "d": jnp.ones((4 * 8 * 8, 10))}
    x = jnp.ones((2, 1, 8, 8))
    with jax.profiler.trace(str(tmp_path)):
        jax.block_until_ready(step(p, x))
    (path,) = glob.glob(f"{tmp_path}/**/*.xplane.pb", recursive=True)
    with open(path, "rb") as file:
        found = programs(file.read())
    (data,) = [v for k, v in found.items() if k.startswith("jit_step(")]
    step_program = parse_program(data)
    of = Attributor(step_program)
    entry = next(c for c in step_program.computations if c.name.startswith("main"))
    busy = [i for i in entry.instructions if i.opcode in ("fusion", "dot", "convolution", "copy")]
    assert len(busy) > 5
    operators = {site.operator for i in busy for site, _ in of(i.name).shares}
    assert {
        "Convolution",
        "_backward_Convolution",
        "FullyConnected",
        "_backward_FullyConnected",
        "_backward_Activation",
        "sgd_update",
    } <= operators
    assert {of(i.name).how for i in busy} <= {"exact", "sole", "shared", "inherited"}
    for i in busy:
        assert sum(share for _, share in of(i.name).shares) == pytest.approx(1)
