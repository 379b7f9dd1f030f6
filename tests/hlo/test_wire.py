"""Protocol buffers, read by a description of the fields that matter."""

import pytest

from mxjax.hlo import read


def test_wire_format():
    inner = {1: ("n", "int")}
    spec = {1: ("n", "int"), 2: ("text", "str"), 3: ("many", ["int"]), 4: ("sub", [inner])}
    message = (
        b"\x08\xac\x02"  # 1: 300
        b"\x12\x02hi"  # 2: "hi"
        b"\x1a\x03\x01\x96\x01"  # 3: packed 1, 150
        b"\x18\x07"  # 3: 7, not packed
        b"\x22\x02\x08\x05\x22\x00"  # 4: {1: 5}, {}
        b"\x49\x00\x00\x00\x00\x00\x00\x00\x00"  # 9: fixed64, not described
        b"\x55\x00\x00\x00\x00"  # 10: fixed32, not described
        b"\x5a\x01x\x60\x01"  # 11, 12: not described
    )
    out = read(message, spec)
    assert out == {"n": 300, "text": "hi", "many": [1, 150, 7], "sub": [{"n": 5}, {}]}
    minus_one = b"\x08" + b"\xff" * 9 + b"\x01"
    assert read(minus_one, spec)["n"] == -1
    for broken in (b"\x08", b"\x12\x05hi", b"\x0b\x00"):
        with pytest.raises(ValueError):
            read(broken, spec)
