"""ONNX's inference of shapes, which is shown no `Slice` of a negative length: it would end the process."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from mxjax.onnx.onnx2mx.inference import inferred  # noqa: E402

node = helper.make_node
CONSTANTS = {
    "start": [0], "end": [4], "axis": [2], "pads": [0, 0, -5, -6, 0, 0, -5, -6], "minus": [-3], "one": [1],
}  # fmt: skip
WEIGHTS = {"w": np.zeros((1, 1, 20, 20), "float32"), "v": np.zeros((1, 1, 3, 3), "float32")}


def model(nodes, shape):
    kept = [numpy_helper.from_array(np.array(v, "int64"), n) for n, v in CONSTANTS.items()]
    kept += [numpy_helper.from_array(v, n) for n, v in WEIGHTS.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def cut(of, to, axis="axis"):
    return node("Slice", [of, "start", "end", axis], [to])


#: What makes a length negative before it is cut.
NEGATIVE = {
    "input": ([cut("x", "y")], (1, 1, -8, 8)),
    "convolution": ([node("Conv", ["x", "w"], ["a"]), cut("a", "y")], (1, 1, 8, 8)),
    "pooling": ([node("MaxPool", ["x"], ["a"], kernel_shape=[20, 20]), cut("a", "y")], (1, 1, 8, 8)),
    "padding": ([node("Pad", ["x", "pads"], ["a"]), cut("a", "y")], (1, 1, 8, 8)),
    "transposed": ([node("ConvTranspose", ["x", "v"], ["a"], pads=[50] * 4), cut("a", "y")], (1, 1, 8, 8)),
    "largest": ([node("TopK", ["x", "minus"], ["a", "b"], axis=2), cut("a", "y")], (1, 1, 8, 8)),
    "behind a cut": ([cut("x", "a"), node("Conv", ["a", "w"], ["b"]), cut("b", "c"), cut("c", "y")], (1, 1, 8, 8)),
    "in a branch": (
        [
            node("Cast", ["one"], ["t"], to=TensorProto.BOOL),
            node(
                "If", ["t"], ["y"],
                **{
                    f"{name}_branch": helper.make_graph(
                        [node("Conv", ["x", "w"], [f"{name}a"]), cut(f"{name}a", f"{name}y")], name, [],
                        [helper.make_tensor_value_info(f"{name}y", TensorProto.FLOAT, None)],
                    )
                    for name in ("then", "else")
                },
            ),
        ],
        (1, 1, 8, 8),
    ),
}  # fmt: skip


def test_negative_lengths_do_not_end_the_process(tmp_path):
    for name, (nodes, shape) in NEGATIVE.items():
        onnx.save(model(nodes, shape), tmp_path / f"{name}.onnx")
    program = """
import pathlib, sys
import mxjax as mx
from mxjax.errors import FormatError, MXNetError
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.onnx")):
    try:
        mx.onnx.import_model(path)
    except (FormatError, MXNetError):
        pass
    print(path.stem)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split("\n")[:-1] == sorted(NEGATIVE)


def shapes(found):
    return {
        info.name: [
            d.dim_value if d.HasField("dim_value") else d.dim_param
            for d in info.type.tensor_type.shape.dim
        ]
        for info in (*found.graph.value_info, *found.graph.output)
    }


@pytest.mark.parametrize("shape", [(1, 1, 30, 40), (1, 1, 30, "n"), ("b", 1, 30, 30)])
def test_other_shapes_are_found_as_by_onnx(shape):
    """Through cuts one behind the other, of images and of shapes."""
    nodes = [
        node("Conv", ["x", "v"], ["a"]), cut("a", "b"), node("Conv", ["x", "w"], ["c"]), cut("c", "d"),
        node("Concat", ["d", "d"], ["e"], axis=1), cut("e", "f"), node("Shape", ["b"], ["s"]),
        cut("s", "u", "zero"), node("Gather", ["u", "one"], ["g"]), node("Concat", ["g", "minus1"], ["new"], axis=0),
        node("Reshape", ["a", "new"], ["h"]), node("Relu", ["h"], ["y"]),
    ]  # fmt: skip
    made = model(nodes, shape)
    for name, value in (("zero", 0), ("minus1", -1)):
        made.graph.initializer.append(numpy_helper.from_array(np.array([value], "int64"), name))
    before = made.SerializeToString()
    wanted = shapes(onnx.shape_inference.infer_shapes(made, data_prop=True))
    assert shapes(inferred(onnx, made, data_prop=True)) == wanted
    assert len(wanted) >= 11 and made.SerializeToString() == before
