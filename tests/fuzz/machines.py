"""What runs programs: the model, and mxjax under each tier."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from . import effects, legacy, model  # noqa: F401  # they fill the table
from .calls import TABLE, Var
from .program import Call, Program

#: ``mixed`` is auto once more: it finds the programs that ``compile`` left, and runs the rest call by call.
TIERS = ("interpret", "auto", "compile", "mixed", "naive")


class Seen(NamedTuple):
    """What the model saw: numbers, their bounds, their dtype; of an error its name."""

    label: str
    val: Any = None
    err: Any = None
    dtype: Any = None
    error: str = ""


class Invalid(Exception):
    """The program means nothing: a variable is missing, or a call fails that should not."""


class Machine:
    """Variables, and what was seen of them."""

    def __init__(
        self,
        mx: Any,
        env: dict[str, Any] | None = None,
        seen: list[Seen] | None = None,
        inside: bool = False,
    ):
        self.mx = mx
        self.env: dict[str, Any] = {} if env is None else env
        self.seen: list[Seen] = [] if seen is None else seen
        self.inside = inside  # of a function whose calls become a graph
        self.around: Machine | None = None
        self.masked = False  # a mask was read in it

    def within(self, env: dict[str, Any], inside: bool) -> Machine:
        """A function's variables, with those around it."""
        made = type(self)(self.mx, env, self.seen, inside or self.inside)
        made.around = self
        made._share(self)
        return made

    def alone(self, inside: bool = True) -> Machine:
        """A function that sees nothing of what is around it."""
        made = type(self)(self.mx, {}, self.seen, inside)
        made._share(self)
        return made

    def _share(self, other: Any) -> None:
        pass

    def get(self, name: Any) -> Any:
        if not isinstance(name, str):
            return name
        machine: Machine | None = self
        while machine is not None:
            if name in machine.env:
                return machine.env[name]
            machine = machine.around
        raise Invalid(name)

    def mask(self) -> None:
        """A mask is read, here and in what is around."""
        machine: Machine | None = self
        while machine is not None:
            machine.masked = True
            machine = machine.around

    def drop(self, name: str) -> None:
        if name not in self.env:
            raise Invalid(name)
        del self.env[name]

    def given(self, call: Call) -> tuple[list[Any], dict[str, Any]]:
        attrs = {k: self.get(v) if isinstance(v, Var) else v for k, v in call.attrs.items()}
        return [self.get(a) for a in call.ins], attrs

    def put(self, call: Call, made: Any) -> None:
        if len(call.outs) == 1:
            self.env[call.outs[0]] = made
        elif call.outs:
            self.env.update(zip(call.outs, made, strict=True))

    def calls(self, calls: tuple[Call, ...]) -> None:
        for c in calls:
            self.call(c)

    def call(self, c: Call) -> None:
        raise NotImplementedError

    def see(self, x: Any) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Look at every variable, and at its gradient."""
        for name in sorted(self.env):
            x = self.env[name]
            if callable(x) or isinstance(x, (int, float)):
                continue
            self.see(x)
            if getattr(x, "grad", None) is not None:
                self.see(x.grad)


class Model(Machine):
    """NumPy's. ``draws``: gives what a call that draws gives."""

    def __init__(self, mx: Any = None, env: Any = None, seen: Any = None, inside: bool = False):
        super().__init__(mx, env, seen, inside)
        self.draws: Any = None

    def _share(self, other: Any) -> None:
        self.draws = other.draws

    def put(self, call: Call, made: Any) -> None:
        if model.Tape.on and call.row not in (".detach", "grad", "array", "apply"):
            key = [
                v for v in (*call.attrs.values(), *call.attrs.get("key", ())) if isinstance(v, Var)
            ]
            inputs = [self.get(name) for name in (*call.ins, *key)]
            for m in made if isinstance(made, (list, tuple)) else (made,):
                if isinstance(m, model.Array):
                    model.connected(m, inputs)
        super().put(call, made)

    def drawn(self, row: Any, call: Call) -> Any:
        args, attrs = self.given(call)
        return self.draws(row, args, attrs)

    def call(self, c: Call) -> None:
        row = TABLE[c.row]
        if not c.fails:
            try:
                self.run(row, c)
            except (model.Refused, ValueError, IndexError, TypeError) as error:
                raise Invalid(str(error)) from None
            return
        try:
            self.run(row, c)
        except model.Refused:
            self.seen.append(Seen(c.row, error="*"))
            return
        raise Invalid("it should fail")

    def run(self, row: Any, c: Call) -> None:
        if c.row in ("apply", "npx.foreach", "npx.while_loop", "npx.cond"):
            with model.together():
                row.model(self, c)
        else:
            row.model(self, c)

    def see(self, x: Any) -> None:
        err = None if x.err is None else x.err.copy()
        self.seen.append(Seen("", x.val.copy(), err, x.dtype))


class Draws:
    """What random calls give one by one, each an eager call by itself, from a seed on."""

    def __init__(self, mx: Any, seed: int):
        self.mx = mx
        mx.random.seed(seed)

    def __call__(self, row: Any, args: list[Any], attrs: dict[str, Any]) -> Any:
        mx = self.mx
        with mx.autograd.pause(train_mode=model.Tape.training):
            args = [mx.np.ones(a.shape, dtype=str(a.dtype)) for a in args]
            return row.function(mx)(*args, **attrs).asnumpy()


class Runner(Machine):
    """mxjax."""

    def call(self, c: Call) -> None:
        row = TABLE[c.row]
        if not c.fails:
            row.run(self, c)
            return
        try:
            row.run(self, c)
        except Exception as error:
            self.seen.append(Seen(c.row, error=type(error).__name__))
            return
        self.seen.append(Seen(c.row, error="no error"))

    def see(self, x: Any) -> None:
        dtype = model.BFLOAT16 if "bfloat16" in str(x.dtype) else np.dtype(x.dtype)
        self.seen.append(Seen("", x.asnumpy(), None, dtype))


def modelled(program: Program, mx: Any) -> list[Seen]:
    """What the model sees.

    Raises:
      Invalid, Ambiguous: it is no program to compare.
    """
    machine = Model()
    machine.draws = Draws(mx, program.seed)
    model.begin()
    machine.calls(program.calls)
    machine.finish()
    return machine.seen


@contextlib.contextmanager
def tier(mx: Any, name: str) -> Iterator[None]:
    """The engine runs so."""
    from mxjax.core.run import scheduler

    scheduler.wait_all()
    scheduler.forget(programs=False)
    cold = "auto" if name in ("naive", "mixed") else name
    settings = {
        "engine.cold": cold,
        "engine.type": "NaiveEngine" if name == "naive" else "ThreadedEnginePerDevice",
    }
    with mx.config.scope(settings):
        try:
            yield
        finally:
            with contextlib.suppress(Exception):
                scheduler.wait_all()


def ran(program: Program, mx: Any, name: str) -> list[Seen]:
    """What mxjax sees under a tier; an error that should not be is the last thing."""
    with tier(mx, name):
        mx.random.seed(program.seed)
        machine = Runner(mx)
        try:
            machine.calls(program.calls)
            machine.finish()
        except Invalid:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {str(error)[:300]}"
            machine.seen.append(Seen("", error=text))
        return machine.seen


def difference(expected: list[Seen], got: list[Seen]) -> str:
    """The first thing that is not as the model says, or ''."""
    for k, (want, have) in enumerate(zip(expected, got, strict=False)):
        where = f"observation {k}"
        if want.error or have.error:
            if not want.error:
                return f"{where}: {have.error}"
            if not have.error or have.error == "no error":
                return f"{where}: no error in {want.label}"
            continue
        if want.dtype != have.dtype:
            return f"{where}: dtype {have.dtype}, expected {want.dtype}"
        if want.val.shape != have.val.shape:
            return f"{where}: shape {have.val.shape}, expected {want.val.shape}"
        if want.err is None:
            bad = want.val != have.val
            bound: Any = 0
        else:
            bound = 2 * want.err + model._LIMITS[want.dtype].tiny * 4
            with np.errstate(all="ignore"):
                value = have.val.astype(np.longdouble)
                off = np.abs(value - want.val)
                same = (
                    (value == want.val)
                    | (np.isnan(value) & np.isnan(want.val))
                    | np.isinf(want.err)
                )
                bad = ~(same | (off <= bound))
        if np.any(bad):
            at = tuple(int(i[0]) for i in np.nonzero(bad)) if np.ndim(bad) else ()
            more = f" +- {float(np.asarray(bound)[at]):.3g}" if np.ndim(bound) else ""
            what = f"{have.val[at]!r} at {at} of {have.val.shape}, expected {want.val[at]!r}{more}"
            return f"{where}: {what} ({np.sum(bad)} differ)"
    if len(expected) != len(got):
        return f"{len(got)} observations, expected {len(expected)}"
    return ""


def failures(program: Program, mx: Any, tiers: tuple[str, ...] = TIERS) -> dict[str, str]:
    """What differs in which tier; also errors that are not of one type in all."""
    expected = modelled(program, mx)
    found: dict[str, str] = {}
    errors: dict[str, list[str]] = {}
    for name in tiers:
        got = ran(program, mx, name)
        text = difference(expected, got)
        if text:
            found[name] = text
        errors[name] = [s.error for s in got]
    if not found and len({tuple(e) for e in errors.values()}) > 1:
        found["errors"] = str({k: [t for t in v if t] for k, v in errors.items()})
    return found
