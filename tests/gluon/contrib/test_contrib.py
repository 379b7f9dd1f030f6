"""Estimators and their handlers, boxes, layers that shuffle pixels."""

from __future__ import annotations

import logging
import os

import numpy as np
import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.gluon import contrib, nn
from mxjax.gluon.contrib import estimator as est
from mxjax.gluon.contrib.data.vision import transforms

boxes = transforms.bbox.utils


def data(rows=8, batch=4):
    """Two classes that a line divides."""
    x = np.cos(np.arange(rows * 3) * 1.7).reshape(rows, 3).astype("float32")
    y = (x[:, 0] > 0).astype("float32")
    return gluon.data.DataLoader(
        gluon.data.ArrayDataset(mx.np.array(x), mx.np.array(y)), batch_size=batch
    )


def make(**options):
    net = nn.Dense(2, in_units=3)
    net.initialize(mx.init.Zero())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    options.update(trainer=trainer, device=mx.current_device())
    made = est.Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), **options)
    made.logger.handlers.clear()
    return made


class Lines(logging.Handler):
    """What an estimator's logger is told."""

    def __init__(self, estimator):
        super().__init__()
        self.lines = []
        estimator.logger.addHandler(self)

    def emit(self, record):
        self.lines.append(record.getMessage())


def test_an_estimator_does_what_a_loop_by_hand_does():
    one = make()
    one.fit(data(), val_data=data(4), epochs=2)
    net = nn.Dense(2, in_units=3)
    net.initialize(mx.init.Zero())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(2):
        total = []
        for x, y in data():
            with mx.autograd.record():
                loss = loss_fn(net(x), y)
            loss.backward()
            trainer.step(x.shape[0])
            total.append(loss.asnumpy())
    np.testing.assert_allclose(
        one.net.weight.data().asnumpy(), net.weight.data().asnumpy(), rtol=1e-6
    )
    names = [m.name for m in one.train_metrics + one.val_metrics]
    assert names == [
        "training accuracy", "training SoftmaxCrossEntropyLoss", "validation accuracy",
        "validation SoftmaxCrossEntropyLoss",
    ]  # fmt: skip
    assert one.train_metrics[1].get()[1] == pytest.approx(np.mean(total), rel=1e-5)
    right = np.mean([(net(x).asnumpy().argmax(1) == y.asnumpy()).mean() for x, y in data(4)])
    assert one.val_metrics[0].get()[1] == pytest.approx(right)


def test_handlers_are_called_in_order_and_stop():
    calls = []

    class All(
        est.TrainBegin, est.TrainEnd, est.EpochBegin, est.EpochEnd, est.BatchBegin, est.BatchEnd
    ):
        def __init__(self, name, priority):
            self.name, self.priority = name, priority

        def __getattribute__(self, event):
            if event in (
                "train_begin",
                "train_end",
                "epoch_begin",
                "epoch_end",
                "batch_begin",
                "batch_end",
            ):
                return lambda estimator, **given: (
                    calls.append((self.name, event, sorted(given)))
                    or (event == "epoch_end" and self.name == "first")
                )
            return object.__getattribute__(self, event)

    one = make()
    one.fit(data(), batches=5, event_handlers=[All("second", 5), All("first", -5)])
    events = [event for name, event, _ in calls if name == "first"]
    assert events[:4] == ["train_begin", "epoch_begin", "batch_begin", "batch_end"]
    assert events[-1] == "train_end"
    assert [name for name, event, _ in calls if event == "batch_begin"][:2] == ["first", "second"]
    assert next(given for _, event, given in calls if event == "batch_end") == [
        "batch",
        "label",
        "loss",
        "pred",
    ]
    assert events.count("batch_end") == 2  # the end of the first epoch says stop


def test_logging():
    one = make()
    lines = Lines(one)
    one.fit(
        data(), val_data=data(4), epochs=1, event_handlers=est.LoggingHandler(1, one.train_metrics)
    )
    text = "\n".join(lines.lines)
    assert "using optimizer SGD with current learning rate 0.5000" in text
    assert "[Epoch 0][Batch 1][Samples 8] time/interval" in text
    assert "Validation Begin" in text and "Train finished" in text
    with pytest.raises(ValueError, match="log_interval"):
        est.LoggingHandler("never")


def test_early_stopping():
    one = make()
    one.trainer.set_learning_rate(0.0)
    lines = Lines(one)
    stop = est.EarlyStoppingHandler(one.train_metrics[1], mode="min", patience=2)
    one.fit(data(), epochs=9, event_handlers=stop)
    assert stop.stopped_epoch == 2 and stop.current_epoch == 3
    assert "early stopping due to training SoftmaxCrossEntropyLoss" in "\n".join(lines.lines)
    with pytest.warns(UserWarning, match="`less` operator"):  # a loss gets smaller
        assert est.EarlyStoppingHandler(one.train_metrics[1]).monitor_op(1, 2)
    with pytest.warns(UserWarning, match="`greater` operator"):
        assert est.EarlyStoppingHandler(one.train_metrics[0]).monitor_op(2, 1)
    with pytest.raises(ValueError, match="CompositeEvalMetric"):
        est.EarlyStoppingHandler(gluon.metric.CompositeEvalMetric())


def test_checkpoints_are_saved_and_resumed(tmp_path):
    folder = str(tmp_path / "models")
    one = make()
    save = est.CheckpointHandler(
        folder,
        monitor=one.train_metrics[1],
        mode="min",
        save_best=True,
        max_checkpoints=2,
        verbose=1,
    )
    one.fit(data(), epochs=3, event_handlers=save)
    files = sorted(os.listdir(folder))
    assert files == sorted(
        f"model-{name}.{ending}"
        for name in ("epoch1batch4", "epoch2batch6", "best")
        for ending in ("params", "states")
    )
    again = make()
    resume = est.CheckpointHandler(folder, max_checkpoints=1, resume_from_checkpoint=True)
    lines = Lines(again)
    again.fit(data(), epochs=4, event_handlers=resume)
    assert "resumed from epoch 2 batch 6" in "\n".join(lines.lines)
    assert set(files) < set(os.listdir(folder))  # those of another run are not this one's to remove
    whole = make()
    whole.fit(data(), epochs=4)
    np.testing.assert_allclose(
        again.net.weight.data().asnumpy(), whole.net.weight.data().asnumpy(), rtol=1e-5
    )
    assert "model-epoch3batch8.params" in os.listdir(folder)
    with pytest.raises(ValueError, match="maximum number of epochs"):
        make().fit(
            data(),
            epochs=4,
            event_handlers=est.CheckpointHandler(folder, resume_from_checkpoint=True),
        )
    with pytest.raises(AssertionError, match="same type of period"):
        make().fit(
            data(),
            batches=4,
            event_handlers=est.CheckpointHandler(folder, resume_from_checkpoint=True),
        )


def test_batches_are_processed_by_ones_own_class():
    class Halved(est.BatchProcessor):
        def fit_batch(self, estimator, train_batch, batch_axis=0):
            seen.append(train_batch[0].shape)
            return super().fit_batch(estimator, [x[:2] for x in train_batch], batch_axis)

    seen = []
    one = make(batch_processor=Halved())
    one.fit(data(), batches=3)
    assert seen == [(4, 3)] * 3
    with pytest.raises(ValueError, match="fit_batch"):
        make(batch_processor=object())


def test_estimators_refuse():
    net = nn.Dense(2, in_units=3)
    with pytest.raises(ValueError, match="loss must be a Loss"):
        est.Estimator(net, "loss")
    with pytest.raises(ValueError, match="Trainer must be"):
        est.Estimator(net, gluon.loss.L2Loss(), trainer="sgd")
    net = nn.Dense(2, in_units=3)
    with pytest.warns(UserWarning, match="No trainer specified"):
        one = est.Estimator(net, gluon.loss.L2Loss(), initializer=mx.init.One())
    assert net.weight.data().asnumpy().all()
    with pytest.raises(ValueError, match="DataLoader"):
        one.fit([1, 2], epochs=1)
    with pytest.raises(ValueError, match="only one of"):
        one.fit(data(), epochs=1, batches=1)
    with pytest.raises(ValueError, match="EventHandler"):
        one.fit(data(), epochs=1, event_handlers=[print])
    with pytest.raises(ValueError, match="devices must be"):
        make()._check_devices(["cpu"])
    with pytest.raises(AssertionError, match="not available"):
        make()._check_devices([mx.gpu(99)])
    with pytest.raises(ValueError, match="outside of the known"):
        make().fit(data(), epochs=1, event_handlers=est.MetricHandler([gluon.metric.Accuracy()]))


def test_pixels_are_shuffled():
    x = np.arange(2 * 12 * 2 * 3, dtype="float32").reshape(2, 12, 2, 3)
    out = nn.PixelShuffle2D((2, 3))(mx.np.array(x)).asnumpy()
    wanted = np.empty((2, 2, 4, 9), "float32")
    for i in range(2):
        for j in range(3):
            wanted[:, :, i::2, j::3] = x[:, i * 3 + j :: 6]
    assert (out == wanted).all()
    line = np.arange(8 * 3, dtype="float32").reshape(1, 8, 3)
    out = contrib.nn.PixelShuffle1D(2)(mx.np.array(line)).asnumpy()
    assert (out[0, :, 0::2] == line[0, 0::2]).all() and (out[0, :, 1::2] == line[0, 1::2]).all()
    cube = nn.PixelShuffle3D(2)
    assert cube(mx.np.zeros((1, 16, 2, 3, 4))).shape == (1, 2, 4, 6, 8)
    assert repr(cube) == "PixelShuffle3D((2, 2, 2))"
    with pytest.raises(ValueError, match="channels"):
        nn.PixelShuffle1D(3)(mx.np.zeros((1, 8, 3)))
    with pytest.raises(AssertionError, match="2 numbers"):
        nn.PixelShuffle2D((1, 2, 3))


def test_deformable_convolutions_without_offsets_are_convolutions():
    x = mx.np.array(np.cos(np.arange(2 * 4 * 5 * 6)).reshape(2, 4, 5, 6), dtype="float32")
    plain = nn.Conv2D(4, 3, strides=2, padding=1)
    plain.initialize(mx.init.Normal(0.5))
    plain(x)
    for kind in (nn.DeformableConvolution, contrib.cnn.ModulatedDeformableConvolution):
        layer = kind(4, kernel_size=3, strides=2, padding=1)
        layer.initialize()
        layer(x)
        layer.deformable_conv_weight.set_data(plain.weight.data())
        np.testing.assert_allclose(
            layer(x).asnumpy(), plain(x).asnumpy(), rtol=1e-4, atol=1e-5
        )  # masks are one
        names = ["deformable_conv_weight", "deformable_conv_bias"]
        offsets = [
            "offset_weight",
            "offset_bias",
        ]  # which MXNet 2.0.0b1 has first, but for the modulated one
        order = offsets + names if kind is nn.DeformableConvolution else names + offsets
        assert list(layer.collect_params()) == order
        layer.offset_bias.set_data(np.ones(layer.offset_bias.shape, "float32"))
        assert np.abs((layer(x) - plain(x)).asnumpy()).max() > 0.01
    assert repr(layer).startswith("ModulatedDeformableConvolution(4 -> 4, kernel_size=(3, 3)")
    with pytest.raises(AssertionError, match="layout"):
        nn.DeformableConvolution(4, layout="NCW")


def test_older_homes():
    assert list(contrib.data.IntervalSampler(5, 2)) == [0, 2, 4, 1, 3]
    assert contrib.rnn.Conv2DLSTMCell is gluon.rnn.Conv2DLSTMCell
    net = contrib.nn.HybridConcurrent(axis=1)
    net.add(contrib.nn.Identity(), contrib.nn.Identity())
    assert net(mx.np.ones((2, 3))).shape == (2, 6)


BOXES = np.array([[1.0, 2.0, 5.0, 6.0, 7.0], [4.0, 0.0, 9.0, 3.0, 8.0]])


def test_functions_of_boxes():
    assert boxes.bbox_flip(BOXES, (10, 8), flip_x=True)[0].tolist() == [5, 2, 9, 6, 7]
    assert boxes.bbox_flip(BOXES, (10, 8), flip_y=True)[1].tolist() == [4, 5, 9, 8, 8]
    assert boxes.bbox_resize(BOXES, (10, 8), (20, 4))[0].tolist() == [2, 1, 10, 3, 7]
    assert boxes.bbox_translate(BOXES, 1, 2)[0].tolist() == [2, 4, 6, 8, 7]
    assert boxes.bbox_crop(BOXES, (3, 1, 4, 4)).tolist() == [[0, 1, 2, 4, 7], [1, 0, 4, 2, 8]]
    assert boxes.bbox_crop(BOXES, (3, 1, 3, 4), allow_outside_center=False).tolist() == [
        [0, 1, 2, 4, 7]
    ]
    overlap = boxes.bbox_iou(BOXES, BOXES)
    np.testing.assert_allclose(overlap, [[1, 1 / 30], [1 / 30, 1]])
    corners = boxes.bbox_xywh_to_xyxy(np.array([[1, 2, 10, 20]]))
    assert corners.tolist() == [[1, 2, 10, 21]] and boxes.bbox_xyxy_to_xywh(corners).tolist() == [
        [1, 2, 10, 20]
    ]
    assert boxes.bbox_clip_xyxy((-1, 2, 30, 40), 20, 30) == (0, 2, 19, 29)
    assert boxes.bbox_clip_xyxy(np.array([[-1, 2, 30, 40]]), 20, 30).tolist() == [[0, 2, 19, 29]]
    with pytest.raises(IndexError, match="4 elements"):
        boxes.bbox_xyxy_to_xywh((1, 2))
    with pytest.raises(TypeError, match="list, tuple or"):
        boxes.bbox_xyxy_to_xywh("box")
    kept, (left, top, w, h) = boxes.bbox_random_crop_with_constraints(BOXES, (10, 8))
    assert 0 <= left <= left + w <= 10 and 0 <= top <= top + h <= 8 and len(kept)


def test_images_with_boxes():
    img = mx.np.array(np.arange(8 * 10 * 3).reshape(8, 10, 3), dtype="uint8")
    bbox = mx.np.array(BOXES, dtype="float32")
    vision = contrib.data.vision
    flipped, moved = vision.ImageBboxRandomFlipLeftRight(1)(img, bbox)
    assert (flipped.asnumpy() == img.asnumpy()[:, ::-1]).all() and moved[0].asnumpy().tolist() == [
        5,
        2,
        9,
        6,
        7,
    ]
    part, cut = vision.ImageBboxCrop((3, 1, 4, 4), True)(img, bbox)
    assert (part.asnumpy() == img.asnumpy()[1:5, 3:7]).all() and cut.shape == (2, 5)
    canvas, moved = vision.ImageBboxRandomExpand(1, 2, fill=(1, 2, 3))(img, bbox)
    left, top = (moved - bbox).asnumpy()[0, :2].astype(int)
    assert (canvas.asnumpy()[top : top + 8, left : left + 10] == img.asnumpy()).all()
    small, moved = vision.ImageBboxResize(20, 4)(img, bbox)
    assert small.shape == (4, 20, 3) and moved[0].asnumpy().tolist() == [2, 1, 10, 3, 7]
    part, kept = vision.ImageBboxRandomCropWithConstraints(1)(img, bbox)
    assert part.shape[2] == 3 and kept.shape[1] == 5
    assert vision.ImageBboxRandomFlipLeftRight(0)(img, bbox)[0] is img
    with pytest.raises(AssertionError, match="x_min"):
        vision.ImageBboxCrop((1, 2, 0, 3))


def test_sparse_embedding_fetches_and_updates_the_rows_of_a_batch():
    # The numbers are those of MXNet 1.9.1.
    net = contrib.nn.SparseEmbedding(10, 3)
    net.initialize(mx.init.One())
    assert repr(net) == "SparseEmbedding(10 -> 3, float32)"
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0}, kvstore="local")
    with mx.autograd.record():
        net(mx.nd.array([1, 4, 1])).sum().backward()
    trainer.step(1)
    assert net(mx.nd.array([1, 4, 2])).asnumpy().tolist() == [[-1] * 3, [0] * 3, [1] * 3]
