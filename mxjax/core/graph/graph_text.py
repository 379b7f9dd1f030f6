"""The text of a graph: what a person reads, and what is read back.

    graph net(
      data: float32[8, 12],
      weight: float32[4, 12],
    )
      %0 = fully_connected(data, weight, None, num_hidden=4, no_bias=True)  # dense
      %1 = where(%0, %0, 1.0)
      return output=%1

``%0`` is the first result, ``$0`` the first of the numbers that enter as operands, whose values stand above the steps.
A step gives the row's name, its operands with constants in their places, and the attributes that the user gave;
after ``#`` stands the block it belongs to, and what an `AttrScope` says of it. ``grad[...]`` is the derivative of a
row's call. Graphs inside a graph (bodies of loops) are attributes, ``@body``, and follow it.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import errors
from ..calls.call import ROWS, Call, Derivative
from ..calls.segment import SCALAR

# Named tuples that stand in attributes, by the word that their ``repr`` begins with.
LITERALS: dict[str, type] = {}


class Line(NamedTuple):
    """One step: results, and what is computed; operands are texts."""

    results: tuple[int, ...]
    call: Call
    operands: tuple[str, ...]
    scope: str
    mirroring: (
        tuple[bool, int] | None
    )  # what its stretch says (`segment.Mirroring`), and which stretch it is


class Text(NamedTuple):
    """What the text of one graph says."""

    name: str
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]  # name, dtype, shape
    scalars: tuple[float | int, ...]  # of a graph inside another: zeros of their kinds
    lines: tuple[Line, ...]
    outputs: tuple[tuple[str, str], ...]  # name, operand


_KINDS = {"d": "float", "q": "int"}

# ------------------------------------------------------------------------------------------ writing


def write(graph: Any) -> str:
    """The text of a graph, and of those that it holds."""
    known: dict[Any, str] = {}
    graphs = list(_all(graph, known))  # all of them have names before one is written
    return "\n\n".join(_write(g, known) for g in graphs)


def _all(graph: Any, known: dict[Any, str]) -> Iterator[Any]:
    """The graph and those inside it, each once, with a name of its own in ``known``."""
    name, n = graph.name, 0
    while name in known.values():
        n += 1
        name = f"{graph.name}#{n}"
    known[graph] = name
    yield graph
    for step in graph.steps:
        for _, value in step.call.attrs:
            for inner in _graphs(value):
                if inner not in known:
                    yield from _all(inner, known)


def _graphs(value: Any) -> Iterator[Any]:
    if hasattr(value, "steps") and hasattr(value, "avals"):
        yield value
    elif isinstance(value, tuple):
        for v in value:
            yield from _graphs(v)


def _write(graph: Any, known: dict[Any, str]) -> str:
    names = graph.inputs
    made = [s.first + k for s in graph.steps for k in range(len(s.avals))]
    place = {
        number: f"%{at}" for at, number in enumerate(made)
    }  # steps that nobody needs left gaps

    def operand(i: int) -> str:
        return f"${i - SCALAR}" if i >= SCALAR else place[i] if i >= 0 else names[-1 - i]

    stretches: dict[int, int] = {}
    lines = [f"graph {known[graph]}("]
    for name, a in zip(names, graph.avals, strict=True):
        lines.append(f"  {name}: {a.dtype}[{', '.join(map(str, a.shape))}],")
    lines.append(")")
    for k, kind in enumerate(graph.fmt):
        if graph.scalars:
            lines.append(f"  ${k} = {_literal(graph.scalars[k], known)}")
        else:  # of a graph inside another, which takes them as operands
            lines.append(f"  ${k}: {_KINDS[kind]}")
    for s in graph.steps:
        results = ", ".join(place[s.first + k] for k in range(len(s.avals)))
        note = f"  # {s.scope}" if s.scope or s.mirroring else ""
        if s.mirroring is not None:
            number = stretches.setdefault(id(s.mirroring), len(stretches))
            note += f"; force_mirroring={s.mirroring.again} #{number}"
        lines.append(f"  {results} = {_call(s.call, [operand(i) for i in s.args], known)}{note}")
    results = ", ".join(
        f"{n}={operand(k)}" for n, k in zip(graph.results, graph.outputs, strict=True)
    )
    return "\n".join([*lines, f"  return {results}".rstrip()])


def _call(call: Call, operands: list[str], known: dict[Any, str]) -> str:
    of, prefix = call, ""
    count = len(operands)
    if isinstance(call, Derivative) and call.forward is not None:
        of, count = call.forward, len(call.wants)
        prefix = f"grad[{_bits(call.wants)} {_bits(call.has)}{' many' if call.many else ''}] "
    arrays = operands[: count - len(of.varying)]
    numbers = operands[len(arrays) : count]
    given = [f"{k}={_literal(v, known)}" for k, v in of.attrs]
    there = [(at, _literal(constant, known)) for at, constant in of.constants]
    for k, n in zip(of.varying, numbers, strict=True):
        if type(k) is int:
            there.append((k, f"{k}={n}"))
        else:
            given.append(f"{k}={n}")
    for at, constant in sorted(there):
        arrays.insert(at, constant)
    return f"{prefix}{of.row.name}({', '.join([*arrays, *operands[count:], *given])})"


def _bits(flags: Sequence[bool]) -> str:
    return "".join("1" if b else "0" for b in flags)


def _literal(value: Any, known: dict[Any, str]) -> str:
    if hasattr(value, "steps") and value in known:
        return f"@{known[value]}"
    if type(value) is tuple:
        inner = ", ".join(_literal(v, known) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return "..." if value is Ellipsis else repr(value)


# ------------------------------------------------------------------------------------------ reading

_HEAD = re.compile(r"graph (\S+)\($")
_INPUT = re.compile(r"  (\S+): (\w+)\[([\d, ]*)\],$")
_SCALAR = re.compile(r"  \$(\d+)(?: = (.+)|: (float|int))$")
_STEP = re.compile(
    r"  (%\d+(?:, %\d+)*) = (?:grad\[([01]*) ([01]*)( many)?\] )?([\w@.]+)\((.*)\)"
    r"(?:  # (.*?)(?:; force_mirroring=(True|False) #(\d+))?)?$"
)
_RETURN = re.compile(r"  return(?: (.*))?$")


def parse(text: str, make: Callable[[Text, bool], Any]) -> Any:
    """Read the text of a graph; ``make(Text, inside)`` gives a graph, those inside another first.

    Raises:
      ValueError: a line is none of a graph's, or names a row that there is not; it tells which.
    """
    parts = [[]]  # type: list[list[tuple[int, str]]]
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("graph ") and parts[-1]:
            parts.append([])
        if line.strip():
            parts[-1].append((number, line))
    heads: dict[str, list[tuple[int, str]]] = {}
    for lines in parts:
        number, line = lines[0] if lines else (1, "")
        head = _HEAD.match(line)
        if head is None:
            raise _wrong(number, line, "'graph NAME(' is expected")
        heads[head[1]] = lines
    made: dict[str, Any] = {}
    main = next(iter(heads))

    def graph(name: str) -> Any:
        if name not in made:
            if name not in heads:
                raise errors.MXNetValueError(
                    f"the text has no graph {name!r}: it has {', '.join(heads)}"
                )
            made[name] = None  # a graph that holds itself
            plain = name.partition("#")[0]  # several inside one may have one name
            made[name] = make(_read(plain, heads[name], graph), name != main)
        if made[name] is None:
            raise errors.MXNetValueError(f"the graph {name!r} holds itself")
        return made[name]

    return graph(main)


def _wrong(number: int, line: str, what: str) -> Exception:
    return errors.MXNetValueError(f"line {number} of a graph's text: {what}, got {line.strip()!r}")


def _read(name: str, lines: list[tuple[int, str]], graph: Any) -> Text:
    inputs: list[tuple[str, str, tuple[int, ...]]] = []
    scalars: list[float | int] = []
    steps: list[Line] = []
    known: set[str] = set()  # what a step may take
    for number, line in lines[1:]:
        if line == ")":
            continue
        try:
            if found := _INPUT.match(line):
                shape = tuple(int(n) for n in found[3].split(",") if n.strip())
                inputs.append((found[1], str(np.dtype(found[2])), shape))
                known.add(found[1])
            elif found := _SCALAR.match(line):
                scalars.append(
                    _value(found[2], graph) if found[2] else {"float": 0.0, "int": 0}[found[3]]
                )
                known.add(f"${found[1]}")
            elif found := _STEP.match(line):
                results = tuple(int(r[1:]) for r in found[1].split(", "))
                call, operands = _bound(found, known, graph)
                known.update(f"%{k}" for k in results)
                mirroring = (found[8] == "True", int(found[9])) if found[8] else None
                steps.append(Line(results, call, operands, found[7] or "", mirroring))
            elif found := _RETURN.match(line):
                outputs = [tuple(o.split("=")) for o in (found[1] or "").split(", ") if o]
                _check([o for _, o in outputs], known)
                return Text(name, tuple(inputs), tuple(scalars), tuple(steps), tuple(outputs))
            else:
                raise _wrong(number, line, "an input, a step or 'return' is expected")
        except (SyntaxError, TypeError, ValueError) as error:
            if isinstance(error, errors.MXNetError):
                raise
            raise _wrong(number, line, f"cannot be read ({error})") from None
    raise errors.MXNetValueError(f"the text of the graph {name!r} ends without 'return'")


def _check(operands: Sequence[str], known: set[str]) -> None:
    for name in operands:
        if name not in known:
            raise ValueError(f"nothing before it is called {name!r}")


def _bound(found: re.Match[str], known: set[str], graph: Any) -> tuple[Call, tuple[str, ...]]:
    """The call of a line, and its operands."""
    row = ROWS.get(found[5])
    if row is None:
        raise errors.MXNetValueError(
            f"there is no row {found[5]!r}{errors.did_you_mean(found[5], ROWS)}"
        )
    operands: list[str] = []
    constants: list[tuple[int, Any]] = []
    attrs: list[tuple[str, Any]] = []
    varying: list[str | int] = []
    numbers: list[str] = []
    at = 0
    for piece in _pieces(found[6]):
        key, equal, value = piece.partition("=")
        if equal and (key.isidentifier() or key.isdigit()):
            if key.isdigit():
                varying.append(int(key))
                numbers.append(value)
                at += 1
            elif value[0] in "$%" or value in known:
                varying.append(key)
                numbers.append(value)
            else:
                attrs.append((key, _value(value, graph)))
            continue
        if piece in known or piece[0] in "%$":
            operands.append(piece)
        else:
            constants.append((at, _value(piece, graph)))
        at += 1
    _check([*operands, *numbers], known)
    call = row.bind(tuple(attrs), tuple(constants), tuple(varying))
    if found[2] is None:
        return call, (*operands, *numbers)
    wants, has = ([c == "1" for c in found[k]] for k in (2, 3))
    count = len(wants) - len(numbers)
    return call.vjp(tuple(wants), tuple(has), bool(found[4])), (
        *operands[:count],
        *numbers,
        *operands[count:],
    )


def _pieces(text: str) -> Iterator[str]:
    """The arguments in a call's brackets."""
    depth, start, quote, k = 0, 0, "", 0
    while k < len(text):
        c = text[k]
        if quote:
            k += c == "\\"
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and not depth:
            yield text[start:k].strip()
            start = k + 1
        k += 1
    if text[start:].strip():
        yield text[start:].strip()


def _value(text: str, graph: Any) -> Any:
    inner: dict[str, Any] = {}

    def name(found: re.Match[str]) -> str:
        inner[f"graph_{len(inner)}"] = graph(found[1])
        return f"graph_{len(inner) - 1}"

    if text[0] not in "'\"":
        text = re.sub(r"@([\w./:#-]+)", name, text)
    return _evaluated(ast.parse(text, mode="eval").body, inner)


_NAMES = {"inf": math.inf, "nan": math.nan}


def _evaluated(node: ast.expr, inner: dict[str, Any]) -> Any:
    """A literal: numbers, texts, tuples, named tuples of :data:`LITERALS`, graphs; nothing is executed."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple):
        return tuple(_evaluated(e, inner) for e in node.elts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluated(node.operand, inner)
    if isinstance(node, ast.Name) and node.id in _NAMES | inner:
        return (_NAMES | inner)[node.id]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LITERALS:
        return LITERALS[node.func.id](*[_evaluated(e, inner) for e in node.args])
    raise ValueError(f"{ast.unparse(node)} is no literal")
