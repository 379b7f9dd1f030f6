"""The statistics against those that MXNet 2.0 printed of the same events."""

import itertools
import json
import re
from pathlib import Path

import pytest

from mxjax.profiler._aggregate import Aggregate

RECORD = json.loads((Path(__file__).parents[1] / "data" / "profiler_stats.json").read_text())
NUMBER = re.compile(r"-?\d+\.\d{4}$")


@pytest.fixture(scope="module")
def aggregate():
    out = Aggregate()
    for kind, category, name, value in RECORD["events"]:
        if kind == "span":
            out.duration(category, name, value)
        elif kind == "counter":
            out.value(category, name, value)
        else:
            out.category(category)
    return out


def rows(table: str) -> dict[str, list[str]]:
    """The lines of each category."""
    out: dict[str, list[str]] = {}
    for block in table.split("\n\n"):
        lines = block.strip("\n").split("\n")
        if lines[0] == "Profile Statistics:":
            out["(head)"], lines = lines[:2], lines[2:]
        out[lines[0]] = lines[1:]
    return out


def same_line(ours: str, theirs: str) -> bool:
    """Equal, or different in the last digit only: MXNet divides in single precision."""
    if ours == theirs:
        return True
    a, b = ours.split(), theirs.split()
    return (
        len(ours) == len(theirs)
        and len(a) == len(b)
        and all(
            x == y
            or bool(NUMBER.match(x) and NUMBER.match(y))
            and abs(float(x) - float(y)) < 1.5e-4
            for x, y in zip(a, b, strict=True)
        )
    )


COLUMN = {"count": -5, "total": -4, "min": -3, "max": -2, "avg": -1}


@pytest.mark.parametrize("order", list(RECORD["tables"]))
def test_table_equals_mxnet(aggregate, order):
    sort_by, direction = order.split()
    ours = aggregate.table(sort_by, direction == "ascending")
    theirs = RECORD["tables"][order]
    assert ours[:80] == theirs[:80]
    assert len(ours) == len(theirs)
    for category, expected in rows(theirs).items():
        got = rows(ours)[category]
        assert got[:3] == expected[:3]  # ruler and headers, to the letter
        # Rows that tie have no order in MXNet; by name, every row has its equal.
        for a, b in zip(sorted(got), sorted(expected), strict=True):
            assert same_line(a, b)
        if category not in ("Device Storage", "(head)"):
            keys = [float(line.split()[COLUMN[sort_by]]) for line in got[3:]]
            pairs = itertools.pairwise(keys)
            assert all((a <= b) if direction == "ascending" else (a >= b) for a, b in pairs)


def test_json_equals_mxnet(aggregate):
    ours, theirs = json.loads(aggregate.json()), RECORD["json"]
    assert list(ours) == list(theirs)
    assert ours["Unit"] == theirs["Unit"]
    for unit in ("Time", "Memory"):
        assert list(ours[unit]) == list(theirs[unit])
        for category, expected in theirs[unit].items():
            assert set(ours[unit][category]) == set(expected)
            for name, row in expected.items():
                got = ours[unit][category][name]
                assert list(got) == list(row)
                # MXNet writes four digits.
                assert list(got.values()) == pytest.approx(list(row.values()), rel=6e-4, abs=1e-6)


def test_ties_are_in_order_of_names():
    out = Aggregate()
    for name in ("b", "a", "c"):
        out.duration("operator", name, 5)
    for ascending in (False, True):
        assert list(json.loads(out.json(ascending=ascending))["Time"]["operator"]) == [
            "a",
            "b",
            "c",
        ]


def test_a_counter_may_be_negative():
    out = Aggregate()
    out.value("domain", "counter", 3)
    out.value("domain", "counter", -2000)
    row = json.loads(out.json())["Time"]["domain"]["counter"]
    assert (row["Count"], row["Min"], row["Max"], row["Total"]) == (2, -2.0, 0.003, -2.0)


def test_bytes_have_columns_in_kb():
    out = Aggregate()
    for category in ("Device Storage", "Memory by block", "Memory by operator", "domain"):
        out.value(category, "x", 2000)
    table = out.table().split("\n")
    heads = {table[k - 1]: table[k + 1] for k, line in enumerate(table) if line.startswith("====")}
    assert {category for category, head in heads.items() if "(kB)" in head} == heads.keys() - {
        "domain"
    }
    assert "Time (ms)" in heads["domain"]  # a user's counter, as in MXNet
    found = json.loads(out.json())
    assert found["Memory"].keys() == heads.keys() - {"domain"} and found["Time"].keys() == {
        "domain"
    }


def test_calls_without_a_time():
    out = Aggregate()
    out.without_time("operator", "unread", 3, 3)
    out.duration("operator", "fused", 6)
    out.without_time("operator", "fused", 2, 0)
    found = json.loads(out.json())
    assert found["Time"]["operator"]["fused"] == {
        "Count": 3,
        "Total": 0.006,
        "Min": 0.006,
        "Max": 0.006,
        "Avg": 0.006,
    }
    assert found["Time"]["operator"]["unread"] == {
        "Count": 3,
        "Total": 0,
        "Min": 0,
        "Max": 0,
        "Avg": 0,
    }
    assert found["Not computed"] == {"operator": {"unread": 3}}
    for sort_by in ("total", "avg", "min", "max", "count"):
        assert "unread" in out.table(sort_by)


def test_empty():
    empty = Aggregate().table()
    assert empty == "\nProfile Statistics:\n\tNote the difference in units for different entries.\n"
    assert json.loads(Aggregate().json())["Time"] == {}
