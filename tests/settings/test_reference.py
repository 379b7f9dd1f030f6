"""The options that the documents of MXNet, MegEngine and Ascend name, against the rows.

`tests/data/setting_names.json` has the names, each with the best that XLA lets one do about it: a real
effect, an approximate one, or none.  Run with -s to see the table.

A test that observes an effect bears the mark `observes`. It observes the options whose names it spells, as
strings or as keywords, and those that the mark's arguments add.  So a name is tied to its tests by nothing but
its use in them; a row without such a test fails here.
"""

import ast
import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from mxjax import profiler
from mxjax.errors import MXNetError
from mxjax.settings.rows import OPTIONS

TESTS = Path(__file__).parents[1]
NAMES = json.loads((TESTS / "data" / "setting_names.json").read_text())
SERVED = {old.name: old.fidelity for row in OPTIONS for old in row.legacy}
#: Any name of an option -> its row.
ROWS = {
    name: row
    for row in OPTIONS
    for name in (row.name, row.keyword, row.variable, *(old.name for old in row.legacy))
}

#: Names that do more than the data holds for possible, and why: what that supposed was another way of doing it.
BEYOND = {
    "MXNET_KVSTORE_REDUCTION_NTHREADS": "so many threads of our own share the pieces of big arrays out, as MXNet's do; "
    "XLA's programs, which have no number of threads each, take no part in it",
    "MXNET_ENABLE_GPU_P2P": "it is for the stores alone in MXNet, too; 0 takes every move of theirs through the "
    "host, so that nothing is left that XLA would decide",
}


def served(name):
    """real, approximate, none or missing."""
    if name.startswith("profiler.set_config("):
        option = re.search(r"\((\w+)\)", name)[1]
        try:
            profiler.set_config(**{option: "x.json" if option == "filename" else True})
        except MXNetError:
            return "missing"
        finally:
            profiler.set_config()
        return "real"
    return SERVED.get(name, "missing")


def spelled(function):
    """The strings and keywords in a test that is marked `observes`; of another, none."""
    marks = [ast.unparse(mark) for mark in function.decorator_list]
    if not any(mark.startswith("pytest.mark.observes") for mark in marks):
        return set()
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Constant | ast.keyword)]
    return {node.arg if isinstance(node, ast.keyword) else str(node.value) for node in nodes}


def observing():
    """Name -> the tests that observe it: an option under its own name, old names, the profiler's options."""
    found = defaultdict(set)
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        if "mark.observes" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            for word in spelled(node) if isinstance(node, ast.FunctionDef) else ():
                test = f"{path.relative_to(TESTS)}::{node.name}"
                if word in ROWS:
                    found[word].add(test)
                    found[ROWS[word].name].add(test)
                elif "profiler" in path.parts:
                    found[f"profiler.set_config({word})"].add(test)
    return found


def observers_of(name, observed):
    """The tests that observe a name; one with values of its own is not observed under another."""
    if name in observed or name not in ROWS:
        return observed.get(name, set())
    row = ROWS[name]
    old = row.legacy_of(name)
    return set() if old is not None and old.kind is not None else observed.get(row.name, set())


@pytest.fixture(scope="module")
def observed():
    return observing()


@pytest.fixture(scope="module")
def table():
    return {family: {name: served(name) for name in names} for family, names in NAMES.items()}


def test_every_name_of_the_documents_is_counted(table, observed):
    counts = {family: Counter(found.values()) for family, found in table.items()}
    for family, found in table.items():
        counts[family]["observed"] = sum(bool(observers_of(name, observed)) for name in found)
    kinds = ("real", "approximate", "none", "missing", "observed")
    print("\n" + " ".join(f"{word:>12}" for word in ("family", "names", *kinds)))
    for family, count in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        numbers = (sum(count[kind] for kind in kinds[:4]), *(count[kind] for kind in kinds))
        print(" ".join([f"{family:>12}", *(f"{number:>12}" for number in numbers)]))
    assert {family: sum(count[kind] for kind in kinds[:4]) for family, count in counts.items()} == {
        "mxnet": 51,
        "megengine": 37,
        "ascend": 53,
    }


def test_every_name_has_a_test_that_observes_it(observed):
    names = {
        *SERVED,
        *(row.name for row in OPTIONS),
        *(name for found in NAMES.values() for name in found),
    }
    alone = sorted(name for name in names if not observers_of(name, observed))
    assert not alone, "no test marked `observes` spells " + ", ".join(alone)


def test_no_name_is_missing(table):
    assert not [
        name for found in table.values() for name, kind in found.items() if kind == "missing"
    ]


def test_no_name_claims_more_than_xla_allows(table):
    rank = {"missing": 0, "none": 0, "approximate": 1, "real": 2}
    wrong = [
        f"{name}: {kind}, and at most {NAMES[family][name]} is possible"
        for family, found in table.items()
        for name, kind in found.items()
        if rank[kind] > rank[NAMES[family][name]] and name not in BEYOND
    ]
    assert not wrong, "\n".join(wrong)


def test_no_more_names_do_nothing_than_do_nothing_upstream(table):
    assert {name for found in table.values() for name, kind in found.items() if kind == "none"} <= {
        name for names in NAMES.values() for name, kind in names.items() if kind == "none"
    }
