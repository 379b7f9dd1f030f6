"""Programs that train symbols, unchanged: as MXNet 1.9.1 (`record/module_programs.py`)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx

DATA = json.loads((Path(__file__).parents[1] / "data" / "module_programs.json").read_text())


def alike(found, wanted, where="found"):
    if isinstance(wanted, dict):
        assert sorted(found) == sorted(wanted), where
        for key in wanted:
            alike(found[key], wanted[key], f"{where}[{key!r}]")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), f"{where}: {found} {wanted}"
        for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
            alike(one, other, f"{where}[{place}]")
    elif isinstance(wanted, float):
        np.testing.assert_allclose(float(found), wanted, rtol=1e-4, atol=1e-4, err_msg=where)
    else:
        assert found == wanted, where


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DATA["programs"])
def test_as_mxnet(name, caplog):
    program, wanted = DATA["programs"][name]
    caplog.set_level("INFO")
    scope = {"mx": mx}
    with mx.name.NameManager():  # names are counted from 0, whatever ran before
        exec(DATA["code"], scope)
        exec(program, scope)
    alike(scope["found"], wanted)


@pytest.mark.parametrize(
    ("req", "want"),
    [("write", [[2, 2], [10, 2], [2, 2]]), ("add", [[2, 2], [12, 4], [14, 6]])],
)
def test_modules_that_share_parameters_share_gradients(req, want):
    """Of MXNet 1.9.1: with grad_req="add" what buckets of other lengths left goes on being added to."""

    def net(over):
        data = mx.sym.var("data")
        return mx.sym.FullyConnected(over(data, axis=1, keepdims=True), num_hidden=2, name="fc")

    def bucket(key):
        return net(mx.sym.mean if key == 3 else mx.sym.sum), ("data",), None

    short, long = (mx.mod.Module(net(f), label_names=None) for f in (mx.sym.mean, mx.sym.sum))
    short.bind([("data", (2, 3))], grad_req=req)
    short.init_params(mx.init.One())
    long.bind([("data", (2, 5))], shared_module=short, grad_req=req)
    buckets = mx.mod.BucketingModule(bucket, default_bucket_key=3)
    buckets.bind([("data", (2, 3))], grad_req=req)
    buckets.init_params(mx.init.One())
    for length, found in zip((3, 5, 3), want, strict=True):
        batch = mx.io.DataBatch(
            [mx.nd.ones((2, length))], bucket_key=length, provide_data=[("data", (2, length))]
        )
        for module in (short if length == 3 else long, buckets):
            module.forward(batch, is_train=True)
            module.backward([mx.nd.ones((2, 2))])
        for each in (short, long, *buckets._buckets.values()):
            weight, bias = (g[0].asnumpy().ravel().tolist() for g in each._exec_group.grad_arrays)
            assert (weight, bias) == ([found[0]] * 2, [found[1]] * 2)
