"""Compiled programs as XLA writes them down: their instructions, who uses which."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from .wire import read

# Field numbers of xla/service/hlo.proto and xla/xla_data.proto.
_SHAPE: dict[int, tuple[str, Any]] = {2: ("type", "int"), 3: ("dimensions", ["int"])}
_SHAPE[4] = ("tuple", [_SHAPE])
_SHAPE[5] = ("layout", {1: ("minor_to_major", ["int"])})
_METADATA = {2: ("op_name", "str")}
_WINDOW = {
    1: (
        "dimensions",
        [
            {
                1: ("size", "int"),
                2: ("stride", "int"),
                3: ("low", "int"),
                5: ("dilation", "int"),
                6: ("base_dilation", "int"),
            }
        ],
    )
}
_CONVOLUTION = {
    3: ("kernel_input", "int"),
    9: ("output_batch", "int"),
    10: ("output_feature", "int"),
    11: ("input_spatial", ["int"]),
    12: ("output_spatial", ["int"]),
}
_DOT = {1: ("contracting", ["int"])}
_INSTRUCTION = {
    1: ("name", "str"),
    2: ("opcode", "str"),
    3: ("shape", _SHAPE),
    7: ("metadata", _METADATA),
    9: ("parameter", "int"),
    15: ("window", _WINDOW),
    16: ("convolution", _CONVOLUTION),
    30: ("dot", _DOT),
    35: ("id", "int"),
    36: ("operands", ["int"]),
    38: ("called", ["int"]),
    43: ("backend", "bytes"),
}
_COMPUTATION = {
    1: ("name", "str"),
    2: ("instructions", [_INSTRUCTION]),
    5: ("id", "int"),
    6: ("root", "int"),
}
_ALIAS = {1: ("output", ["int"]), 2: ("parameter", "int")}
_MODULE = {
    1: ("name", "str"),
    3: ("computations", [_COMPUTATION]),
    6: ("entry", "int"),
    8: ("aliases", {1: ("entries", [_ALIAS])}),
}
_HLO = {1: ("module", _MODULE)}


# xla_data.proto: PrimitiveType -> (name, bytes).
_TYPES = {
    1: ("pred", 1), 2: ("s8", 1), 3: ("s16", 2), 4: ("s32", 4), 5: ("s64", 8), 6: ("u8", 1),
    7: ("u16", 2), 8: ("u32", 4), 9: ("u64", 8), 10: ("f16", 2), 11: ("f32", 4), 12: ("f64", 8),
    15: ("c64", 8), 16: ("bf16", 2), 18: ("c128", 16),
}  # fmt: skip
# Bring or rearrange numbers and compute none.
_STILL = frozenset(
    """parameter constant bitcast tuple get-tuple-element copy transpose reshape broadcast slice pad
    concatenate gather iota reverse convert dynamic-slice dynamic-update-slice while conditional
    call custom-call scatter rng-bit-generator copy-start copy-done""".split()
)
# In these an element is made of many, or of who knows which.
_MANY = frozenset(
    """reduce reduce-window dot convolution gather scatter select-and-scatter sort custom-call while conditional call
    map fft triangular-solve cholesky rng-bit-generator""".split()
)
_IDLE = frozenset("parameter constant bitcast tuple get-tuple-element while conditional".split())


@dataclass(slots=True)
class Instruction:
    """One instruction of a program; `called` are the computations a fusion or a loop runs.

    `place` is which operand of its computation a parameter is; `turns` how often a loop turns, as far as XLA knows.
    """

    name: str
    opcode: str
    op_name: str
    elements: int
    operands: list[Instruction] = field(default_factory=list, repr=False)
    users: list[Instruction] = field(default_factory=list, repr=False)
    called: list[Computation] = field(default_factory=list, repr=False)
    shape: str = ""
    dims: tuple[int, ...] = ()
    nbytes: int = 0
    layout: tuple[int, ...] = ()
    details: dict[str, Any] = field(default_factory=dict, repr=False)
    number: int = 0
    place: int = 0
    turns: int = 1

    @property
    def flops(self) -> int:
        """Floating-point operations: exact for products and convolutions, one an element otherwise."""
        return _flops(self)

    @property
    def traffic(self) -> int:
        """Bytes that it reads and writes: each operand once, or the part of it that is cut out or overwritten."""
        return _traffic(self)

    @property
    def counted_traffic(self) -> int:
        """The same as XLA counts it: a fusion that makes a part of what it could reads all of its operands."""
        return _traffic(self, exact=False)


@dataclass(slots=True)
class Computation:
    """A list of instructions in the order in which each follows its operands."""

    name: str
    instructions: list[Instruction]
    root: Instruction | None


@dataclass(slots=True)
class Program:
    """A compiled program: its computations, and every instruction by name.

    `overwritten` holds the inputs whose memory a result takes, by name, with what makes that result. `entry` is
    what runs first.
    """

    name: str
    computations: list[Computation]
    instructions: dict[str, Instruction]
    overwritten: dict[str, Instruction] = field(default_factory=dict)
    entry: Computation | None = None


def module_of(compiled: Any) -> bytes:
    """A program that JAX compiled, serialized; empty where it has several modules, or its backend tells none."""
    try:
        modules = compiled.runtime_executable().hlo_modules()
    except RuntimeError:  # this backend keeps none
        modules = ()
    return modules[0].as_serialized_hlo_module_proto() if len(modules) == 1 else b""


def parse(data: bytes) -> Program:
    """A program from its serialized form, as a trace has it."""
    return _program(read(data, _HLO).get("module", {}))


def parse_module(data: bytes) -> Program:
    """A program from its serialized module."""
    return _program(read(data, _MODULE))


def _program(module: dict[str, Any]) -> Program:
    by_id: dict[int, Instruction] = {}
    computations: dict[int, Computation] = {}
    for c in module.get("computations", []):
        own: list[Instruction] = []
        for raw in c["instructions"]:
            shape = raw.get("shape", {})
            instruction = Instruction(
                raw.get("name", ""),
                raw.get("opcode", ""),
                raw.get("metadata", {}).get("op_name", ""),
                _elements(shape),
                shape=_text(shape),
                dims=tuple(shape.get("dimensions", ())),
                nbytes=_nbytes(shape),
                layout=tuple(shape.get("layout", {}).get("minor_to_major", ())),
                details={k: raw[k] for k in ("window", "convolution", "dot") if k in raw},
                number=raw.get("id", 0),
                place=raw.get("parameter", 0),
                turns=_turns(raw.get("backend", b"")),
            )
            by_id[instruction.number] = instruction
            own.append(instruction)
        root = by_id.get(c.get("root", 0))
        computations[c.get("id", 0)] = Computation(c.get("name", ""), own, root)
    for c in module.get("computations", []):
        own = computations[c.get("id", 0)].instructions
        for raw, instruction in zip(c["instructions"], own, strict=True):
            instruction.operands = [by_id[i] for i in raw["operands"] if i in by_id]
            instruction.called = [computations[i] for i in raw["called"] if i in computations]
            for operand in instruction.operands:
                operand.users.append(instruction)
    every = {i.name: i for c in computations.values() for i in c.instructions}
    return Program(
        module.get("name", ""),
        list(computations.values()),
        every,
        _overwritten(module, by_id),
        computations.get(module.get("entry", 0)),
    )


def _turns(backend: bytes) -> int:
    """How often a loop turns, as what XLA notes for its backend tells."""
    if b"known_trip_count" not in backend:
        return 1
    try:
        return int(json.loads(backend)["known_trip_count"]["n"])
    except (KeyError, ValueError):
        return 1


def _overwritten(module: dict[str, Any], by_id: dict[int, Instruction]) -> dict[str, Instruction]:
    """The inputs whose memory a result takes, with the instruction that makes it."""
    entry: dict[str, Any] = next(
        (c for c in module.get("computations", []) if c.get("id") == module.get("entry")), {}
    )
    root = by_id.get(entry.get("root", 0))
    inputs = {
        raw.get("parameter", 0): raw["name"]
        for raw in entry.get("instructions", [])
        if raw.get("opcode") == "parameter"
    }
    found: dict[str, Instruction] = {}
    for alias in module.get("aliases", {}).get("entries", []):
        name = inputs.get(alias.get("parameter", 0))
        if root is None or name is None:
            continue
        made, at = root, alias["output"]
        if root.opcode == "tuple" and len(at) == 1 and at[0] < len(root.operands):
            made = root.operands[at[0]]
        found[name] = made
    return found


def _elements(shape: dict[str, Any]) -> int:
    parts = shape.get("tuple")
    if parts:
        return sum(_elements(part) for part in parts)
    size = 1
    for n in shape.get("dimensions", []):
        size *= n
    return size


def _nbytes(shape: dict[str, Any]) -> int:
    parts = shape.get("tuple")
    if parts:
        return sum(_nbytes(part) for part in parts)
    return _elements(shape) * _TYPES.get(shape.get("type", 0), ("", 0))[1]


def _text(shape: dict[str, Any]) -> str:
    """A shape as XLA writes it: `f32[64,10]`."""
    parts = shape.get("tuple")
    if parts:
        return f"({', '.join(map(_text, parts))})"
    name = _TYPES.get(shape.get("type", 0), ("?", 0))[0]
    return f"{name}[{','.join(map(str, shape.get('dimensions', ())))}]"


def _traffic(instruction: Instruction, exact: bool = True) -> int:
    opcode, operands = instruction.opcode, instruction.operands
    if opcode in _IDLE:
        return 0
    if opcode == "dynamic-slice":
        return 2 * instruction.nbytes
    if opcode == "dynamic-update-slice":
        return 2 * operands[1].nbytes
    read = {id(o): o.nbytes for o in operands}
    written = instruction.nbytes
    inside = instruction.called[0] if opcode == "fusion" and instruction.called else None
    if inside is not None and inside.root is not None:
        root = inside.root
        made = [_unnamed(o) for o in (root.operands if root.opcode == "tuple" else (root,))]
        put = [i for i in made if i.opcode == "dynamic-update-slice"]
        results = [i.operands[1] if i in put else i for i in made]
        written = sum(i.nbytes for i in results)
        asked = _asked(inside, results) if exact else {}
        for p in inside.instructions:
            if p.opcode == "parameter" and p.place < len(operands):
                part = _part(p, put)
                least = p.nbytes if part is None else part
                if p.elements and id(p) in asked:
                    least = min(least, asked[id(p)] * p.nbytes // p.elements)
                if least < p.nbytes:
                    read[id(operands[p.place])] = least
    return written + sum(read.values())


def _asked(inside: Computation, results: list[Instruction]) -> dict[int, int]:
    """By parameter of a fusion, how many of its elements the results ask for at most: nothing where one of
    theirs takes many, as in sums and products.

    A band of a padded image that is cut out of an element-wise result asks for that band, not for all images.
    """
    if any(i.opcode in _MANY for i in inside.instructions):
        return {}
    asked: dict[int, int] = {}
    for i in results:
        asked[id(i)] = asked.get(id(i), 0) + i.elements
    for i in reversed(inside.instructions):  # users come after what they use
        for o in i.operands:
            asked[id(o)] = asked.get(id(o), 0) + min(i.elements, asked.get(id(i), 0))
    return asked


def _unnamed(instruction: Instruction) -> Instruction:
    """What a bitcast gives another shape."""
    while instruction.opcode == "bitcast":
        instruction = instruction.operands[0]
    return instruction


def _part(parameter: Instruction, put: list[Instruction]) -> int | None:
    """The bytes that a fusion reads of an operand of which it takes or overwrites parts alone; None of others."""
    cut = 0
    users = list(parameter.users)
    while users:
        user = users.pop()
        if user.opcode == "bitcast":
            users.extend(user.users)
        elif user.opcode == "dynamic-slice":
            cut += user.nbytes
        elif user not in put or _unnamed(user.operands[1]) is parameter:
            return None
    return cut


def _flops(instruction: Instruction) -> int:
    opcode = instruction.opcode
    if opcode in ("fusion", "call"):
        return sum(_flops(i) for c in instruction.called for i in c.instructions)
    if opcode == "dot" and instruction.operands:
        inner = 1
        for d in instruction.details.get("dot", {}).get("contracting", ()):
            inner *= instruction.operands[0].dims[d]
        return 2 * instruction.elements * inner
    if opcode == "convolution" and len(instruction.operands) == 2:
        return _convolution_flops(instruction)
    if opcode in _STILL:
        return 0
    if opcode.startswith("reduce") and instruction.operands:
        return max(instruction.operands[0].elements, instruction.elements)
    return instruction.elements


def _convolution_flops(instruction: Instruction) -> int:
    """Two for each pair of a kernel's element and an element under it; the padding is no element."""
    about = instruction.details.get("convolution", {})
    image, kernel = instruction.operands
    pairs = 1
    windows = instruction.details.get("window", {}).get("dimensions", [])
    for w, i, o in zip(windows, about["input_spatial"], about["output_spatial"], strict=True):
        stride, dilation = w.get("stride", 1), w.get("dilation", 1)
        base = w.get("base_dilation", 1)
        last = (image.dims[i] - 1) * base
        pairs *= sum(
            0 <= at <= last and at % base == 0
            for out in range(instruction.dims[o])
            for at in (out * stride - w.get("low", 0) + k * dilation for k in range(w["size"]))
        )
    dims = instruction.dims
    outer = dims[about.get("output_batch", 0)] * dims[about.get("output_feature", 0)]
    return 2 * outer * kernel.dims[about.get("kernel_input", 0)] * pairs
