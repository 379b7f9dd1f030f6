"""The options that the documents of MXNet, MegEngine and Ascend name, against the rows.

`tests/data/setting_names.json` has the names, each with the best that XLA lets one do about it: a real
effect, an approximate one, or none.  Run with -s to see the table.
"""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from mxjax import profiler
from mxjax.errors import MXNetError
from mxjax.settings.rows import OPTIONS

NAMES = json.loads((Path(__file__).parents[1] / "data" / "setting_names.json").read_text())
SERVED = {old.name: old.fidelity for row in OPTIONS for old in row.legacy}
GROUPS = {row.name.partition(".")[0] for row in OPTIONS}


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


@pytest.fixture(scope="module")
def table():
    return {family: {name: served(name) for name in names} for family, names in NAMES.items()}


def test_every_name_of_the_documents_is_counted(table):
    counts = {family: Counter(found.values()) for family, found in table.items()}
    kinds = ("real", "approximate", "none", "missing")
    print("\n" + " ".join(f"{word:>12}" for word in ("family", "names", *kinds)))
    for family, count in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        numbers = (sum(count.values()), *(count[kind] for kind in kinds))
        print(" ".join([f"{family:>12}", *(f"{number:>12}" for number in numbers)]))
    assert {family: sum(count.values()) for family, count in counts.items()} == {
        "mxnet": 51, "megengine": 37, "ascend": 53}


def test_no_name_is_missing(table):
    assert not [name for found in table.values() for name, kind in found.items() if kind == "missing"]


def test_no_name_claims_more_than_xla_allows(table):
    rank = {"missing": 0, "none": 0, "approximate": 1, "real": 2}
    wrong = [
        f"{name}: {kind}, and at most {NAMES[family][name]} is possible"
        for family, found in table.items() for name, kind in found.items()
        if rank[kind] > rank[NAMES[family][name]]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_more_names_do_nothing_than_do_nothing_upstream(table):
    assert {name for found in table.values() for name, kind in found.items() if kind == "none"} <= {
        name for names in NAMES.values() for name, kind in names.items() if kind == "none"}
