"""The safetensors format: what its own package writes and reads, and damaged files."""

import json
import struct

import numpy as np
import pytest

import mxjax as mx
from mxjax import errors, safetensors

# By hand, after the format's description: "b" of two int32, then "a" of one float64.
HEAD = {
    "a": {"dtype": "F64", "shape": [], "data_offsets": [8, 16]},
    "b": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]},
}
BODY = struct.pack("<iid", 3, -4, 0.5)


def packed(head, body=BODY):
    text = (head if isinstance(head, str) else json.dumps(head)).encode()
    return struct.pack("<Q", len(text)) + text + body


def test_reads_the_format():
    found = safetensors.unpack(packed({"__metadata__": {"by": "hand"}, **HEAD}))
    assert found["a"].dtype == np.float64 and found["a"] == 0.5
    np.testing.assert_array_equal(found["b"], np.array([3, -4], "int32"))


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "int8",
        "uint8",
        "int16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    ],
)
def test_dtypes_and_shapes(tmp_path, dtype):
    rng = np.random.RandomState(0)
    arrays = {
        f"x{k}": mx.np.array(rng.uniform(0, 3, s), dtype=dtype)
        for k, s in enumerate([(), (3,), (2, 3), (0, 2)])
    }
    raw = b"".join(safetensors.pack({k: a.asnumpy() for k, a in arrays.items()}))
    assert (len(raw) - sum(a.asnumpy().nbytes for a in arrays.values())) % 8 == 0
    for name, a in safetensors.unpack(raw).items():
        assert a.dtype == arrays[name].dtype
        np.testing.assert_array_equal(a, arrays[name].asnumpy())


def test_its_own_package_agrees(tmp_path):
    theirs = pytest.importorskip("safetensors.numpy")
    arrays = {
        "weight": np.arange(6, dtype="float32").reshape(2, 3),
        "flag": np.array([True, False]),
        "n": np.int64([7]),
    }
    raw = b"".join(safetensors.pack(arrays, {"by": "us"}))
    for there, here in (
        (theirs.load(raw), arrays),
        (arrays, safetensors.unpack(theirs.save(arrays))),
    ):
        assert there.keys() == here.keys()
        for k in here:
            np.testing.assert_array_equal(there[k], here[k])
            assert there[k].dtype == here[k].dtype


def test_parameters_of_a_network(tmp_path):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(3, in_units=4), mx.gluon.nn.BatchNorm(in_channels=3))
    net.initialize(mx.init.Normal(1.0))
    net.save_parameters(tmp_path / "net.safetensors")
    other = mx.gluon.nn.HybridSequential()
    other.add(mx.gluon.nn.Dense(3), mx.gluon.nn.BatchNorm())
    other.load_parameters(tmp_path / "net.safetensors")
    for name, p in net.collect_params().items():
        np.testing.assert_array_equal(
            p.data().asnumpy(), other.collect_params()[name].data().asnumpy()
        )
    assert set(mx.npx.load(tmp_path / "net.safetensors")) == set(net.collect_params())


@pytest.mark.parametrize(
    "raw, what",
    [
        (b"", "0 bytes"),
        (struct.pack("<Q", 1 << 60) + b"{}", "a table of"),
        (packed("[1]"), "no dictionary"),
        (packed("{nothing"), "not valid JSON"),
        (packed('{"a": 1, "a": 2}'), "twice"),
        (packed("[" * 100_000), "not valid JSON"),
        (packed({"a": {"dtype": "F64"}}), "no dtype, shape"),
        (packed({"a": {"dtype": "F7", "shape": [], "data_offsets": [0, 16]}}), "dtype 'F7'"),
        (packed({"a": {"dtype": "F64", "shape": [-2], "data_offsets": [0, 16]}}), "shape"),
        (packed({"a": {"dtype": "F64", "shape": [1 << 62], "data_offsets": [0, 16]}}), "shape"),
        (packed({"a": {"dtype": "F64", "shape": [2], "data_offsets": [0, 24]}}), "16 bytes"),
        (
            packed({"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}),
            "belong to no array",
        ),
        (
            packed({**HEAD, "c": {"dtype": "F64", "shape": [1], "data_offsets": [4, 12]}}),
            "is expected",
        ),
        (packed(HEAD, BODY[:-1]), "of 15"),
    ],
)
def test_damaged(raw, what):
    with pytest.raises(errors.FormatError, match=what):
        safetensors.unpack(raw)


def test_what_cannot_be_stored():
    with pytest.raises(TypeError, match="x: arrays of complex64"):
        list(safetensors.pack({"x": np.zeros(2, "complex64")}))
