"""The commonest mistakes, and those of people who come from PyTorch: each error names the mend."""

import os
import re
import subprocess
import sys

import pytest

import mxjax as mx
from mxjax import autograd, gluon, nd, np, npx
from mxjax.display import elsewhere
from mxjax.gluon import nn, rnn

X = np.ones((2, 3))
AT = (mx.MXNetError, AttributeError)


def made(block):
    block.initialize()
    return block


def trainer(*args):
    return gluon.Trainer(made(nn.Dense(3, in_units=2)).collect_params(), *args)


MISTAKES = [
    (lambda: made(rnn.LSTM(4))(X), "rank-3 tensor", "x.expand_dims(1)"),
    (lambda: made(rnn.GRU(4))(X), "rank-3 tensor", "rnn.GRUCell"),
    (lambda: made(nn.Conv2D(4, 3))(np.ones((3, 8, 8))), "4D in batch-num_filter-y-x", "x.expand_dims(0)"),
    (lambda: made(nn.BatchNorm())(np.ones(3)), "no axis 1", "x.expand_dims(0)"),
    (lambda: gluon.loss.SoftmaxCELoss()(X, np.eye(3)[:2]), "one-hot", "sparse_label=False"),
    (lambda: gluon.Trainer(nn.Dense(3), "sgd"), "list or dict of Parameters", "net.collect_params()"),
    (lambda: trainer("sgd", {"lr": 0.1}), "no option 'lr'", "learning_rate"),
    (lambda: trainer("adam", {"weight_decay": 0.1}), "no option", "wd"),
    (lambda: trainer("sdg"), "Cannot find optimizer", "did you mean 'sgd'"),
    (lambda: nn.Dense(3)(X), "has not been initialized", "initialize()"),
    (lambda: nn.HybridSequential(nn.Dense(3), nn.Dense(2)), "takes no blocks", "net.add(Dense(...), Dense(...))"),
    (lambda: X.sum().backward(), "not in a computational graph", "autograd.record()"),
    (lambda: np.transpose(X, (0, 1, 2)), "Repeated axis in transpose", "has 2"),
    (lambda: np.transpose(X, (0,)), "do not match", "name each of its 2 once"),
    (lambda: np.sum(X, axis=5), "Exceeds input dimensions", "axes -2 ... 1"),
    (lambda: bool(X), "ambiguous", "x.all(), x.any()"),
    (lambda: X.astype("float23"), "not understood", "float32"),
    (lambda: gluon.metric.create("accurracy"), "not registered", "did you mean 'accuracy'"),
    (lambda: nn.Dense(3, in_units=2).initialize("xaveir"), "not registered", "did you mean 'xavier'"),
    (lambda: gluon.data.DataLoader([1, 2]), "batch_size", "must be given"),
    (lambda: np.softmax, "no attribute 'softmax'", "it is mx.npx.softmax"),
    (lambda: np.waitall, "no attribute", "it is mx.npx.waitall"),
    (lambda: np.FullyConnected, "no attribute", "it is mx.npx.fully_connected"),
    (lambda: np.norm, "no attribute", "it is mx.npx.norm"),
    (lambda: npx.sum, "no attribute", "it is mx.np.sum"),
    (lambda: nd.matmul, "no attribute", "it is mx.np.matmul"),
    (lambda: np.tensor, "no attribute", "np.array"),
    (lambda: nd.softmaxx, "no attribute", "did you mean 'softmax'"),
    (lambda: nn.Linear, "no attribute", "nn.Dense(units)"),
    (lambda: nn.Module, "no attribute", "nn.HybridBlock"),
    (lambda: nn.LSTM, "no attribute", "it is mx.gluon.rnn.LSTM"),
    (lambda: nn.CrossEntropyLoss, "no attribute", "SoftmaxCrossEntropyLoss"),
    (lambda: autograd.no_grad, "no attribute", "autograd.pause()"),
    *[(lambda n=n: getattr(nn.Dense(3), n), "'Dense' object has no attribute", elsewhere.BLOCKS[n])
      for n in ("parameters", "train", "eval", "to", "state_dict", "modules")],
    *[(lambda n=n: getattr(X, n), "'ndarray' object has no attribute", elsewhere.ARRAYS[n])
      for n in ("numpy", "to", "cuda", "view", "permute", "unsqueeze", "requires_grad_", "float", "numel")],
    (lambda: X.asnumppy(), "no attribute", "did you mean 'asnumpy'"),
    (lambda: nd.ones((2,)).numpy(), "'NDArray' object has no attribute 'numpy'", "x.asnumpy()"),
    (lambda: nn.Dense(3).zero_gradd(), "no attribute", "did you mean 'zero_grad'"),
]  # fmt: skip


@pytest.mark.parametrize("mistake, said, mend", MISTAKES)
def test_the_error_names_the_mend(mistake, said, mend):
    with pytest.raises(AT) as error:
        mistake()
    assert said in str(error.value) and mend in str(error.value)


def test_what_the_advice_names_is_there():
    owners = {"x": X, "net": nn.Dense(3), "nn": nn, "np": np, "npx": npx, "gluon": gluon, "mx": mx}
    texts = [
        text
        for t in (elsewhere.BLOCKS, elsewhere.ARRAYS, *elsewhere.NAMES.values())
        for text in t.values()
    ]
    named = [found for text in texts for found in re.findall(r"\b([a-z]+(?:\.\w+)+)", text)]
    assert len(named) > 60
    for path in named:
        owner, *rest = path.split(".")
        found = owners.get(owner)
        for name in rest if found is not None else ():
            assert hasattr(found, name), path
            found = getattr(found, name)


@pytest.mark.parametrize("table, owner", [("BLOCKS", nn.HybridSequential()), ("ARRAYS", X)])
def test_nothing_that_is_there_is_said_to_be_elsewhere(table, owner):
    assert not [name for name in getattr(elsewhere, table) if hasattr(owner, name)]


def test_a_property_that_fails_says_so_itself():
    class Broken(nn.HybridBlock):
        @property
        def width(self):
            return self.no_such_thing

    with pytest.raises(AttributeError, match="'Broken' object has no attribute 'no_such_thing'"):
        Broken().width  # noqa: B018


def test_what_python_asks_for_gets_a_plain_answer():
    with pytest.raises(AttributeError) as error:
        X.__no_such_protocol__  # noqa: B018
    assert type(error.value) is AttributeError


def test_an_old_setting_that_there_is_not_is_answered_with_the_nearest():
    env = {**os.environ, "MXNET_ENGIN_TYPE": "NaiveEngine"}
    done = subprocess.run(
        [sys.executable, "-c", "import mxjax"], env=env, capture_output=True, text=True, check=True
    )
    assert "MXNET_ENGIN_TYPE; did you mean 'MXNET_ENGINE_TYPE'?" in done.stderr


def test_a_list_of_settings_may_be_cut_off():
    head = f"{sys.executable} -m mxjax config | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", head], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.startswith("option")
