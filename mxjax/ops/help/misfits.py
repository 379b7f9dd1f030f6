"""Why arrays do not fit an operator, where Python or JAX refused them in words of their own.

A row's function takes shapes apart without asking: whoever calls it wants to hear of shapes, not of unpacking.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import word

if TYPE_CHECKING:
    from ..table import Op

#: What is refused in other words, and the words that a caller understands; {name} is the operator's.
REASONS = [
    (
        r"not enough values to unpack|assignment index out of range|implies that its rank should be at least"
        r"|modulo by zero|transpose permutation isn't|axis -?\d+ is out of bounds for array of dimension 0"
        r"|dimension numbers to be nonnegative|wrong number of window_dimensions",
        "an array has fewer axes than {name} takes",
    ),
    (r"too many values to unpack", "an array has more axes than {name} takes"),
    (
        r"got incompatible shapes for broadcasting: (.*?)\.?$",
        "arrays of the shapes {0} do not fit together",
    ),
    (
        r"dot_general requires .* the same shape, got \((.*?),?\) and \((.*?),?\)",
        "the product adds up along axes of one length, here are {0} and {1}",
    ),
    (
        r"cannot reshape array of shape (\(.*?\)) \(size \d+\) into shape ([(\[].*?[)\]])",
        "the numbers of an array of the shape {0} do not fill the shape {1}",
    ),
    (
        r"Size of label '\w+' for operand \d+ \((\d+)\) does not match previous terms \((\d+)\)",
        "an axis that arrays share has different lengths, {1} and {0}",
    ),
    (
        r"inconsistent sizes for array axes",
        "the arrays differ in the length of their first axis, the batch",
    ),
    (
        r"scan got values with different leading axis sizes: (.*?)\.?$",
        "arrays that are walked through step by step are of one length, here are {0}",
    ),
    (
        r"carry input and carry output must have equal types",
        "what is handed from step to step changes its shape or dtype",
    ),
    (
        r"Abstract tracer value encountered",
        "its numbers are needed, where only shapes are known",
    ),
    (
        r"cotangent type does not match|pad_width with nd|[Tt]racer",
        "the arrays' shapes do not fit together",
    ),
    (
        r"must be at least (2|two).?(D|dimensional)|must be at least 2-dimensional",
        "a matrix, of two axes or more, is expected",
    ),
    (
        r"Cannot concatenate arrays with different numbers of dimensions: got (.*?)\.?$",
        "arrays that are joined have equally many axes, here are the shapes {0}",
    ),
    (
        r"Cannot concatenate arrays with shapes that differ .* for shapes (.*?)\.?$",
        "arrays that are joined have the same lengths on the other axes, here are the shapes {0}",
    ),
    (
        r"Zero-dimensional arrays cannot be concatenated",
        "arrays that are joined have an axis, here is one without",
    ),
]
_REASONS = [(re.compile(pattern, re.DOTALL), words) for pattern, words in REASONS]


def told(op: Op, text: str) -> str | None:
    """What does not fit, and what the row takes, or None where ``text`` says it well."""
    for pattern, words in _REASONS:
        found = pattern.search(text)
        if found:
            reason = words.format(*found.groups(), name=op.name.partition("@")[0])
            return _with_what_it_takes(op, reason)
    return None


def _with_what_it_takes(op: Op, reason: str) -> str:
    takes = [f"{name}: {word(op, name)[1].rstrip('.')}" for name in op.array_params]
    takes = [line for line in takes if "shape" in line or "axes" in line]
    return f"{reason}. It takes {'; '.join(takes)}" if takes else reason
