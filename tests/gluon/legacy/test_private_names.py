"""Private functions and attributes of Gluon that code of MXNet's users reads; values are MXNet 1.9.1's."""

from __future__ import annotations

from multiprocessing.pool import ThreadPool

import numpy as onp
import pytest

import mxjax as mx
from mxjax import gluon, nd, sym
from mxjax.gluon import nn


@pytest.fixture
def mxnet1():
    with mx.config.scope(compat_version="1.9"), mx.name.NameManager():
        yield


def test_trees_of_arguments():
    from mxjax.gluon.block import _flatten, _regroup

    leaves, structure = _flatten([nd.ones(1), None, [nd.ones(2), (nd.ones(3),)]], "input")
    assert structure == [0, -1, [0, [0]]] and len(leaves) == 4
    again = _regroup(leaves, structure)
    assert again[0] is leaves[0] and again[1] is None and again[2][1][0] is leaves[3]
    assert _flatten(sym.Group([sym.var("a"), sym.var("b")]), "input")[1] == 2
    with pytest.raises(ValueError, match="must be .nested. list of Symbol or NDArray"):
        _flatten([1], "input")
    with pytest.raises(ValueError, match="received NoneType"):
        _regroup([nd.ones(1)], -1)


def test_texts_and_names():
    from mxjax.gluon.block import _brief_print_list, _common_prefix, _gather_type_ctx_info, _indent

    assert _indent("a\nb\nc", 3) == "a\n   b\n   c" and _indent("a", 2) == "a"
    assert _brief_print_list(range(10)) == "'0', '1', '2', ..., '6', '7', '8', '9'"
    assert _brief_print_list(range(9), 4) == "'0', '1', ..., '7', '8'"
    assert _common_prefix(["ab_c", "ab_d"]) == "ab_" and _common_prefix([]) == ""
    assert _gather_type_ctx_info([nd.ones(1), [sym.var("x")]])[:2] == (True, True)


def test_dtypes_of_a_symbols_parameters():
    from mxjax.gluon.block import _infer_param_types

    x = sym.var("data", dtype="float16")
    out = sym.FullyConnected(x, num_hidden=2, name="fc")
    assert _infer_param_types([x], out, out.list_arguments(), []) == ([onp.float16] * 3, [])
    assert _infer_param_types([x], out, ["fc_weight"], []) == (
        [onp.float32],
        [],
    )  # MXNet counts the input, too
    assert _infer_param_types([sym.var("data")], out, ["fc_weight"], ["m"])[1] == [onp.float32]


class Scaled(nn.HybridBlock):
    """A block that names itself, as toolkits' do."""

    def __init__(self, prefix=None, params=None):
        from mxjax.gluon.block import _BlockScope

        super().__init__(prefix=prefix, params=params)
        self._prefix, self._params = _BlockScope.create("mine_", None, self._alias())
        with self.name_scope():
            self.w = self.params.get("w", shape=(2,))
            self.d = nn.Dense(2, in_units=2)

    def hybrid_forward(self, F, x, w):  # noqa: N803
        return self.d(x * w)


def test_a_blocks_names(mxnet1):
    b = Scaled()
    assert (b._prefix, b.prefix, b._empty_prefix) == (
        "mine_",
        "mine_",
        False,
    ) and b._scope is b.name_scope()
    assert list(b.collect_params()) == ["mine_w", "mine_dense0_weight", "mine_dense0_bias"]
    assert list(b._collect_params_with_prefix()) == ["w", "d.weight", "d.bias"]
    assert list(b._collect_params_with_prefix("net")) == ["net.w", "net.d.weight", "net.d.bias"]
    assert (
        list(b._params) == ["mine_w"]
        and list(b._reg_params) == ["w"]
        and list(b._children) == ["d"]
    )
    inputs, out = b._get_graph(nd.ones((1, 2)))
    assert [x.name for x in inputs] == ["data"] and out.name == "mine_dense0_fwd"
    assert out.list_arguments() == ["data", "mine_w", "mine_dense0_weight", "mine_dense0_bias"]
    assert b._cached_graph == (inputs, out) and b._in_format == [0] and b._out_format == 0
    b._clear_cached_op()
    assert b._cached_graph == () and b._cached_op is None
    b.initialize()
    b.hybridize()
    b(nd.ones((1, 2)))
    inputs, out = b._cached_graph
    assert [x.name for x in inputs] == ["data"] and out.list_outputs() == ["mine_dense0_fwd_output"]


def test_users_of_mxnet_2_have_these_attributes_to_themselves():
    net = nn.Dense(2)
    assert not hasattr(net, "_params") and not hasattr(net, "_prefix")
    net._params, net._prefix, net._scope = [1], 3, None
    assert (net._params, net._prefix, net._scope) == ([1], 3, None) and isinstance(net.prefix, str)


def test_a_parameters_state(mxnet1):
    d = nn.Dense(2)
    d.initialize()
    w = d.weight
    assert (
        w._data is w._ctx_list is w._ctx_map is None
        and len(w._deferred_init) == 4
        and w._allow_deferred_init
    )
    d(nd.ones((1, 3)))
    assert (
        w._ctx_list == [mx.cpu(0)]
        and w._ctx_map == [[], [0]]
        and w._deferred_init == ()
        and w._var.name == w.name
    )
    assert w._check_and_get(w._data, list)[0] is w._data[0] and w._check_and_get(
        w._grad, None
    ).shape == (2, 3)
    with pytest.raises(
        RuntimeError, match=r"was not initialized on context cpu\(1\). It was only initialized on"
    ):
        w._check_and_get(w._data, mx.cpu(1))


ROWS = [(onp.ones(2, "float32") * i, i, [1.0, 2.0]) for i in range(4)]


def test_batches_of_tuples_and_of_lists(mxnet1):
    from mxjax.gluon.data.dataloader import default_batchify_fn, default_mp_batchify_fn

    for function in (default_batchify_fn, default_mp_batchify_fn):
        batch = function(ROWS)
        assert [(x.shape, onp.dtype(x.dtype).name) for x in batch] == [
            ((4, 2), "float32"), ((4,), "int64"), ((4, 2), "float64"),
        ]  # fmt: skip
        assert type(batch) is list and type(function([nd.ones(2), nd.ones(2)])) is nd.NDArray
    assert default_batchify_fn([[1, 2], [3, 4]]).asnumpy().tolist() == [[1, 2], [3, 4]]
    assert [len(batch) for batch in gluon.data.DataLoader(gluon.data.SimpleDataset(ROWS), 3)] == [
        3,
        3,
    ]
    assert next(iter(gluon.data.DataLoader([[1, 2], [3, 4]], 2))).shape == (2, 2)


def test_iterators_over_pools():
    from mxjax.gluon.data.dataloader import (
        DataLoaderV1,
        _MultiWorkerIter,
        _MultiWorkerIterV1,
        _thread_worker_fn,
        default_batchify_fn,
        worker_loop_v1,
    )

    data = gluon.data.SimpleDataset(ROWS)
    sampler = gluon.data.BatchSampler(gluon.data.SequentialSampler(4), 3, "keep")
    with ThreadPool(2) as pool:
        batches = _MultiWorkerIter(
            pool,
            default_batchify_fn,
            sampler,
            worker_fn=_thread_worker_fn,
            prefetch=2,
            dataset=data,
        )
        assert len(batches) == 2 and [b[1].asnumpy().tolist() for b in batches] == [[0, 1, 2], [3]]
    loops: list[str] = []

    def loop(*args):
        loops.append("began")
        worker_loop_v1(*args)

    batches = _MultiWorkerIterV1(2, data, default_batchify_fn, sampler, worker_fn=loop)
    assert [b[1].asnumpy().tolist() for b in batches] == [[0, 1, 2], [3]] and loops == ["began"] * 2
    for workers in (0, 2):
        loader = DataLoaderV1(data, 3, num_workers=workers)
        assert [b[1].asnumpy().tolist() for b in loader] == [[0, 1, 2], [3]]

    def broken(*args):
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        next(_MultiWorkerIterV1(1, data, default_batchify_fn, sampler, worker_fn=broken))


def test_a_loader_that_begins_anew():
    read = []

    class Rows(gluon.data.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, i):
            read.append(i)
            return i

    loader = gluon.data.DataLoader(
        Rows(), 1, auto_reload=True, num_workers=1, thread_pool=True, prefetch=1
    )
    assert loader.auto_reload and loader._begun is not None
    for _ in range(2):
        assert [int(b.asnumpy()[0]) for b in loader] == [0, 1] and loader._begun is not None
    loader.clean()
    loader._pool.close()


def test_sequences(mxnet1):
    from mxjax.gluon.rnn.rnn_cell import (
        _cells_begin_state,
        _cells_state_info,
        _format_sequence,
        _get_begin_state,
        _mask_sequence_variable_length,
        _reverse_sequences,
    )

    x, lengths = nd.arange(24).reshape((2, 3, 4)), nd.array([1, 3])
    steps, axis, functions, size = _format_sequence(3, x, "NTC", False)
    assert (len(steps), axis, functions, size) == (3, 1, nd, 2)
    assert steps[1].asnumpy().tolist() == [[4, 5, 6, 7], [16, 17, 18, 19]]
    assert _format_sequence(3, steps, "NTC", True)[0].shape == (2, 3, 4)
    turned = _format_sequence(None, x, "TNC", None, in_layout="NTC")
    assert turned[0].shape == (3, 2, 4) and turned[1] == 0 and turned[3] == 3
    assert _mask_sequence_variable_length(nd, x, 3, lengths, 1, True).asnumpy().sum() == 216
    assert (
        _mask_sequence_variable_length(nd, steps, 3, lengths, 1, False)[2].asnumpy()[0].tolist()
        == [0] * 4
    )
    firsts = [step.asnumpy()[:, 0].tolist() for step in _reverse_sequences(steps, 3, lengths)]
    assert firsts == [[0, 20], [4, 16], [8, 12]]
    assert [step.asnumpy()[:, 0].tolist() for step in _reverse_sequences(steps, 3)] == [
        [8, 20],
        [4, 16],
        [0, 12],
    ]
    cell = gluon.rnn.LSTMCell(4, input_size=4)
    cell.initialize()
    states = _get_begin_state(cell, nd, None, x, 2)
    assert [s.shape for s in states] == [(2, 4)] * 2 and type(states[0]) is nd.NDArray
    assert [i["shape"] for i in _cells_state_info([cell, cell], 5)] == [(5, 4)] * 4
    assert len(_cells_begin_state([cell, cell], batch_size=2)) == 4
    steps, _, functions, size = _format_sequence(3, sym.var("x"), "NTC", False)
    assert (len(steps), functions, size) == (3, sym, 0)


def test_helpers_of_losses():
    from mxjax.gluon.loss import _apply_weighting, _reshape_like

    assert _reshape_like(nd, nd.ones((2, 3)), nd.ones((3, 2))).shape == (3, 2)
    found = _apply_weighting(nd, nd.ones((2, 2)), 2.0, nd.array([[1], [0]]))
    assert found.asnumpy().tolist() == [[2, 2], [0, 0]]
    assert _apply_weighting(nd.ones(2), 3.0).asnumpy().tolist() == [3, 3]


def test_options_of_layers_can_be_changed():
    """How backbones are dilated."""
    conv = nn.Conv2D(4, 3, padding=1, in_channels=2)
    conv.initialize(mx.init.One())
    conv._kwargs.update(stride=(2, 2), dilate=(2, 2), pad=(2, 2))
    out = conv(nd.ones((1, 2, 8, 8)))
    assert out.shape == (1, 4, 4, 4) and out.asnumpy().sum() == 800
    embedding = nn.Embedding(3, 4)
    assert embedding._kwargs == {
        "input_dim": 3,
        "output_dim": 4,
        "dtype": "float32",
        "sparse_grad": False,
    }
    assert nn.LayerNorm()._kwargs == {"eps": 1e-5, "axis": -1, "center": True, "scale": True}
    assert nn.GroupNorm()._kwargs == {"eps": 1e-5, "num_groups": 1, "center": True, "scale": True}


def test_layers_made_of_mxnets_bases():
    from mxjax.gluon.nn.conv_layers import _Conv, _Pooling

    class Square(_Conv):
        def __init__(self, channels, kernel, **options):
            super().__init__(
                channels, (kernel, kernel), 1, 0, 1, 1, "NCHW", 2, use_bias=False, **options
            )

    class Halved(_Pooling):
        def __init__(self):
            super().__init__((2, 2), None, 0, False, False, "max", "NCHW")

    x = nd.ones((1, 2, 8, 8))
    square, up = Square(3, 3), Square(3, 3, op_name="Deconvolution", adj=0)
    for layer in (square, up):
        layer.initialize()
    assert (
        square(x).shape == (1, 3, 6, 6)
        and square.weight.shape == (3, 2, 3, 3)
        and up(x).shape == (1, 3, 10, 10)
    )
    assert Halved()(x).shape == (1, 2, 4, 4) and isinstance(nn.Conv2D(1, 1), _Conv)
    with mx.config.scope(compat_version="1.9"):
        assert (square._op_name, up._op_name, up.outpad) == ("Convolution", "Deconvolution", (0, 0))
    assert square._op_name == "convolution" and not hasattr(square, "outpad")


def test_helpers_of_base():
    from mxjax.base import (
        _as_list,
        build_param_doc,
        c_array,
        c_str,
        check_call,
        classproperty,
        mx_uint,
    )

    assert build_param_doc(["a", "b"], ["int", "float"], ["x", ""]) == (
        "Parameters\n----------\na : int\n    x\nb : float\n"
    )
    assert (
        c_str("q").value == b"q" and list(c_array(mx_uint, [1, 2])) == [1, 2] and _as_list(3) == [3]
    )
    check_call(0)
    with pytest.raises(mx.MXNetError, match="returned -1"):
        check_call(-1)

    class Named:
        @classproperty
        def name(cls):  # noqa: N805
            return cls.__name__

    assert Named.name == "Named"


def test_helpers_of_images_and_models(monkeypatch):
    from mxjax.gluon.model_zoo import model_store
    from mxjax.gluon.utils import _get_repo_file_url, _get_repo_url
    from mxjax.image.image import _get_interp_method

    assert [_get_interp_method(i, (10, 10, 20, 20)) for i in (0, 1, 2, 3, 4, 9)] == [
        0,
        1,
        2,
        3,
        4,
        2,
    ]
    assert _get_interp_method(9, (20, 20, 10, 10)) == 3 and _get_interp_method(9) == 2
    repo = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"
    assert _get_repo_url() == model_store.apache_repo_url == repo
    assert _get_repo_file_url("gluon/x", "f.zip") == f"{repo}gluon/x/f.zip"
    monkeypatch.setitem(model_store._model_sha1, "own", "0123456789" * 4)
    assert (
        model_store.short_hash("own") == "01234567"
        and model_store.short_hash("resnet18_v1") == "a0666292"
    )


def test_checks_of_symbols_and_arrays():
    from mxjax.gluon.utils import _check_all_np_ndarrays, _check_same_symbol_type

    x, y = sym.var("x"), sym.var("y")
    assert _check_same_symbol_type([x, y]) is sym.Symbol
    with pytest.raises(TypeError, match="classic symbol"):
        _check_same_symbol_type([x, y.as_np_ndarray()])
    _check_all_np_ndarrays([mx.np.ones(1), [y.as_np_ndarray()]])
    with pytest.raises(TypeError, match="must be of type `mxnet.numpy.ndarray`"):
        _check_all_np_ndarrays([mx.np.ones(1), nd.ones(1)])


def test_steps_of_training_loops():
    """On two devices by a store, and without one; the numbers are those of plain SGD."""
    from mxjax.model import (
        _create_kvstore,
        _initialize_kvstore,
        _update_params,
        _update_params_on_kvstore,
    )

    names = ["a", "b"]
    start = {"a": nd.array([1.0, 2.0]), "b": nd.array([3.0])}

    def arrays():
        weights = [[start[n].copy() for _ in range(2)] for n in names]
        return weights, [[nd.ones(start["a"].shape), nd.ones(start["a"].shape) * 2], [None, None]]

    assert (
        _create_kvstore(None, 2, start) == (None, False)
        and _create_kvstore("local", 1, start)[0] is None
    )
    store, on_store = _create_kvstore("local", 2, start)
    assert on_store
    with pytest.raises(TypeError, match="must be KVStore, str or None"):
        _create_kvstore(3, 1, start)
    weights, grads = arrays()
    store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.1, wd=0))
    _initialize_kvstore(store, weights, start, names, True)
    _update_params_on_kvstore(weights, grads, store, names)
    assert [[round(float(x), 5) for x in w.asnumpy()] for w in weights[0]] == [[0.7, 1.7]] * 2
    assert weights[1][0].asnumpy().tolist() == [3.0]
    weights, grads = arrays()
    updater = mx.optimizer.get_updater(mx.optimizer.create("sgd", learning_rate=0.1, wd=0))
    _update_params(weights, grads, updater, 2)
    assert [[round(float(x), 5) for x in w.asnumpy()] for w in weights[0]] == [
        [0.9, 1.9],
        [0.8, 1.8],
    ]
    plain, _ = _create_kvstore("local", 2, start)
    weights, grads = arrays()
    _initialize_kvstore(plain, weights, start, names, False)
    _update_params(weights, grads, updater, 2, plain, names)
    assert [[round(float(x), 5) for x in w.asnumpy()] for w in weights[0]] == [[0.7, 1.7]] * 2


def test_a_trainers_and_a_modules_state(mxnet1):
    net = nn.Dense(1, in_units=2)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    assert (
        trainer._contexts == [mx.cpu(0)]
        and not trainer._contains_sparse_grad
        and not trainer._kv_initialized
    )
    assert [trainer._param2idx[p.name] for p in trainer._params] == [0, 1]
    out = sym.SoftmaxOutput(
        sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc"), name="softmax"
    )
    module = mx.mod.Module(out)
    module.bind([("data", (2, 3))], [("softmax_label", (2,))])
    module.init_params(mx.init.One())
    module.init_optimizer()
    assert list(module._arg_params) == ["fc_weight", "fc_bias"] and module._aux_params == {}
    assert module._grad_req == "write" and module._kvstore is None and not module._update_on_kvstore
    group = module._exec_group
    assert group.slices == [slice(0, 2)] and [x[0].shape for x in group.param_arrays] == [
        (2, 3),
        (2,),
    ]
    assert sorted(group.execs[0]._arg_dict) == ["data", "fc_bias", "fc_weight", "softmax_label"]
    assert group.execs[0]._ctx == mx.cpu(0)
    buckets = mx.mod.BucketingModule(lambda key: (out, ("data",), ("softmax_label",)), 3)
    assert (
        buckets._context == mx.cpu(0)
        and buckets._fixed_param_names == []
        and buckets._work_load_list is None
    )


def test_names_of_a_module_that_live_in_its_package():
    from mxjax.model import BASE_ESTIMATOR
    from mxjax.symbol.symbol import load

    assert load is mx.sym.load and isinstance(BASE_ESTIMATOR, type)


def test_gates_of_cells():
    from mxjax.gluon.contrib import rnn as contrib_rnn

    lstm, gru = ["_i", "_f", "_c", "_o"], ["_r", "_z", "_o"]
    assert mx.rnn.LSTMCell(2)._gate_names == lstm and mx.rnn.GRUCell(2)._gate_names == gru
    assert mx.rnn.FusedRNNCell(2, mode="gru")._gate_names == gru
    assert mx.rnn.FusedRNNCell(2, mode="rnn_tanh")._gate_names == [""]
    assert mx.rnn.RNNCell(2)._gate_names == ("",) and mx.rnn.SequentialRNNCell()._gate_names == ()
    assert contrib_rnn.Conv1DLSTMCell((1, 5), 2, 3, 3, 1)._gate_names == lstm
    assert contrib_rnn.Conv1DGRUCell((1, 5), 2, 3, 3, 1)._gate_names == gru
    assert contrib_rnn.Conv1DRNNCell((1, 5), 2, 3, 3, 1)._gate_names == ("",)


def test_a_symbol_block_is_exported_without_a_forward(tmp_path, mxnet1):
    net = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    block = gluon.SymbolBlock(net, sym.var("data"))
    for name, value in {"fc_weight": [[1, 2, 3], [4, 5, 6]], "fc_bias": [1, -1]}.items():
        param = block.collect_params()[name]
        param.shape = onp.shape(value)
        param.initialize()
        param.set_data(nd.array(value))
    block.export(str(tmp_path / "net"))
    assert sorted(nd.load(str(tmp_path / "net-0000.params"))) == ["arg:fc_bias", "arg:fc_weight"]
    again = gluon.SymbolBlock.imports(
        str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params")
    )
    assert again(nd.array([[1, 1, 1]])).asnumpy().tolist() == [[7, 14]]
    again.export(str(tmp_path / "copy"))
    for part in ("-symbol.json", "-0000.params"):
        assert (tmp_path / f"copy{part}").read_bytes() == (tmp_path / f"net{part}").read_bytes()
