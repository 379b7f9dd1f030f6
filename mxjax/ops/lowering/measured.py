"""What `make tune-convolutions` measured of the forms of a convolution: the table that `convolution_plan.choose` reads.

``measured.json`` has an entry for each kind of machine, version of jaxlib and count of cores, which says where and when it
was measured; its rows have the milliseconds of each pass in each form that there is. A row serves convolutions like it
(:func:`times`).
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from math import log
from pathlib import Path
from typing import Any

import jaxlib

from mxjax.core.compile.compiler_options import cores, cpu_features

FILE = Path(__file__).with_name("measured.json")
#: A row serves where images, channels, pixels and filters are each within this factor of its own.
NEAR = 1.5
#: Of several cores an entry serves a process that has at most so many times as many, or so few: some forms are computed by one.
NEAR_CORES = 2
#: A form is taken in the place of the usual one where it takes less than this part of its time.
GAIN = 0.87

#: Milliseconds by form, for each pass; the last: value and weight's gradient in one program, which share their patches.
Times = tuple[dict[str, float], dict[str, float], dict[str, float], float]
#: Kernel, stride and the kind of groups, or ``bfloat16`` (in one group); images, channels, pixels of an image, filters, groups.
Key = tuple[tuple[int, int], tuple[int, int], str]
Numbers = tuple[int, int, int, int, int]


def kind_of(groups: int, channels: int) -> str:
    """Of which groups: ``one``, ``depthwise`` or ``few``."""
    return "one" if groups == 1 else "depthwise" if groups == channels else "few"


def version(text: str) -> tuple[int, int]:
    """The first two numbers of jaxlib's version."""
    first, second = text.split(".")[:2]
    return int(first), int(second)


def entry(
    entries: list[dict[str, Any]], features: frozenset[str], jaxlib_version: str, cores: int
) -> Any:
    """The entry for a processor with these features and cores: of this jaxlib or the last before it, or the first; or None.

    What one core does fastest is for one core alone: of several some forms leave all but one idle.
    """

    def away(of: int) -> float:
        return max(of / cores, cores / of)

    def serves(e: dict[str, Any]) -> bool:
        of = e["cores"]
        alike = away(of) <= NEAR_CORES if min(of, cores) > 1 else of == cores
        return alike and e["platform"] == "cpu" and {*e["features"]} <= features

    fitting = [e for e in entries if serves(e)]
    if not fitting:
        return None
    now = version(jaxlib_version)
    before = [e for e in fitting if version(e["jaxlib"]) <= now]
    last = (max if before else min)(version(e["jaxlib"]) for e in before or fitting)
    of_it = [e for e in fitting if version(e["jaxlib"]) == last]
    return max(of_it, key=lambda e: (len(e["features"]), -away(e["cores"])))


@cache
def rows() -> dict[Key, list[tuple[Numbers, Times]]]:
    """The rows for this processor and jaxlib by kernel, stride and kind of groups."""
    entries = json.loads(FILE.read_text("utf-8"))
    found = entry(entries, cpu_features(), jaxlib.__version__, cores())
    made: dict[Key, list[tuple[Numbers, Times]]] = {}
    for row in found["rows"] if found else ():
        (images, high, wide, channels), filters = row["images"], row["filters"]
        groups = row["groups"]
        kind = kind_of(groups, channels) if row["dtype"] == "float32" else row["dtype"]
        key = (*row["kernel"],), (*row["stride"],), kind
        ms = row["ms"]
        passes = ms["value"], ms["input_gradient"], ms["weight_gradient"], ms.get("shared", 0.0)
        numbers = images, channels, high * wide, filters, groups
        made.setdefault(key, []).append((numbers, passes))
    return made


@lru_cache(4096)
def times(key: Key, numbers: Numbers) -> Times | None:
    """Those of the nearest row that serves a convolution; None where there is none. One image is like one image alone."""
    best, found = float("inf"), None
    for of, ms in rows().get(key, ()):
        far = [abs(log(a / b)) for a, b in zip(of, numbers, strict=True)]
        if max(far) <= log(NEAR) and sum(far) < best and (of[0] == 1) == (numbers[0] == 1):
            best, found = sum(far), ms
    return found


def faster(usual: str, forms: tuple[str, ...], ms: dict[str, float]) -> str:
    """The fastest of these forms, where it is faster than the usual one and both were measured."""
    measured = [form for form in forms if form in ms]
    if usual not in measured:
        return usual
    best = min(measured, key=ms.__getitem__)
    return best if ms[best] < GAIN * ms[usual] else usual
