"""ONNX files as symbols and blocks: what was exported comes back, PyTorch's files give what PyTorch computed."""

import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mxjax as mx
from mxjax import errors
from mxjax.array.creation import array
from mxjax.onnx.mx2onnx.writer import exported
from mxjax.onnx.onnx2mx.import_onnx import GraphProto
from mxjax.ops.table import TABLE as ROWS
from mxjax.symbol.run import run
from tests.onnx.test_export import (
    Alone,
    Encoder,
    initialized,
    normal,
    outputs,
    small_images,
    tokens,
)
from tests.onnx.test_rows import node_of, written

# What PyTorch's own networks gave, kept in the package of onnx.
OF_PYTORCH = sorted((Path(onnx.__file__).parent / "backend/test/data").glob("pytorch-*/*"))
REFUSED = {
    "test_MaxPool1d_stride_padding_dilation": "dilations",
    "test_MaxPool2d_stride_padding_dilation": "dilations",
}  # fmt: skip
# A few of each kind for the usual run.
USUAL = (
    "Conv1d_groups",
    "GLU",
    "MaxPool3d_stride",
    "PReLU_2d",
    "Softmin",
    "_view",
    "_addmm",
    "_pad",
    "_add_broadcast",
)


def comes_back(net, file, *inputs, others=(), **options):
    """Export and import; the block gives what the network gives, on ``others`` too."""
    outputs(net, inputs)
    mx.onnx.export_model(
        net, None, [a.shape for a in inputs], [a.dtype for a in inputs], file, **options
    )
    block = mx.onnx.import_to_gluon(file, mx.cpu())
    for given in (inputs, *others):
        for g, w in zip(outputs(block, given), outputs(net, given), strict=True):
            assert g.shape == w.shape and g.dtype == w.dtype
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)
    return block


def test_images(tmp_path):
    batch = {"dynamic": True, "dynamic_input_shapes": [(None, 3, 8, 8)]}
    net = small_images()
    comes_back(
        net, tmp_path / "net.onnx", normal(2, 3, 8, 8), others=[[normal(3, 3, 8, 8)]], **batch
    )
    symbol, args, auxs = mx.contrib.onnx.import_model(tmp_path / "net.onnx")
    assert len(auxs) == 2 and set(symbol.list_arguments()) == {"data", *args}
    assert mx.contrib.onnx.get_model_metadata(tmp_path / "net.onnx") == {
        "input_tensor_data": [("data", (0, 3, 8, 8), TensorProto.FLOAT)],
        "output_tensor_data": [(symbol.name, (0, 5))],
    }


def test_as_module(tmp_path):
    """The symbol runs in MXNet 1.x's way, and its file is one that MXNet reads."""
    net = small_images()
    x = normal(2, 3, 8, 8)
    want = net(x).asnumpy()
    mx.onnx.export_model(net, None, [(2, 3, 8, 8)], onnx_file_path=tmp_path / "net.onnx")
    symbol, args, auxs = mx.onnx.import_model(tmp_path / "net.onnx")
    again = mx.sym.fromjson(symbol.tojson())
    executor = again._bind(mx.cpu(), {"data": x.as_nd_ndarray(), **args}, aux_states=auxs)
    np.testing.assert_allclose(executor.forward()[0].asnumpy(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer, bidirectional", [("LSTM", True), ("GRU", False), ("RNN", False)])
def test_recurrent(tmp_path, layer, bidirectional):
    net = initialized(
        Alone(getattr(mx.gluon.rnn, layer)(6, num_layers=2, bidirectional=bidirectional))
    )
    free = {"dynamic": True, "dynamic_input_shapes": [(None, None, 4)]}
    comes_back(net, tmp_path / "net.onnx", normal(5, 3, 4), others=[[normal(2, 7, 4)]], **free)


def test_transformer(tmp_path):
    lengths = mx.np.array([5.0, 3.0])
    others = [[tokens(3, 4), mx.np.array([1.0, 4.0, 2.0])]]
    comes_back(
        initialized(Encoder()),
        tmp_path / "net.onnx",
        tokens(2, 5),
        lengths,
        others=others,
        dynamic=True,
    )


def test_weights_that_are_read_train(tmp_path):
    net = small_images()
    x = normal(2, 3, 8, 8)
    block = comes_back(net, tmp_path / "net.onnx", x)
    trainer = mx.gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 1e-4})
    with mx.autograd.record():
        loss = (block(x) ** 2).sum()
    before = loss.item()
    loss.backward()
    trainer.step(2)
    assert (block(x) ** 2).sum().item() < before


# ---- PyTorch's files --------------------------------------------------------------------------------


def tensor(path):
    found = TensorProto()
    found.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(found)


def numbered(folder, kind):
    return [
        tensor(p)
        for p in sorted(folder.glob(f"{kind}_*.pb"), key=lambda p: int(p.stem.rpartition("_")[2]))
    ]


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(p, id=p.name, marks=[] if p.name.endswith(USUAL) else [pytest.mark.slow])
        for p in OF_PYTORCH
    ],
)  # fmt: skip
def test_of_pytorch(folder):
    if folder.name in REFUSED:
        with pytest.raises(errors.MXNetNotImplementedError, match=REFUSED[folder.name]):
            mx.onnx.import_model(folder / "model.onnx")
        return
    block = mx.onnx.import_to_gluon(folder / "model.onnx", mx.cpu())
    for data in sorted(folder.glob("test_data_set_*")):
        given = [mx.np.array(a, dtype=a.dtype) for a in numbered(data, "input")]
        for g, w in zip(outputs(block, given), numbered(data, "output"), strict=True):
            assert g.shape == w.shape
            np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-5)


# ---- rows there and back --------------------------------------------------------------------------------


@pytest.mark.slow  # a thousand graphs
def test_rows_come_back():
    for name in sorted(exported()):
        op = ROWS[name]
        for k, case in enumerate(op.tests.samples):
            node, feed = node_of(op, case, k)
            try:
                model, given = written(node, feed, 18, ("in_parameters",) if name == "rnn" else ())
            except errors.MXNetNotImplementedError:
                continue  # test_rows knows which
            if not given:
                continue
            results = run(
                [(node, j) for j in range(node.count())],
                {v: array(a, dtype=a.dtype) for v, a in feed.items()},
            )
            if any(n.op_type == "NonMaxSuppression" for n in model.graph.node):
                try:
                    GraphProto().from_onnx(model.graph, 18)
                except (
                    errors.MXNetNotImplementedError
                ) as error:  # how many classes there are, in some
                    assert "computed where the network runs" in str(error)
                    continue
            block = GraphProto().graph_to_gluon(model.graph, mx.cpu(), 18)
            got = outputs(block, [mx.np.array(a, dtype=a.dtype) for a in given.values()])
            for g, w in zip(got, [a.asnumpy() for a in results], strict=True):
                assert g.shape == w.shape and g.dtype == w.dtype, (name, k)
                np.testing.assert_allclose(g, w, rtol=2e-4, atol=2e-5, err_msg=f"{name} {k}")


# ---- single nodes, and errors ------------------------------------------------------------------------------


def graph_of(nodes, shapes, numbers=(), outs=("y",), opset=17):
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    outputs_ = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outs]
    tensors = [numpy_helper.from_array(np.asarray(v), n) for n, v in dict(numbers).items()]
    graph = helper.make_graph(nodes, "test", inputs, outputs_, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def test_same_padding():
    """auto_pad, with more after than before, for a stride of 2."""
    x, weight = np.arange(16, dtype="float32").reshape(1, 1, 4, 4), np.ones((1, 1, 3, 3), "float32")
    node = helper.make_node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2])
    block = mx.onnx.import_to_gluon(graph_of([node], {"x": (1, 1, 4, 4)}, {"w": weight}))
    (got,) = outputs(block, [mx.np.array(x)])
    padded = np.pad(x[0, 0], ((0, 1), (0, 1)))
    want = [[padded[i : i + 3, j : j + 3].sum() for j in (0, 2)] for i in (0, 2)]
    np.testing.assert_allclose(got[0, 0], want)


def test_shared_and_computed_weights():
    """What depends on parameters alone is a parameter; one weight may serve twice."""
    w = np.arange(6, dtype="float32").reshape(2, 3)
    nodes = [
        helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "wt"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["y"]),
    ]
    symbol, args, _ = mx.onnx.import_model(graph_of(nodes, {"x": ("n", 3)}, {"w": w}))
    assert symbol.list_arguments() == ["x", "wt", "w"]
    np.testing.assert_array_equal(args["wt"].asnumpy(), w.T)


def test_operator_without_translation():
    node = helper.make_node("TfIdfVectorizer", ["x", "x"], ["y"], name="boxes")
    with pytest.raises(NotImplementedError, match="'boxes'.*'TfIdfVectorizer'.*no translation"):
        mx.onnx.import_model(graph_of([node], {"x": (1, 2, 4)}))
    node = helper.make_node("Odd", ["x"], ["y"], name="odd", domain="some.where")
    with pytest.raises(NotImplementedError, match="'Odd' of the domain 'some.where'"):
        mx.onnx.import_model(graph_of([node], {"x": (2,)}))


def of(nodes, outputs, constants, tmp_path, **inputs):
    """The path of a model."""
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs], constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    (tmp_path / "bad.onnx").write_bytes(model.SerializeToString())
    return tmp_path / "bad.onnx"


@pytest.mark.parametrize("read", [mx.onnx.import_model, mx.onnx.import_to_gluon])
def test_files_that_contradict_themselves(read, tmp_path):
    add = helper.make_node("Add", ["x", "w"], ["y"])
    weight = numpy_helper.from_array(np.ones(2, np.float32), "w")
    with pytest.raises(errors.FormatError, match="no node and no input gives 'z'"):
        read(of([add], ["y", "z"], [weight], tmp_path, x=(2,)))
    with pytest.raises(errors.FormatError, match="'nobody'"):
        read(of([helper.make_node("Relu", ["nobody"], ["y"])], ["y"], [], tmp_path, x=(2,)))
    weight.dims[0] = 3
    with pytest.raises(errors.FormatError, match="reshape"):
        read(of([add], ["y"], [weight], tmp_path, x=(2,)))
    weight.dims[0] = 2
    for code in (0, 99):
        weight.data_type = code
        with pytest.raises(errors.FormatError, match="damaged"):
            read(of([add], ["y"], [weight], tmp_path, x=(2,)))
    with pytest.raises(errors.FormatError, match="no element type 99"):
        read(of([helper.make_node("Cast", ["x"], ["y"], to=99)], ["y"], [], tmp_path, x=(2,)))


@pytest.mark.parametrize(
    "kind, constants, attrs",
    [
        ("Expand", [np.ones(1, np.float32), np.array([1 << 20, 1 << 20])], {}),
        ("Tile", [np.ones((2, 2), np.float32), np.array([1 << 20, 1 << 20])], {}),
        ("Range", [np.array(0), np.array(1 << 40), np.array(1)], {}),
        ("Pad", [np.ones(1, np.float32), np.array([0, 1 << 40])], {}),
        ("Pad", [np.ones((2, 3), np.float32), np.array([0, 1, 4653056, 1])], {}),
        ("OneHot", [np.array([1]), np.array(1 << 40), np.array([0.0, 1.0], np.float32)], {}),
        ("MatMul", [np.ones((1 << 16, 1), np.float32), np.ones((1, 1 << 16), np.float32)], {}),
        ("Add", [np.ones((1 << 16, 1), np.float32), np.ones((1, 1 << 16), np.float32)], {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_few_bytes_do_not_become_large_arrays(kind, constants, attrs, tmp_path):
    given = [numpy_helper.from_array(value, f"c{k}") for k, value in enumerate(constants)]
    node = helper.make_node(kind, [t.name for t in given], ["y"], **attrs)
    path = of([node], ["y"], given, tmp_path, x=(2,))
    tracemalloc.start()
    try:
        if kind == "Range":
            with pytest.raises(errors.MXNetMemoryError, match="constants"):
                mx.onnx.import_model(path)
        else:  # it stays a node: who runs it hears of the memory
            _, arrays, _ = mx.onnx.import_model(path)
            assert sum(each.size for each in arrays.values()) <= sum(
                each.size for each in constants
            )
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_damaged_files(tmp_path):
    for raw in (b"", b"no ONNX", np.random.RandomState(0).bytes(1000)):
        (tmp_path / "bad.onnx").write_bytes(raw)
        with pytest.raises(errors.FormatError, match="bad.onnx"):
            mx.onnx.import_model(tmp_path / "bad.onnx")
    with pytest.raises(OSError, match="none.onnx"):
        mx.onnx.import_model(tmp_path / "none.onnx")


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("kind", ["LpPool", "GlobalLpPool"])
def test_norms_of_windows_are_of_absolute_values(kind, order, tmp_path):
    """ONNX's; MXNet's pooling keeps the signs of odd powers, and is a sum where the order is 1."""
    attrs = {"kernel_shape": [2, 2]} if kind == "LpPool" else {}
    shapes = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", [1, 1, 2, 2]), ("y", None))
    ]
    graph = helper.make_graph(
        [helper.make_node(kind, ["x"], ["y"], p=order, **attrs)], "g", shapes[:1], shapes[1:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    x = np.array([[[[1, -2], [-3, 0.5]]]], "float32")
    found = mx.onnx.import_to_gluon(tmp_path / "net.onnx")(mx.np.array(x))
    np.testing.assert_allclose(found.item(), (np.abs(x) ** order).sum() ** (1 / order), rtol=1e-6)
    net = Alone(
        lambda x: mx.npx.pooling(
            x, kernel=(2, 2), pool_type="lp", p_value=order, global_pool=kind != "LpPool"
        )
    )
    net.hybridize()
    if order < 3:
        comes_back(net, tmp_path / "own.onnx", mx.np.array(x))
        return
    with pytest.raises(mx.MXNetError, match="p_value=3"):
        outputs(net, [mx.np.array(x)])
        mx.onnx.export_model(net, None, [x.shape], [x.dtype], tmp_path / "own.onnx")
