"""The compiled programs that XLA leaves in a trace."""

from __future__ import annotations

from mxjax.hlo import read

# Field numbers of tsl/profiler/protobuf/xplane.proto.
_STAT = {1: ("metadata_id", "int"), 6: ("bytes", "bytes")}
_NAMED = {1: ("id", "int"), 2: ("name", "str")}
_PROGRAM = {2: ("name", "str"), 5: ("stats", [_STAT])}
_PLANE = {
    2: ("name", "str"),
    4: ("programs", [{2: ("value", _PROGRAM)}]),
    5: ("stat_names", [{2: ("value", _NAMED)}]),
}
_SPACE = {1: ("planes", ["bytes"])}


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
