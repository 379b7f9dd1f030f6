"""What each attribute of MXNet's operators is: a number, a truth value, a tuple, a text.

Run it with MXNet 1.9.1: python attribute_types.py FOLDER. It writes attribute_types.json: by operator and attribute
one of "int", "float", "bool", "ints", "floats", "text"; "?" behind it where None is a value, too.
"""

import ctypes
import json
import os
import sys

from mxnet.base import _LIB, check_call, mx_uint, py_str
from mxnet.operator import get_all_registered_operators

KINDS = (
    ("boolean", "bool"), ("Shape", "ints"), ("tuple of <float", "floats"), ("tuple of <int", "ints"),
    ("tuple of <long", "ints"), ("tuple of <double", "floats"),
    ("tuple of <optional", "ints"), ("int", "int"), ("long", "int"), ("float", "float"),
    ("double", "float"), ("string", "text"), ("{", "text"), ("ptr", "int"),
)  # fmt: skip


def arguments(handle):
    """Names and descriptions of an operator's arguments."""
    name, desc, key, returns = (ctypes.c_char_p() for _ in range(4))
    count = mx_uint()
    names, types, descs = (ctypes.POINTER(ctypes.c_char_p)() for _ in range(3))
    check_call(_LIB.MXSymbolGetAtomicSymbolInfo(
        handle, ctypes.byref(name), ctypes.byref(desc), ctypes.byref(count), ctypes.byref(names),
        ctypes.byref(types), ctypes.byref(descs), ctypes.byref(key), ctypes.byref(returns),
    ))  # fmt: skip
    return [(py_str(names[k]), py_str(types[k])) for k in range(count.value)]


def kind(described):
    for start, found in KINDS:
        if described.startswith(start):
            return found + "?" * ("or None" in described or "{None" in described)
    return None


found, unknown = {}, set()
for op in sorted(get_all_registered_operators()):
    if op.startswith("_backward"):
        continue
    handle = ctypes.c_void_p()
    check_call(_LIB.NNGetOpHandle(op.encode(), ctypes.byref(handle)))
    kinds = {}
    for name, described in arguments(handle):
        if "NDArray" in described or "Symbol" in described:
            continue
        if kind(described) is None:
            unknown.add(described)
        else:
            kinds[name] = kind(described)
    if kinds:
        found[op] = kinds
print(len(found), unknown)
with open(os.path.join(sys.argv[1], "attribute_types.json"), "w") as f:
    f.write(
        "{\n"
        + ",\n".join(f"{json.dumps(op)}: {json.dumps(kinds)}" for op, kinds in found.items())
        + "\n}\n"
    )
