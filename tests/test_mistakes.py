"""What mistakes of users are told: what was expected, and what came."""

import copy
import pickle

import jax.numpy as jnp
import numpy as onp
import pytest

import mxjax as mx
from mxjax import gluon, image, metric, np, optimizer, recordio
from mxjax.gluon import loss, nn, rnn


def dense(**options):
    net = nn.Dense(2, in_units=3)
    net.initialize(**options)
    return net


def trainer():
    return gluon.Trainer(dense().collect_params(), "sgd")


def bound():
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    made = mx.mod.Module(net, label_names=None)
    made.bind([("data", (4, 5))])
    made.init_params()
    return made


SCORES = np.ones((4, 3))
MISTAKES = [
    (lambda: bound().forward([mx.nd.ones((4, 5))]), TypeError, r"DataBatch\(\[data\], .*got list of NDArray"),
    (lambda: bound().set_params({"fc_weight": mx.nd.ones((2, 2)), "fc_bias": mx.nd.ones(3)}, {}), ValueError,
     r"fc_weight: .*\(3, 5\).*\(2, 2\)"),
    (lambda: rnn.LSTM(4)(np.ones((2, 3, 4)), 5), TypeError, "LSTM takes its states as a list, .*got 5"),
    (lambda: mx.nd.Custom(mx.nd.ones(2)), TypeError, "Custom needs op_type="),
    (lambda: optimizer.SGD(lr_scheduler=3), TypeError, "lr_scheduler is called with the number of updates .*got 3"),
    (lambda: gluon.contrib.estimator.Estimator(3, loss.L2Loss()), ValueError, "net must be a Block, got 3"),
    (lambda: nn.Sequential().add(3), TypeError, r"^add takes blocks, got 3"),
    (lambda: nn.Conv2D(3), TypeError, r"^Conv2D\(channels, kernel_size, .*'kernel_size'"),
    (lambda: nn.Conv2D(3, 3, bais=1), TypeError, "^Conv2D got an unexpected keyword argument 'bais'"),
    (lambda: nn.MaxPool2D(*[2] * 8), TypeError, r"^MaxPool2D\(pool_size, .*too many positional"),
    (lambda: rnn.LSTM(4, batch_first=True), TypeError, "^LSTM got an unexpected .*'batch_first'.*layout"),
    (lambda: rnn.LSTMCell(4)(SCORES), TypeError, r"LSTMCell takes its states: .*begin_state\(batch_size\)"),
    (lambda: nn.Flatten()(np.array(3.0)), IndexError, "has fewer axes than Flatten needs"),
    (lambda: dense(device="gpu"), TypeError, r"such as mx.cpu\(\) or mx.gpu\(0\).*'gpu'"),
    (lambda: dense(device=["cpu"]), TypeError, "got the text 'cpu'"),
    (lambda: dense().setattr("grad_rq", "null"), AttributeError, "did you mean 'grad_req'"),
    (lambda: dense().collect_params().setattr("lr_mul", 2), AttributeError, "did you mean 'lr_mult'"),
    (lambda: trainer().step(0), ZeroDivisionError, "batch_size is the number .*got 0"),
    (lambda: trainer().step("4"), TypeError, "batch_size is the number .*got '4'"),
    (lambda: trainer().set_learning_rate("a"), TypeError, r"learning_rate is a number, got 'a' \(str\)"),
    (lambda: optimizer.Adam("0.1"), TypeError, "learning_rate is a number, got '0.1'"),
    (lambda: optimizer.Adam(beta1="x"), TypeError, "beta1 is a number, got 'x'"),
    (lambda: optimizer.SGD(momentum=None), TypeError, "momentum is a number, got None"),
    (lambda: optimizer.SGD(wd="1"), TypeError, "wd is a number, got '1'"),
    (lambda: loss.L2Loss()(SCORES, np.ones((4, 2))), ValueError, r"labels of shape \(4, 2\) do not fit .*\(4, 3\)"),
    (lambda: loss.L1Loss()(SCORES, np.ones(5)), ValueError, r"labels of shape \(5,\) do not fit"),
    (lambda: loss.SigmoidBCELoss()(SCORES, np.ones((5, 1))), ValueError, "do not fit predictions"),
    (lambda: loss.SoftmaxCELoss()(SCORES, [0, 1, 2, 0]), TypeError, r"labels are an array .*list: mx.np.array"),
    (lambda: loss.SoftmaxCELoss(reduction="mean"), TypeError, "^SoftmaxCrossEntropyLoss got .*'reduction'. It takes"),
    (lambda: loss.SoftmaxCELoss(sparse_label=False)(SCORES, np.ones(4)), ValueError, "class numbers are for"),
    (lambda: loss.SmoothL1Loss, AttributeError, r"gluon.loss.HuberLoss\(\)"),
    (lambda: gluon.data.ImageFolderDataset, AttributeError, "gluon.data.vision.ImageFolderDataset"),
    (lambda: metric.Accuracy().update(1, 2), TypeError, "labels are an array or a list of arrays, got int"),
    (lambda: metric.MAE().update(np.ones(2), "a"), TypeError, "predictions are an array .*got str"),
    (lambda: image.resize_short(np.ones((4, 4)), 2), ValueError, r"\(height, width, channels\), got \(4, 4\)"),
    (lambda: image.CreateAugmenter((8, 8)), ValueError, r"data_shape is \(channels, height, width\), got \(8, 8\)"),
    (lambda: mx.mod.Module(nn.Dense(2)), TypeError, "a Module computes a symbol, got Dense"),
    (lambda: mx.mon.Monitor(0), ValueError, "interval is a number of batches, 1 or more, got 0"),
    (lambda: mx.io.ResizeIter(3, 2), TypeError, "ResizeIter takes a DataIter, .*got int"),
    (lambda: mx.io.PrefetchingIter(3), TypeError, "PrefetchingIter takes a DataIter, .*got int"),
    (lambda: mx.mod.BucketingModule(lambda key: mx.sym.var("data"), default_bucket_key=3), TypeError,
     "sym_gen gives a symbol, the names .*got Symbol"),
    (lambda: mx.model.FeedForward(mx.sym.var("data")).predict(np.ones((2, 3))), AssertionError, "no parameters yet"),
    (lambda: optimizer.SGD(momentum=0.9).update(0, mx.nd.ones(2), mx.nd.ones(3), mx.nd.ones(2)), ValueError,
     "a gradient has the shape of its weight"),
    (lambda: optimizer.Adam().update(0, mx.nd.ones(2), mx.nd.ones(2), None), ValueError, "which create_state"),
    (lambda: mx.nd.swapaxes(mx.nd.ones((2, 2)), 0, 5), ValueError, "axis 5 is out of bounds for an array of 2 axes"),
    (lambda: mx.nd.BatchNorm(mx.nd.ones((2, 3)), mx.nd.ones(2), *[mx.nd.ones(3)] * 3), ValueError,
     r"Provided = \[2\], inferred shape=\[3\]: gamma"),
    (lambda: mx.nd.CTCLoss(mx.nd.ones((3, 2, 4)), mx.nd.ones((3, 2))), ValueError, "different lengths, 3 and 2"),
    (lambda: gluon.utils.clip_global_norm(SCORES, 1), TypeError, r"clip_global_norm\(\[x\], max_norm\)"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "kind", "told"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_told(wrong, kind, told):
    with pytest.raises(kind, match=told) as raised:
        wrong()
    assert isinstance(raised.value, mx.MXNetError)


def test_a_number_is_no_record(tmp_path):
    with recordio.MXRecordIO(str(tmp_path / "a.rec"), "w") as out:
        for wrong in (3, "text"):
            with pytest.raises(TypeError, match=f"a record is bytes, got {type(wrong).__name__}"):
                out.write(wrong)


def test_what_is_right_is_taken():
    optimizer.SGD(
        learning_rate=onp.float32(0.1),
        wd=onp.array(0.1),
        momentum=jnp.float32(0.9),
        clip_gradient=None,
    )
    optimizer.Adam(learning_rate=None)
    net = dense()
    net.setattr("a_mark_of_a_program", 3)
    assert net.weight.a_mark_of_a_program == 3
    loss.L2Loss(prefix="a_")
    labels = onp.array([0, 1, 2, 0])  # of NumPy or JAX
    for given in (labels, jnp.asarray(labels)):
        assert loss.SoftmaxCELoss()(SCORES, given).shape == (4,)
        assert loss.L2Loss()(SCORES[:, 0], given).shape == (4,)
    for made in (nn.Conv2D(2, 3), rnn.LSTM(4)):
        assert repr(copy.copy(made)) == repr(copy.deepcopy(made)) == repr(made)

    class Own(loss.Loss):  # what a program's own class takes is its own affair
        def __init__(self, **kwargs):
            self.share = kwargs.pop("share")
            super().__init__(None, 0, **kwargs)

    assert Own(share=2).share == 2
    assert pickle.loads(pickle.dumps(optimizer.SGD(0.5))).lr == 0.5


def test_a_schedule_is_any_function_of_the_number_of_updates():
    made = optimizer.SGD(learning_rate=0.1, lr_scheduler=lambda update: 1 / (1 + update))
    weight = np.array([1.0])
    made.update(0, weight, np.array([1.0]), made.create_state(0, weight))
    assert weight.item() == 0.5 and made.learning_rate == 0.5
