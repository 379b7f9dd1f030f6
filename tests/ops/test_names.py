"""The front ends have the names that MXNet programs use most."""

import inspect

import pytest

import mxjax as mx

# Functions with at least ten uses in published MXNet programs, and what layers are made of.
NAMES = {
    "np": """array expand_dims zeros concatenate ones arange int32 swapaxes sqrt sum exp dot zeros_like log float32
        stack mean squeeze square transpose where abs ones_like split sin full pi argmax take reshape min einsum tanh
        max bool tile sign log2 cos clip pad minimum maximum matmul linspace""",
    "np.random": "randint uniform normal seed gumbel multinomial randn choice shuffle permutation rand gamma beta",
    "np.linalg": "norm solve inv svd qr cholesky det eigh slogdet",
    "npx": """set_np reshape waitall arange_like relu sequence_mask batch_dot topk softmax log_softmax sigmoid gpu load
        cpu num_gpus pick save broadcast_like shape_array savez one_hot dropout stop_gradient pooling norm leaky_relu
        gather_nd convolution activation smooth_l1 roi_pooling reshape_like reset_np nonzero masked_softmax
        masked_log_softmax index_update index_add fully_connected erfinv embedding batch_flatten batch_norm layer_norm
        group_norm instance_norm deconvolution rnn ctc_loss foreach while_loop cond is_np_array is_np_shape""",
    "nd": """array concat zeros ones waitall squeeze reshape where sum Activation broadcast_mul slice_axis zeros_like
        ones_like softmax take mean clip transpose stack cast argmax relu elemwise_add sigmoid batch_dot topk pick pad
        log arange load gather_nd slice broadcast_add split empty concatenate abs tile flip expand_dims exp Pooling
        stop_gradient full argsort slice_like nansum floor flatten dot broadcast_div UpSampling prod minimum max
        elemwise_mul broadcast_like SoftmaxActivation Custom Convolution FullyConnected BatchNorm Dropout Embedding
        LeakyReLU LayerNorm GroupNorm InstanceNorm L2Normalization Deconvolution SoftmaxOutput
        LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput MakeLoss BlockGrad RNN CTCLoss
        SequenceMask SequenceLast SequenceReverse""",
    "nd.random": "uniform normal randn randint shuffle",
    "nd.contrib": "BilinearResize2D AdaptiveAvgPooling2D box_nms box_iou",
    "nd.image": "to_tensor normalize",
}

# Parameters that programs pass by keyword, as MXNet spells them.
PARAMETERS = {
    "np.take": "a indices axis mode out",
    "np.clip": "a a_min a_max out",
    "np.sum": "a axis dtype out keepdims",
    "np.random.normal": "loc scale size dtype device out",
    "np.concatenate": "seq axis out",
    "npx.fully_connected": "x weight bias num_hidden no_bias flatten",
    "npx.convolution": "data weight bias kernel stride dilate pad num_filter num_group no_bias layout",
    "npx.pooling": "data kernel stride pad pool_type pooling_convention global_pool count_include_pad layout",
    "npx.batch_norm": "x gamma beta running_mean running_var eps momentum fix_gamma use_global_stats axis",
    "npx.topk": "data axis k ret_typ is_ascend dtype",
    "npx.pick": "data index axis mode keepdims",
    "nd.FullyConnected": "data weight bias num_hidden no_bias flatten",
    "nd.BatchNorm": "data gamma beta moving_mean moving_var eps momentum fix_gamma use_global_stats axis",
    "nd.Convolution": "data weight bias kernel stride dilate pad num_filter num_group no_bias layout",
    "nd.exp": "data",
    "nd.broadcast_add": "lhs rhs",
    "nd.transpose": "data axes",
    "nd.one_hot": "indices depth on_value off_value dtype",
}


def find(path):
    found = mx
    for part in path.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("front", NAMES)
def test_names(front):
    module = find(front)
    missing = [name for name in NAMES[front].split() if not hasattr(module, name)]
    assert not missing


@pytest.mark.parametrize("path", PARAMETERS)
def test_parameters(path):
    have = list(inspect.signature(find(path)).parameters)
    wanted = PARAMETERS[path].split()
    assert [name for name in wanted if name not in have] == []


def test_mode_and_keepdims_of_pick_by_position():
    """MXNet 1.9.1 has keepdims before the mode, 2.0 behind it."""
    x, at = mx.np.array([[1.0, 2, 3], [4, 5, 6]]), mx.np.array([0.0, 2])
    for rest in ((True,), (True, "clip"), ("clip", True)):
        assert mx.npx.pick(x, at, 1, *rest).tolist() == [[1], [6]]
    assert mx.npx.pick(x, at, -1, "wrap").tolist() == [1, 6]
    assert mx.nd.pick(x.as_nd_ndarray(), at.as_nd_ndarray(), 1, True).shape == (2, 1)


def test_required_argument_is_named():
    with pytest.raises(mx.MXNetError, match="num_filtr"):
        mx.npx.convolution(mx.np.ones((1, 1, 3, 3)), mx.np.ones((1, 1, 2, 2)), num_filtr=1)


def test_the_lists_of_dtypes():
    assert [
        t.name for t in mx.np.integer_dtypes
    ] == "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
    assert [t.name for t in mx.np.floating_dtypes] == ["float16", "float32", "float64"]
    assert mx.np.numeric_dtypes == mx.np.integer_dtypes + mx.np.floating_dtypes
    assert mx.np.boolean_dtypes == [mx.np.bool_]
