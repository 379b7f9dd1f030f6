"""The compiled programs that XLA leaves in a trace: their instructions and who uses which."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ._wire import read

# Field numbers of tsl/profiler/protobuf/xplane.proto and xla/service/hlo.proto.
_STAT = {1: ("metadata_id", "int"), 6: ("bytes", "bytes")}
_NAMED = {1: ("id", "int"), 2: ("name", "str")}
_PROGRAM = {2: ("name", "str"), 5: ("stats", [_STAT])}
_PLANE = {
    2: ("name", "str"),
    4: ("programs", [{2: ("value", _PROGRAM)}]),
    5: ("stat_names", [{2: ("value", _NAMED)}]),
}
_SPACE = {1: ("planes", ["bytes"])}

_SHAPE: dict[int, tuple[str, Any]] = {3: ("dimensions", ["int"])}
_SHAPE[4] = ("tuple", [_SHAPE])
_METADATA = {2: ("op_name", "str")}
_INSTRUCTION = {
    1: ("name", "str"),
    2: ("opcode", "str"),
    3: ("shape", _SHAPE),
    7: ("metadata", _METADATA),
    35: ("id", "int"),
    36: ("operands", ["int"]),
    38: ("called", ["int"]),
}
_COMPUTATION = {
    1: ("name", "str"),
    2: ("instructions", [_INSTRUCTION]),
    5: ("id", "int"),
    6: ("root", "int"),
}
_MODULE = {1: ("name", "str"), 3: ("computations", [_COMPUTATION])}
_HLO = {1: ("module", _MODULE)}


@dataclass(slots=True)
class Instruction:
    """One instruction of a program; `called` are the computations a fusion or a loop runs."""

    name: str
    opcode: str
    op_name: str
    elements: int
    operands: list[Instruction] = field(default_factory=list, repr=False)
    users: list[Instruction] = field(default_factory=list, repr=False)
    called: list[Computation] = field(default_factory=list, repr=False)


@dataclass(slots=True)
class Computation:
    """A list of instructions in the order in which each follows its operands."""

    name: str
    instructions: list[Instruction]
    root: Instruction | None


@dataclass(slots=True)
class Program:
    """A compiled program: its computations, and every instruction by name."""

    name: str
    computations: list[Computation]
    instructions: dict[str, Instruction]


def programs(space: bytes) -> dict[str, bytes]:
    """The programs in a serialized XSpace, by the key that events name: `module(program_id)`.

    A trace holds every program of the process; `parse` those whose events are in it.
    """
    found: dict[str, bytes] = {}
    for raw in read(space, _SPACE)["planes"]:
        if read(raw, {2: ("name", "str")}).get("name") != "/host:metadata":
            continue
        plane = read(raw, _PLANE)
        hlo_stats = {
            entry["value"].get("id", 0)
            for entry in plane["stat_names"]
            if "value" in entry and entry["value"].get("name") == "Hlo Proto"
        }
        for entry in plane["programs"]:
            value = entry.get("value", {})
            for stat in value.get("stats", []):
                if stat.get("metadata_id") in hlo_stats and "bytes" in stat:
                    found[value.get("name", "")] = stat["bytes"]
    return found


def parse(data: bytes) -> Program:
    """A program from its serialized form."""
    module = read(data, _HLO).get("module", {})
    by_id: dict[int, Instruction] = {}
    computations: dict[int, Computation] = {}
    for c in module.get("computations", []):
        own: list[Instruction] = []
        for raw in c["instructions"]:
            instruction = Instruction(
                raw.get("name", ""),
                raw.get("opcode", ""),
                raw.get("metadata", {}).get("op_name", ""),
                _elements(raw.get("shape", {})),
            )
            by_id[raw.get("id", 0)] = instruction
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
    return Program(module.get("name", ""), list(computations.values()), every)


def _elements(shape: dict[str, Any]) -> int:
    parts = shape.get("tuple")
    if parts:
        return sum(_elements(part) for part in parts)
    size = 1
    for n in shape.get("dimensions", []):
        size *= n
    return size
