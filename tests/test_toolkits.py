"""What toolkits of MXNet's time did beside the common ways; the values are MXNet 1.9.1's and 2.0.0b1's, which agree."""

import re

import numpy as np
import pytest

import mxjax as mx
from mxjax import gluon, nd
from mxjax.gluon import nn
from mxjax.gluon.contrib.data.vision.transforms import bbox as boxes
from mxjax.port.older_names import BY_NAME

IMAGE = np.arange(72, dtype="float32").reshape(1, 2, 6, 6)


@pytest.mark.parametrize(
    ("region", "scale", "found"),
    [
        ([0, 1, 1, 5, 5], 0.5, [14, 15, 20, 21, 50, 51, 56, 57]),
        ([0, 3, 1, 5, 3], 0.5, [8, 9, 14, 15, 44, 45, 50, 51]),
        ([0, -1, -1, -3, -3], 0.5, [0, 0, 0, 0, 0, 0, 0, 0]),
        ([0, 0.5, 1.5, 2.5, 4.5], 1.0, [20, 21, 32, 33, 56, 57, 68, 69]),
        ([0, 2, 2, 4, 4], 1.0, [21, 22, 27, 28, 57, 58, 63, 64]),
    ],
)
def test_corners_of_regions_are_rounded_as_c_rounds(region, scale, found):
    out = nd.ROIPooling(
        nd.array(IMAGE), nd.array([region]), pooled_size=(2, 2), spatial_scale=scale
    )
    np.testing.assert_array_equal(out.asnumpy().ravel(), found)


def test_corners_of_position_sensitive_regions():
    data, region = nd.arange(288).reshape((1, 8, 6, 6)), nd.array([[0, 0.5, 1.5, 2.5, 4.5]])
    options = {"spatial_scale": 0.5, "output_dim": 2, "pooled_size": 2}
    found = nd.contrib.PSROIPooling(data, region, **options).asnumpy().ravel()
    np.testing.assert_allclose(found, [6.5, 43, 84.5, 121, 150.5, 187, 228.5, 265])
    options |= {"group_size": 2, "sample_per_part": 2, "trans_std": 0.1}
    found = nd.contrib.DeformablePSROIPooling(data, region, nd.zeros((1, 2, 2, 2)), **options)
    np.testing.assert_allclose(
        found[0].asnumpy().ravel(),
        [4.6875, 41.4375, 82.6875, 119.4375, 148.6875, 185.4375, 226.6875, 263.4375],
    )


@pytest.mark.parametrize(
    ("second", "attributes", "within"),
    [
        (None, {"h_w": (3, 3), "offset": (2, 2)}, True),
        (None, {"h_w": (3, 3), "offset": (3, 0)}, False),
        (None, {"h_w": (3, 3), "offset": (-1, 0)}, False),
        (None, {"h_w": (6, 6), "center_crop": True}, False),
        (None, {}, False),
        ((1, 2, 4, 4), {"offset": (1, 1)}, True),
        ((1, 2, 4, 4), {"offset": (1, 2)}, False),
        ((1, 2, 6, 2), {}, False),
    ],
)
def test_a_crop_lies_within_the_image(second, attributes, within):
    arrays = [nd.array(np.arange(50).reshape(1, 2, 5, 5))]
    arrays += [] if second is None else [nd.zeros(second)]
    if not within:  # it was cut smaller, in silence
        with pytest.raises(mx.MXNetError, match="within the image"):
            nd.Crop(*arrays, num_args=len(arrays), **attributes).asnumpy()
        return
    (height, width), (y, x) = attributes.get("h_w") or second[2:], attributes["offset"]
    np.testing.assert_array_equal(
        nd.Crop(*arrays, num_args=len(arrays), **attributes).asnumpy(),
        arrays[0].asnumpy()[:, :, y : y + height, x : x + width],
    )


def test_a_metric_that_names_global_sums_and_keeps_none():
    class Each(mx.metric.EvalMetric):
        def reset(self):
            self.num_inst, self.sum_metric = [0, 0], [0.0, 0.0]
            self.global_num_inst, self.global_sum_metric = 0, 0.0

        def update(self, labels, preds):
            for i, pred in enumerate(preds):
                self.sum_metric[i] += float(pred.sum().asscalar())
                self.num_inst[i] += 1

        def get(self):
            pairs = zip(self.sum_metric, self.num_inst, strict=True)
            return ["a", "b"], [s / max(1, n) for s, n in pairs]

    metric = Each("each")
    metric.update(None, [nd.ones((3,)), nd.ones((4,))])
    assert metric.get_global() == metric.get() == (["a", "b"], [3.0, 4.0])
    assert metric.get_global_name_value() == [("a", 3.0), ("b", 4.0)]


def test_attributes_of_an_operator_may_be_anything():
    made = mx.sym.FullyConnected(
        mx.sym.var("x"),
        num_hidden=3,
        name="c",
        attr={"__lr_mult__": 2.0, "__init__": mx.init.Zero()},
    )
    assert made.attr_dict()["c_weight"]["__lr_mult__"] == "2.0"
    module = mx.mod.Module(made, ["x"], None)
    module.bind([("x", (2, 4))])
    module.init_params(mx.init.One())
    assert module.get_params()[0]["c_weight"].asnumpy().sum() == 0
    with pytest.raises(ValueError, match="only accepts string values"):
        mx.sym.var("y", attr={"a": 2})


class _Named(nn.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.cls = nn.Dense(2)


@pytest.mark.parametrize(
    ("version", "select", "count"),
    [("1.9", ".*cls", 0), ("1.9", ".*dense", 2), ("2.0", ".*cls", 2), ("2.0", ".*dense", 2)],
)
def test_parameters_are_selected_by_long_names(version, select, count):
    with mx.config.scope(compat_version=version):
        assert len(_Named(prefix="net_").collect_params(select)) == count


def test_dtypes_as_they_were_given():
    texts = [repr(layer.weight).split("dtype=")[1] for layer in (nn.Conv2D(2, 3), nn.Dense(2))]
    assert texts == ["<class 'numpy.float32'>)", "float32)"]
    layer = nn.Dense(2, dtype=np.float16)
    assert repr(layer.weight).endswith("dtype=<class 'numpy.float16'>)")
    layer.cast("float64")
    assert repr(layer.weight).endswith("dtype=float64)") and layer.weight.dtype == "float64"


def test_what_a_synchronised_norm_shows():
    layer = gluon.nn.SyncBatchNorm(in_channels=4, num_devices=2)
    told = (
        r"SyncBatchNorm\(eps=1e-05, momentum=0.9, fix_gamma=False, use_global_stats=False, ndev=2, "
        r"key=UUID\('[0-9a-f-]{36}'\), in_channels=4\)"
    )
    assert re.fullmatch(told, repr(layer))
    assert repr(layer) == repr(layer) != repr(gluon.nn.SyncBatchNorm(in_channels=4, num_devices=2))


class _Tied(nn.HybridBlock):
    def __init__(self):
        super().__init__()
        self.embed, self.body = nn.Embedding(5, 3), nn.Dense(3, in_units=3)
        self.out = nn.Dense(5, in_units=3, use_bias=False).share_parameters(
            {"weight": self.embed.weight}
        )


def test_a_shared_parameter_is_written_under_its_last_name(tmp_path):
    net = _Tied()
    net.initialize()
    net.save_parameters(str(tmp_path / "a"), deduplicate=True)
    assert sorted(nd.load(str(tmp_path / "a"))) == ["body.bias", "body.weight", "out.weight"]
    other = _Tied()
    other.load_parameters(str(tmp_path / "a"))
    np.testing.assert_array_equal(other.embed.weight.data(), net.embed.weight.data())


@pytest.mark.parametrize("name", ["SDMLLoss", "ImageBboxResize", "ImageBboxCrop"])
@pytest.mark.parametrize("kind", [nd, mx.np])
def test_arrays_come_back_of_the_kind_that_was_given(kind, name):
    if name == "SDMLLoss":
        found = [
            gluon.loss.SDMLLoss()(kind.array([[1.0, 2], [3, 4]]), kind.array([[2.0, 1], [0, 1]]))
        ]
        np.testing.assert_allclose(found[0].asnumpy(), [0.04114071, 2.49473476], rtol=1e-4)
    else:
        arguments = {"ImageBboxResize": (4, 6), "ImageBboxCrop": ((1, 1, 3, 3),)}[name]
        found = getattr(boxes, name)(*arguments)(
            kind.zeros((8, 8, 3), dtype="uint8"), kind.array([[1.0, 1, 4, 4, 0]])
        )
    assert {type(array) for array in found} == {type(kind.zeros(1))}


def test_a_parameter_made_of_one_that_waits():
    class Copy(gluon.Parameter):
        def __init__(self, p):
            self._deferred_init = p._deferred_init
            super().__init__(p.name, shape=p._shape, allow_deferred_init=p._allow_deferred_init)

    layer = nn.Dense(2)
    layer.initialize()
    made = Copy(layer.weight)
    assert made._deferred_init == () and layer.weight._deferred_init
    made._deferred_init = layer.weight._deferred_init
    made.shape = (2, 3)
    made._finish_deferred_init()
    assert made.data().shape == (2, 3)


def test_older_names_of_a_module_that_its_package_does_not_hold_yet(monkeypatch):
    image = pytest.importorskip("PIL.Image")
    monkeypatch.delattr("PIL.Image")  # as while `from PIL import Image` runs for the first time
    assert BY_NAME["PIL.Image", "ANTIALIAS"].give() == image.LANCZOS


def test_options_of_hybridize_in_both_generations():
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.hybridize(True, True, True)  # MXNet 2: partition_if_dynamic, static_alloc
    net.hybridize(active=True, partition_if_dynamic=False, static_alloc=True, inline_limit=2)
    net.hybridize(True, None, clear=False)  # MXNet 1.9: backend
    assert net(nd.ones((1, 3))).shape == (1, 2)
    with pytest.raises(ValueError, match="no option 'static_alocc'"):
        net.hybridize(static_alocc=True)


def test_a_programs_own_loss_scale():
    scaler = mx.amp.loss_scaler.LossScaler()
    assert (scaler._loss_scale, scaler._next_loss_scale, scaler._unskipped) == (2**16, 2**16, 0)
    scaler._loss_scale = scaler._next_loss_scale = 128
    scaler._scale_seq_len = 2
    assert scaler.loss_scale == 128
    p = gluon.Parameter("w", shape=(2,))
    p.initialize()
    found = []
    for value in (1.0, np.inf, 1.0, 1.0, 1.0):
        p.grad()[:] = value
        found += [
            (
                scaler.has_overflow([p]),
                scaler._loss_scale,
                scaler._next_loss_scale,
                scaler._unskipped,
            )
        ]
    assert found == [
        (False, 128, 128, 1), (True, 128, 64, 0), (False, 64, 64, 1), (False, 64, 128, 0), (False, 128, 128, 1),
    ]  # fmt: skip


def test_a_variable_that_nobody_asked_for():
    p = gluon.Parameter("w", shape=(2,))
    assert p._var is None and p.var() is p._var


def test_arrays_put_in_the_place_of_a_parameters():
    net = nn.Dense(2, in_units=2, use_bias=False)
    net.initialize()
    net.weight._data[0] = nd.array([[1.0, 2], [3, 4]])
    assert net(nd.ones((1, 2))).asnumpy().tolist() == [[3, 7]]
    net.weight._grad[:] = [nd.ones((2, 2)) * 5]
    assert net.weight.grad().asnumpy().sum() == 20
    net.weight.name = "other"
    assert net.weight.name == "other"
