"""XLA's compiled programs, read from their serialized form; `wire` reads and writes protocol buffers."""

from __future__ import annotations

from .counts import counts, repeated
from .program import Computation, Instruction, Program, module_of, parse, parse_module
from .wire import fixed64, read, varint, write

__all__ = [
    "Computation",
    "Instruction",
    "Program",
    "counts",
    "fixed64",
    "module_of",
    "parse",
    "parse_module",
    "read",
    "repeated",
    "varint",
    "write",
]
