"""The examples of the pages that MXNet, MegEngine and Ascend have of their settings.

`tests/data/setting_examples.json` has for each variable of MXNet's and MegEngine's pages the values that they name (the
default, the choices, the ends of ranges), and what Ascend's documents give to NPURunConfig, the files that they name
with their contents.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.gluon import nn
from mxjax.settings import RunConfig, SettingError
from mxjax.settings.registry import Registry
from mxjax.settings.rows import OPTIONS

EXAMPLES = json.loads((Path(__file__).parents[1] / "data" / "setting_examples.json").read_text())
ASCEND = EXAMPLES["ascend"]


def written(given, folder):
    """The options, with the files they name in a folder."""
    found = {}
    for name, value in given.items():
        if isinstance(value, dict) and value.keys() == {"file", "text"}:
            path = folder / value["file"]
            path.write_text(value["text"])
            value = str(path)
        elif isinstance(value, dict) and "dump_path" in value:
            value = {**value, "dump_path": str(folder)}
        found[name] = value
    return found


def test_there_are_all_of_them():
    assert len(ASCEND) >= 46
    old = {legacy.name for row in OPTIONS for legacy in row.legacy}
    ours = {name for each in ASCEND for name in each}
    assert ours | set(EXAMPLES["environment"]) <= old
    assert len(EXAMPLES["environment"]) > 85


@pytest.mark.parametrize("name", EXAMPLES["environment"])
def test_values_of_a_variables_page_are_taken(name):
    row = next(row for row in OPTIONS if name in row.variables)
    for text in EXAMPLES["environment"][name]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            registry = Registry(OPTIONS, {name: text}, late=True)
            registry.get(row.name)
        assert registry.sources(row.name)[0].source == name


@pytest.mark.parametrize("given", ASCEND, ids=lambda given: ",".join(given))
def test_examples_of_npurunconfig_are_taken(given, tmp_path):
    options = written(given, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = RunConfig(**options)
        assert len(run) == len(given)
        rows = {row.name: row for row in OPTIONS}
        if all(rows[name].applies not in ("backend-init", "import") for name in run):
            with run:  # listeners look at names of operators, passes and so on
                for name, value in run.items():
                    assert mx.config.get(name) == value


def test_customize_dtypes_counts_but_for_its_integers(tmp_path):
    first, second = [e for e in ASCEND if "customize_dtypes" in e]
    with pytest.warns(
        UserWarning, match="Relu: int8 changes nothing, float16 counts.*contrib.quantization"
    ):
        run = RunConfig(**written(first, tmp_path))
    assert {k: v[0] for k, v in run["precision.op_dtypes"].items()} == {
        "Relu": "float16", "resnet_v1_50/block1/unit_3/bottleneck_v1/Relu": "float16"}  # fmt: skip
    with pytest.warns(
        UserWarning, match="MatMul: int8 changes nothing: operators compute in floats"
    ):
        run = RunConfig(**written(second, tmp_path))
    assert dict(run["precision.op_dtypes"]) == {"Conv2D": ("float32",)}
    (tmp_path / "more.cfg").write_text("OpType::MatMul:InputDtype:float12,OutputDtype:float12\n")
    with pytest.raises(SettingError, match="'float12' is none of"):
        RunConfig(customize_dtypes=str(tmp_path / "more.cfg"))


@pytest.mark.observes("customize_dtypes")
def test_customize_dtypes_computes_in_what_it_says(tmp_path):
    (tmp_path / "dtypes.cfg").write_text(
        "OpType::MatMul:InputDtype:float16,int8,OutputDtype:float16\n"
    )
    x = mx.np.array(np.full((1, 2), 1 + 2.0**-12, "float32"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with mx.config.scope(customize_dtypes=str(tmp_path / "dtypes.cfg")):
            assert mx.np.dot(x, x.T).item() == 2.0
    assert mx.np.dot(x, x.T).item() > 2.0


def test_op_precision_mode_takes_all_its_words(tmp_path):
    given = next(written(e, tmp_path) for e in ASCEND if "op_precision_mode" in e)
    run = RunConfig(**given)
    assert {k: v[0] for k, v in run["precision.op_impl"].items()} == {
        "MatMul": "high_precision", "Conv2D": "high_performance", "SoftmaxV2": "enable_hi_float_32_execution",
        "GatherV2": "support_out_of_bound_index", "resnet/logits/MatMul": "high_precision",
        "/logits": "enable_float_32_execution",
    }  # fmt: skip
    with run:  # as ever, nothing is read beyond an array
        x = mx.np.arange(4)
        assert mx.np.take(x, mx.np.array([2, 9], dtype="int32"), mode="clip").tolist() == [2, 3]


@pytest.mark.parametrize("text, want", [
    ("getnext:[128 ,3~5, 2~128, -1],[64];data:[1]", [[(128, 128), (3, 5), (2, 128), (0, None)], [(64, 64)], [(1, 1)]]),
    ("data:[1];getnext:[2],[3]", [[(2, 2)], [(3, 3)], [(1, 1)]]),
    ("getnext:[3,-1]", [[(3, 3), (0, None)]]),
    ("[3,-1],[]", [[(3, 3), (0, None)], []]),
])  # fmt: skip
def test_ranges_of_shapes_come_with_names(text, want):
    got = RunConfig(dynamic_inputs_shape_range=text)["compiler.shape_ranges"]
    assert [list(shape) for shape in got] == want


@pytest.mark.parametrize("text, says", [
    ("image:[3]", "inputs are called getnext and data.*got 'image'"), ("getnext:[3];getnext:[4]", "expected shapes"),
    ("getnext:3", "expected shapes"), ("", "expected shapes"), ("data:[5~3]", "expected"),
])  # fmt: skip
def test_other_names_and_texts_are_refused(text, says):
    with pytest.raises(SettingError, match=says):
        RunConfig(dynamic_inputs_shape_range=text)


@pytest.mark.observes("dynamic_inputs_shape_range")
def test_ranges_with_names_hold_for_a_block():
    class Add(gluon.HybridBlock):
        def forward(self, a, b):
            return a.sum() + b.sum()

    net = Add()
    net.hybridize()
    with mx.config.scope(dynamic_inputs_shape_range="getnext:[2~4,-1];data:[3]"):
        assert net(mx.np.ones((2, 5)), mx.np.ones(3)).item() == 13
        with pytest.raises(
            ValueError, match=r"shape \(5,\), and compiler.shape_ranges allows \[3\]"
        ):
            net(mx.np.ones((2, 5)), mx.np.ones(5))


@pytest.mark.observes("iterations_per_loop")
def test_a_thousand_steps_may_be_one_program():
    net = nn.Dense(1, in_units=2)
    net.initialize(mx.init.Zero())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.001})
    x = mx.np.ones((1, 2))
    mx.waitall()
    before = mx.engine.stats()["segments"]
    with mx.config.scope(iterations_per_loop=1000):
        for _ in range(1000):
            with mx.autograd.record():
                loss = net(x).sum()
            loss.backward()
            trainer.step(1)
        mx.waitall()
    assert mx.engine.stats()["segments"] - before < 20
    np.testing.assert_allclose(
        net.weight.data().asnumpy(), [[-1.0, -1.0]], rtol=1e-3
    )  # 1000 steps of 0.001 * 1
    np.testing.assert_allclose(net.bias.data().asnumpy(), [-1.0], rtol=1e-3)


def test_a_scope_that_is_refused_leaves_nothing():
    with pytest.raises(SettingError, match="there is no operator"):
        with mx.config.scope(precision_op_dtypes={"no_such_operator": "float16"}):
            pass
    assert mx.config.get("precision.op_dtypes") == {}
    with mx.config.scope(enable_small_channel=1):  # whose listener looks at all of them
        pass
