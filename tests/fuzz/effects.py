"""Calls that do something beside their result: making arrays, waiting, writing, drawing, recording; blocks of calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import model
from .calls import TABLE, Draft, Row, add, check_write, failing, model_store, plain, shown
from .model import Ambiguous, is_float, moved
from .program import Call, data, literal


class Make(Row):
    """``np.array(...)`` of data from a seed."""

    def run(self, machine: Any, call: Call) -> None:
        a = call.attrs
        values = data(a["shape"], a["dtype"], a["kind"], a["seed"])
        front = machine.mx.nd if a.get("front") == "nd" else machine.mx.np
        machine.put(call, front.array(values, dtype=a["dtype"]))

    def model(self, machine: Any, call: Call) -> None:
        a = call.attrs
        dtype = model.BFLOAT16 if a["dtype"] == "bfloat16" else a["dtype"]
        machine.put(call, model.array(data(a["shape"], a["dtype"], a["kind"], a["seed"]), dtype))

    def show(self, call: Call, body: Any) -> list[str]:
        a = call.attrs
        made = literal(a["shape"], a["dtype"], a["kind"], a["seed"])
        return [f"{call.outs[0]} = {'nd' + made[2:] if a.get('front') == 'nd' else made}"]


add(Make("array", None, lambda g: None, front="both"))


class Number(Row):
    """A Python number."""

    def run(self, machine: Any, call: Call) -> None:
        machine.put(call, call.attrs["value"])

    model = run

    def show(self, call: Call, body: Any) -> list[str]:
        return [f"{call.outs[0]} = {call.attrs['value']!r}"]


add(Number("number", None, lambda g: None, front="both"))


class Read(Row):
    """Waits: ``asnumpy`` (compared), ``wait_to_read``, ``waitall``."""

    def run(self, machine: Any, call: Call) -> None:
        how = call.attrs["how"]
        if how == "waitall":
            machine.mx.waitall()
        elif how == "wait_to_read":
            machine.get(call.ins[0]).wait_to_read()
        else:
            machine.see(machine.get(call.ins[0]))

    def model(self, machine: Any, call: Call) -> None:
        if call.attrs["how"] == "asnumpy":
            machine.see(machine.get(call.ins[0]))

    def show(self, call: Call, body: Any) -> list[str]:
        how = call.attrs["how"]
        if how == "waitall":
            return ["mx.waitall()"]
        return [
            f"print({call.ins[0]}.asnumpy())"
            if how == "asnumpy"
            else f"{call.ins[0]}.wait_to_read()"
        ]


add(
    Read(
        "read",
        None,
        lambda g: (
            (x := g.array())
            and ((x,), {"how": g.rng.choice(["asnumpy", "asnumpy", "wait_to_read", "waitall"])})
        ),
        weight=1.5,
        outs=0,
        pure=False,
        front="both",
    )
)


class Delete(Row):
    def run(self, machine: Any, call: Call) -> None:
        machine.drop(call.ins[0])

    model = run

    def show(self, call: Call, body: Any) -> list[str]:
        return [f"del {call.ins[0]}"]


add(
    Delete(
        "del",
        None,
        lambda g: (
            (x := g.array())
            and not g.state.is_variable(x)
            and len(g.state.names()) > 3
            and ((x,), {})
        ),
        weight=2,
        outs=0,
        pure=False,
        front="both",
    )
)


class InPlace(Row):
    """``x += y``."""

    def run(self, machine: Any, call: Call) -> None:
        x, y = machine.get(call.ins[0]), machine.get(call.ins[1])
        op = self.name[0]
        if op == "+":
            x += y
        elif op == "-":
            x -= y
        elif op == "*":
            x *= y
        else:
            x /= y
        machine.put(call._replace(outs=(call.ins[0],)), x)

    def model(self, machine: Any, call: Call) -> None:
        x, y = machine.get(call.ins[0]), machine.get(call.ins[1])
        check_write(x)
        model_store(x, TABLE[self.name[0]].apply(x, y))

    def show(self, call: Call, body: Any) -> list[str]:
        return failing(call, [f"{call.ins[0]} {self.name} {plain(call.ins[1])}"])


def _draw_in_place(g: Any) -> Draft | None:
    pair = g.pair((2.0, 0.5, 1, -1), same=True)
    if (
        pair is None
        or not isinstance(pair[0], str)
        or g.state.is_number(pair[0])
        or g.state.is_taped(pair[0])
    ):
        return None
    return pair, {}


for _op in "+-*/":
    add(
        InPlace(
            f"{_op}=",
            None,
            _draw_in_place,
            weight=1.2 if _op != "/" else 0.5,
            taped=False,
            outs=0,
            pure=False,
            front="both",
        )
    )


# Draws.


class Random(Row):
    """A function of mx.np.random: the model takes what one call alone draws."""

    def __init__(self, name: str, attrs: Any, weight: float = 0.7):
        super().__init__(
            name,
            None,
            lambda g: ((), {**attrs(g), "size": (g.length(), g.rng.choice([1, 2, 3]))}),
            weight=weight,
            pure=False,
        )

    def model(self, machine: Any, call: Call) -> None:
        drawn = machine.drawn(self, call)
        made = model.array(drawn, drawn.dtype)
        if made.err is not None:
            # A quick program's normal numbers may differ by four roundings, before `loc` is added.
            made.err[...] = (
                (np.abs(made.val) + abs(call.attrs.get("loc", 0)))
                * 4
                * model._LIMITS[made.dtype].eps
            )
        machine.put(call, made)


add(Random("np.random.uniform", lambda g: {"low": g.rng.choice([0.0, -1.0]), "high": 2.0}))
add(
    Random(
        "np.random.normal",
        lambda g: {"loc": g.rng.choice([0.0, 1.0]), "scale": g.rng.choice([1.0, 0.5])},
    )
)
add(Random("np.random.randint", lambda g: {"low": 0, "high": g.rng.choice([3, 100])}, weight=0.4))


class Dropout(Random):
    """A mask times two, where training; the identity elsewhere."""

    def __init__(self) -> None:
        Row.__init__(
            self,
            "npx.dropout",
            None,
            lambda g: (
                (
                    x := g.array(
                        lambda a: (
                            is_float(a.dtype)
                            and a.dtype not in model.HALVES
                            and a.val.size
                            and np.isfinite(a.val).all()
                        )
                    )
                )
                and ((x,), {"p": 0.5})
            ),
            weight=0.5,
            pure=False,
        )

    def model(self, machine: Any, call: Call) -> None:
        x = machine.get(call.ins[0])
        mask = machine.drawn(self, call)  # of ones where nothing is trained
        machine.put(call, TABLE["np.multiply"].apply(x, model.array(mask, x.dtype)))


add(Dropout())

# Gradients.


class Attach(Row):
    def run(self, machine: Any, call: Call) -> None:
        machine.get(call.ins[0]).attach_grad(grad_req=call.attrs["grad_req"])

    def model(self, machine: Any, call: Call) -> None:
        model.attach(machine.get(call.ins[0]), call.attrs["grad_req"])

    def show(self, call: Call, body: Any) -> list[str]:
        return [f"{call.ins[0]}.attach_grad(grad_req={call.attrs['grad_req']!r})"]


def _draw_attach(g: Any) -> Draft | None:
    if len(g.state.variables()) > 2:
        return None
    x = g.array(
        lambda a: (
            is_float(a.dtype)
            and a.val.size
            and np.isfinite(a.val).all()
            and a.val.base is None
            and a.node is None
        )
    )
    return x and ((x,), {"grad_req": g.rng.choice(["write", "write", "add"])})


add(
    Attach(
        "attach_grad", None, _draw_attach, weight=1.5, taped=False, outs=0, pure=False, front="both"
    )
)


class Grad(Row):
    """``x.grad``: the array that gradients are written to."""

    def run(self, machine: Any, call: Call) -> None:
        machine.put(call, machine.get(call.ins[0]).grad)

    def model(self, machine: Any, call: Call) -> None:
        machine.put(call, machine.get(call.ins[0]).grad)

    def show(self, call: Call, body: Any) -> list[str]:
        return [f"{call.outs[0]} = {call.ins[0]}.grad"]


add(
    Grad(
        "grad",
        None,
        lambda g: (v := g.state.variables()) and ((g.rng.choice(v),), {}),
        weight=0.8,
        taped=False,
        pure=False,
        front="both",
    )
)


class ZeroGrad(Row):
    def run(self, machine: Any, call: Call) -> None:
        machine.get(call.ins[0]).zero_grad()

    def model(self, machine: Any, call: Call) -> None:
        grad = machine.get(call.ins[0]).grad
        grad.val[...], grad.err[...] = 0, 0

    def show(self, call: Call, body: Any) -> list[str]:
        return [f"{call.ins[0]}.zero_grad()"]


add(
    ZeroGrad(
        "zero_grad",
        None,
        lambda g: (v := g.state.variables()) and ((g.rng.choice(v),), {}),
        weight=0.4,
        taped=False,
        outs=0,
        pure=False,
        front="both",
    )
)


class Backward(Row):
    def run(self, machine: Any, call: Call) -> None:
        args, attrs = machine.given(call)
        args[0].backward(*args[1:], **attrs)

    def model(self, machine: Any, call: Call) -> None:
        args, attrs = machine.given(call)
        head, *rest = args
        if head.node is None or isinstance(head.node, model.Leaf):
            raise Ambiguous
        model.backward([head], [rest[0] if rest else None], attrs.get("retain_graph", False))

    def show(self, call: Call, body: Any) -> list[str]:
        rest = [*map(plain, call.ins[1:]), *(f"{k}={shown(v)}" for k, v in call.attrs.items())]
        return failing(call, [f"{call.ins[0]}.backward({', '.join(rest)})"])


def _draw_backward(g: Any) -> Draft | None:
    heads = g.state.heads()
    if not heads:
        return None
    head = g.rng.choice(heads[-2:])
    ins: tuple[Any, ...] = (head,)
    if g.rng.random() < 0.3:
        x = g.of(head)
        other = g.array(
            lambda a: a.dtype == x.dtype and a.shape == x.shape and a.node is None,
            make=(str(x.dtype), x.shape),
        )
        ins = (head, other) if other else ins
    return ins, {"retain_graph": True} if g.rng.random() < 0.3 else {}


add(
    Backward(
        "backward", None, _draw_backward, weight=6, taped=False, outs=0, pure=False, front="both"
    )
)


class Recorded(Row):
    """``with autograd.record():`` calls."""

    def run(self, machine: Any, call: Call) -> None:
        with machine.mx.autograd.record(**call.attrs):
            machine.calls(call.body)

    def model(self, machine: Any, call: Call) -> None:
        before = model.Tape.on, model.Tape.training
        model.Tape.on, model.Tape.training = True, call.attrs.get("train_mode", True)
        try:
            machine.calls(call.body)
        finally:
            model.Tape.on, model.Tape.training = before

    def show(self, call: Call, body: Any) -> list[str]:
        attrs = ", ".join(f"{k}={v}" for k, v in call.attrs.items())
        return [f"with autograd.record({attrs}):", *body(call.body)]


add(Recorded("record", None, lambda g: None, outs=0, front="both"))


class Loop(Row):
    """``for s in numbers:`` calls."""

    def run(self, machine: Any, call: Call) -> None:
        for value in call.attrs["numbers"]:
            machine.put(call, value)
            machine.calls(call.body)

    model = run

    def show(self, call: Call, body: Any) -> list[str]:
        return [f"for {call.outs[0]} in {list(call.attrs['numbers'])}:", *body(call.body)]


add(Loop("for", None, lambda g: None, front="both"))

# Functions of arrays: a block's forward, bodies of loops and branches. ``params`` and ``returns`` are names.


def function(machine: Any, call: Call, inside: bool = True) -> Any:
    def run(*args: Any) -> Any:
        inner = machine.within(dict(zip(call.attrs["params"], args, strict=True)), inside)
        inner.calls(call.body)
        found = [inner.get(r) for r in call.attrs["returns"]]
        return found[0] if len(found) == 1 else found

    return run


class Net(Row):
    """A hybridized block."""

    def run(self, machine: Any, call: Call) -> None:
        inner = machine.alone()

        class Block(machine.mx.gluon.HybridBlock):  # type: ignore[misc, name-defined]
            def forward(self, *args: Any) -> Any:
                return function(inner, call)(*args)

        net = Block()
        if call.attrs["hybridize"] is not None:
            net.hybridize(**call.attrs["hybridize"])
        machine.put(call, net)

    def model(self, machine: Any, call: Call) -> None:
        def forward(*args: Any) -> Any:
            inner = machine.alone(call.attrs["hybridize"] is not None)
            made = function(inner, call, False)(*args)
            if (
                inner.inside and inner.masked
            ):  # a mask's numbers were asked for: the block runs imperatively
                made = function(machine.alone(False), call, False)(*args)
            return made

        machine.put(call, forward)

    def show(self, call: Call, body: Any) -> list[str]:
        name = call.outs[0]
        lines = [
            f"class {name.title()}(mx.gluon.HybridBlock):",
            f"    def forward(self, {', '.join(call.attrs['params'])}):",
        ]
        lines += [
            "    " + line
            for line in [*body(call.body), f"    return {', '.join(call.attrs['returns'])}"]
        ]
        lines.append(f"{name} = {name.title()}()")
        if call.attrs["hybridize"] is not None:
            lines.append(
                f"{name}.hybridize({', '.join(f'{k}={v}' for k, v in call.attrs['hybridize'].items())})"
            )
        return lines


add(Net("net", None, lambda g: None, front="both"))


class Apply(Row):
    """A call of a block."""

    def run(self, machine: Any, call: Call) -> None:
        args, _ = machine.given(call)
        machine.put(call, args[0](*args[1:]))

    model = run

    def show(self, call: Call, body: Any) -> list[str]:
        return failing(
            call, [f"{', '.join(call.outs)} = {call.ins[0]}({', '.join(map(plain, call.ins[1:]))})"]
        )


add(Apply("apply", None, lambda g: g.again(), weight=2, pure=False, front="both"))


def _same_histories(ins: Any, outs: Any) -> None:
    """All results depend on some variable, or none: Python's loops and MXNet's operators are of one mind there."""
    if model.Tape.on and any(x.node is not None for x in ins) and any(y.node is None for y in outs):
        raise Ambiguous


class Foreach(Row):
    """``npx.foreach(body, data, states)``; the body returns an output and a state."""

    def run(self, machine: Any, call: Call) -> None:
        args, _ = machine.given(call)
        machine.put(call, machine.mx.npx.foreach(function(machine, call), args[0], args[1]))

    def model(self, machine: Any, call: Call) -> None:
        (xs, state), _ = machine.given(call)
        first = state
        body, outs = function(machine, call), []
        if not xs.shape or not xs.shape[0]:
            raise Ambiguous
        for k in range(xs.shape[0]):
            before = (state.shape, state.dtype)
            out, state = body(moved(lambda v, k=k: v[k], xs), state)
            if (state.shape, state.dtype) != before:
                raise Ambiguous
            outs.append(out)
        made = [moved(lambda *vs: np.stack(vs), *outs), state]
        _same_histories((xs, first), made)
        machine.put(call, made)

    def show(self, call: Call, body: Any) -> list[str]:
        name = f"body_{call.outs[0]}"
        lines = [
            f"def {name}({', '.join(call.attrs['params'])}):",
            *body(call.body),
            f"    return {', '.join(call.attrs['returns'])}",
        ]
        return [*lines, f"{', '.join(call.outs)} = npx.foreach({name}, {', '.join(call.ins)})"]


add(Foreach("npx.foreach", None, lambda g: None, outs=2))


class Cond(Row):
    """``npx.cond``: the body, or the first input doubled."""

    def run(self, machine: Any, call: Call) -> None:
        (p, *xs), _ = machine.given(call)
        then = function(machine, call)
        machine.put(
            call, machine.mx.npx.cond(lambda *ys: p.astype(bool), then, lambda *ys: ys[0] * 2, xs)
        )

    def model(self, machine: Any, call: Call) -> None:
        (p, *xs), _ = machine.given(call)
        if not p.exact or p.val.size != 1:
            raise Ambiguous
        double = TABLE["*"].apply(xs[0], 2)
        made = function(machine, call)(*xs)
        if (made.shape, made.dtype) != (double.shape, double.dtype):
            raise Ambiguous
        _same_histories(xs, [made])
        machine.put(call, made if p.val.item() else double)

    def show(self, call: Call, body: Any) -> list[str]:
        name = f"then_{call.outs[0]}"
        params = ", ".join(call.attrs["params"])
        return [
            f"def {name}({params}):",
            *body(call.body),
            f"    return {', '.join(call.attrs['returns'])}",
            f"{call.outs[0]} = npx.cond(lambda *ys: {call.ins[0]}.astype(bool), "
            f"{name}, lambda *ys: ys[0] * 2, [{', '.join(call.ins[1:])}])",
        ]


add(Cond("npx.cond", None, lambda g: None))


class While(Row):
    """``npx.while_loop`` that counts to a number; the body makes the new state, which is the output too."""

    def run(self, machine: Any, call: Call) -> None:
        (x,), attrs = machine.given(call)
        np_ = machine.mx.np
        body = function(machine, call)

        def step(k: Any, state: Any) -> Any:
            made = body(state)
            return made, [k + 1, made]

        times = call.attrs["times"]
        outs, states = machine.mx.npx.while_loop(
            lambda k, state: k < times,
            step,
            [np_.array([0], dtype="int32"), x],
            max_iterations=call.attrs["most"],
        )
        machine.put(call, [outs[0] if isinstance(outs, (list, tuple)) else outs, states[1]])

    def model(self, machine: Any, call: Call) -> None:
        (xs,), attrs = machine.given(call)
        x = xs
        body, outs = function(machine, call), []
        before = (x.shape, x.dtype)
        for _ in range(call.attrs["times"]):
            x = body(x)
            if (x.shape, x.dtype) != before:
                raise Ambiguous
            outs.append(x)
        missing = call.attrs["most"] - len(outs)
        made = moved(lambda *vs: np.stack(vs), *outs)
        if machine.inside or missing:
            made = moved(lambda v: np.pad(v, [(0, missing)] + [(0, 0)] * len(before[0])), made)
        _same_histories((xs,), [made, x])
        machine.put(call, [made, x])

    def show(self, call: Call, body: Any) -> list[str]:
        name = f"body_{call.outs[0]}"
        (param,), (result,) = call.attrs["params"], call.attrs["returns"]
        lines = [
            f"def {name}(k, {param}):",
            *body(call.body),
            f"    return {result}, [k + 1, {result}]",
        ]
        first, second = call.outs
        start = f"[np.array([0], dtype='int32'), {call.ins[0]}]"
        return [
            *lines,
            f"{first}, (_, {second}) = npx.while_loop(lambda k, s: k < {call.attrs['times']}, {name}, "
            f"{start}, max_iterations={call.attrs['most']})",
        ]


add(While("npx.while_loop", None, lambda g: None, outs=2))
