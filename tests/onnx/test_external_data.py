"""An ONNX file that keeps arrays in other files: those lie in its folder, or it is refused."""

from __future__ import annotations

import os

import numpy as np
import pytest

import mxjax as mx
from mxjax.errors import FormatError

onnx = pytest.importorskip("onnx")
W = np.arange(3, dtype="f4")


@pytest.fixture
def folder(tmp_path):
    """A folder with arrays in `w`, beside what a stranger's file may not read."""
    made = tmp_path / "model"
    (made / "sub").mkdir(parents=True)
    for path in (tmp_path / "secret", made / "w", made / "sub" / "w"):
        path.write_bytes(W.tobytes())
    (made / "link").symlink_to("../secret")
    (made / "up").symlink_to("..")
    os.mkfifo(made / "pipe")
    return made


def model(folder, **where):
    helper = onnx.helper
    w = onnx.TensorProto(name="w", data_type=1, dims=[3], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in where.items():
        w.external_data.add(key=key, value=str(value))
    shapes = [helper.make_tensor_value_info(name, 1, [3]) for name in "xy"]
    add = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([add], "graph", shapes[:1], shapes[1:], [w])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    (folder / "net.onnx").write_bytes(made.SerializeToString())
    return str(folder / "net.onnx")


@pytest.mark.parametrize("location", ["w", "./w", "sub/w"])
def test_arrays_beside_the_file_are_read(folder, location):
    args = mx.onnx.import_model(model(folder, location=location, offset=0, length=12))[1]
    np.testing.assert_array_equal(args["w"].asnumpy(), W)


@pytest.mark.parametrize(
    "location",
    ["../secret", "/SECRET", "link", "up/secret", "sub/../../secret", "", "..", ".", "sub", "pipe"],
)
def test_nothing_outside_the_folder_is_read(folder, location):
    location = location.replace("/SECRET", str(folder.parent / "secret"))
    with pytest.raises((FormatError, OSError), match="net.onnx"):
        mx.onnx.import_model(model(folder, location=location, offset=0, length=12))


@pytest.mark.parametrize(
    ("offset", "length"),
    [(-4, 12), (100, 12), (0, 10**15), (0, -1), ("x", 12), (10**30, 3), (0, "1e3")],
)
def test_places_in_the_file_are_checked(folder, offset, length):
    with pytest.raises(FormatError, match="net.onnx"):
        mx.onnx.import_model(model(folder, location="w", offset=offset, length=length))
