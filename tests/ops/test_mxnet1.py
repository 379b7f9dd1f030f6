"""Operators whose rules are easily missed, against what MXNet 1.9.1 gave."""

import numpy as onp
import pytest

import mxjax as mx

SOFTMAX_DATA = onp.random.RandomState(3).randn(4, 3).astype("float32")


@pytest.fixture(autouse=True)
def generation():
    with mx.config.scope(compat_version="1.9"):
        yield


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "nansum", "nanprod", "max", "min"])
@pytest.mark.parametrize("axis", [{}, {"axis": ()}, {"axis": None}])
def test_without_axes_exclude_leaves_nothing_out(name, axis):
    x = onp.arange(1, 7, dtype="float32").reshape(2, 3)
    got = getattr(mx.nd, name)(mx.nd.array(x), exclude=True, **axis)
    onp.testing.assert_allclose(got.asnumpy(), [getattr(onp, name)(x)], rtol=1e-6)


def test_softmax_activation_of_an_instance_is_along_the_last_axis():
    x = onp.random.RandomState(0).randn(2, 3, 4).astype("float32")
    e = onp.exp(x - x.max(-1, keepdims=True))
    got = mx.nd.SoftmaxActivation(mx.nd.array(x)).asnumpy()
    onp.testing.assert_allclose(got, e / e.sum(-1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize(
    ("region", "pooled_size", "want"),
    [([0, 1, 1, 5, 5], (1, 1), [15]), ([0, 0, 0, 1, 1], (2, 1), [1, 5])],
)
def test_corners_of_regions_are_rounded_as_in_c(region, pooled_size, want):
    x = mx.nd.arange(16).reshape((1, 1, 4, 4))
    got = mx.nd.ROIPooling(x, mx.nd.array([region]), pooled_size=pooled_size, spatial_scale=0.5)
    assert got.asnumpy().ravel().tolist() == want


@pytest.mark.parametrize(
    ("topk", "rows", "columns"), [(1, [1, 0, -1], [1, 0, -1]), (2, [1, 0, 2], [1, 0, 2])]
)
def test_matching_ends_after_one_pair_more_than_topk(topk, rows, columns):
    scores = mx.nd.array([[0.5, 0.9, 0.2], [0.8, 0.7, 0.4], [0.3, 0.1, 0.6]])
    got = mx.nd.contrib.bipartite_matching(scores, threshold=0.1, topk=topk)
    assert [g.asnumpy().tolist() for g in got] == [rows, columns]


def test_lengths_of_labels_alone_are_the_third_array():
    data = mx.nd.array(onp.arange(12).reshape(3, 1, 4) % 5 / 2.0)
    got = mx.nd.ctc_loss(data, mx.nd.array([[1, 2, 3]]), mx.nd.array([1]), use_label_lengths=True)
    onp.testing.assert_allclose(got.asnumpy(), [2.562642], rtol=1e-6)


@pytest.mark.parametrize("normalization", ["null", "batch", "valid"])
def test_gradient_of_softmax_output_for_probabilities_is_not_normalised(normalization):
    x, label = mx.nd.array(SOFTMAX_DATA), onp.full((4, 3), 1 / 3, "float32")
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.SoftmaxOutput(
            x, mx.nd.array(label), normalization=normalization, grad_scale=2.0, use_ignore=True
        )
    y.backward()
    onp.testing.assert_allclose(x.grad.asnumpy(), 2 * (y.asnumpy() - label), rtol=1e-6)


def test_labels_of_many_outputs_are_not_smoothed():
    x, label = mx.nd.array(SOFTMAX_DATA.reshape(2, 3, 2)), [[0, 1], [2, 0]]
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.SoftmaxOutput(x, mx.nd.array(label), multi_output=True, smooth_alpha=0.1)
    y.backward()
    hot = onp.eye(3)[onp.array(label)].transpose(0, 2, 1)
    onp.testing.assert_allclose(x.grad.asnumpy(), (y.asnumpy() - hot) / 2, rtol=1e-5, atol=1e-7)


# Which labels are read and what divides was recorded from MXNet 1.9.1 and 2.0.0b1, which agree.
@pytest.mark.parametrize(
    ("options", "divisor"),
    [({}, 1), ({"normalization": "batch"}, 6), ({"normalization": "valid"}, 3)],
)
@pytest.mark.parametrize("preserve_shape", [False, True])
def test_softmax_output_of_three_axes_counts_all_its_labels(preserve_shape, options, divisor):
    label = onp.array([[3, -1, -1], [0, -1, 1]])
    x = mx.nd.array(SOFTMAX_DATA.reshape(-1)[:12].reshape(2, 3, 2).repeat(2, axis=2))
    symbol = mx.sym.SoftmaxOutput(
        mx.sym.var("x"), name="out", preserve_shape=preserve_shape, **options
    )
    assert symbol.infer_shape(x=x.shape)[0] == [(2, 3, 4), (2, 3)]
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.SoftmaxOutput(x, mx.nd.array(label), preserve_shape=preserve_shape, **options)
    y.backward()
    classes, read = (4, label.ravel()) if preserve_shape else (12, label.ravel()[:2])
    got = y.asnumpy().reshape(-1, classes)
    hot = onp.arange(classes) == read[:, None]
    onp.testing.assert_allclose(got.sum(1), 1, rtol=1e-6)
    want = (got - hot) / divisor
    onp.testing.assert_allclose(x.grad.asnumpy().reshape(want.shape), want, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("axis", "shape"), [(-1, (2, 3, 1)), (1, (2, 1, 4))])
def test_statistics_of_a_normalised_layer_keep_its_axis(axis, shape):
    x = mx.nd.arange(24).reshape((2, 3, 4))
    ones = mx.nd.ones(x.shape[axis])
    _, mean, _ = mx.nd.LayerNorm(x, ones, ones, axis=axis, output_mean_var=True)
    want = onp.arange(24).reshape(2, 3, 4).mean(axis, keepdims=True)
    assert mean.shape == shape
    onp.testing.assert_allclose(mean.asnumpy(), want, rtol=1e-6)


def test_places_have_no_gradient():
    x = mx.nd.array([[0.0, 1], [1, 1]])
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.ravel_multi_index(x, shape=(3, 2))
    y.backward()
    assert y.asnumpy().tolist() == [1, 3]
    assert x.grad.asnumpy().tolist() == [[0, 0], [0, 0]]


STEPS = {  # the new weight and the states, of 1.9.1 and of 2.0.0b1
    "adam_update": (
        [[0.90895492, -2.0890441, 0.40895492], [0.91, 0.89, 0.91], [0.99901003] * 3],
        [[0.90695763, -2.0855341, 0.40795583], [0.93, 0.855, 0.92], [0.99909, 0.9992025, 0.99904]],
    ),
    "rmsprop_update": (
        [[0.98974293, -1.98974288, 0.4897429], [0.9505] * 3],
        [[0.9692933, -1.9540751, 0.47950199], [0.9545, 0.960125, 0.952]],
    ),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("version", ["1.9", "2.0"])
def test_mxnet_1_clips_the_decay_with_the_gradient(name, version):
    want = STEPS[name][version == "2.0"]
    weight, grad = mx.nd.array([1.0, -2, 0.5]), mx.nd.array([0.3, -0.1, 0.4])
    states = [mx.nd.ones(3) for _ in want[1:]]
    with mx.config.scope(compat_version=version):
        new = getattr(mx.nd, name)(
            weight, grad, *states, lr=0.1, wd=0.2, rescale_grad=0.5, clip_gradient=0.1
        )
    for got, numbers in zip([new, *states], want, strict=True):
        onp.testing.assert_allclose(got.asnumpy(), numbers, rtol=2e-6)


BESIDE = {  # rates and epsilons that tell the generations apart: the weight and the states after a step
    "nag_mom_update": (
        dict(momentum=0.9),
        [[1.7434998, -1.1045002, 1.253], [0.85013002, 0.92708999, 0.85494]],
        [[1.7434998, -1.1045002, 1.253], [0.86499989, 0.94499999, 0.87]],
    ),
    "ftml_update": (
        dict(t=2, clip_grad=0.1),
        [[0.99133319, -1.9955266, 0.49342999], [143.07466] * 3, [0.99901003] * 3, [-141.83466, 285.50931, -70.597328]],
        [[0.99077439, -1.9945488, 0.4931505], [143.08038, 143.08844, 143.0768], [0.99909002, 0.99920249, 0.99904001],
         [-141.76038, 285.39688, -70.558395]],
    ),
    "rmsprop_update": (
        dict(epsilon=0.5),
        [[0.97099531, -1.9627594, 0.47512501], [0.95612502, 0.96012503, 0.95450002]],
        [[0.97631639, -1.9695919, 0.47968841], [0.95612502, 0.96012503, 0.95450002]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("version", ["1.9", "2.0"])
def test_steps_in_place(name, version):
    attrs, *want = BESIDE[name]
    want = want[version == "2.0"]
    weight, grad = mx.nd.array([1.0, -2, 0.5]), mx.nd.array([0.3, -0.1, 0.4])
    states = [mx.nd.ones(3) for _ in want[1:]]
    with mx.config.scope(compat_version=version):
        getattr(mx.nd, name)(
            weight, grad, *states, out=weight, lr=0.1, wd=0.2, rescale_grad=0.5, **attrs
        )
    for got, numbers in zip([weight, *states], want, strict=True):
        # two of FTML's numbers hang on 1 - 0.999 ** 2, which MXNet rounds
        onp.testing.assert_allclose(got.asnumpy(), numbers, rtol=2e-5 if "ftml" in name else 2e-6)


def test_a_decay_is_taken_from_the_weight_that_is_there():
    grad, mom = mx.nd.array([0.3, -0.1, 0.4]), mx.nd.ones(3)
    how = dict(lr=0.1, wd=0.2, rescale_grad=0.5, momentum=0.9)
    mx.nd.nag_mom_update(mx.nd.array([1.0, -2, 0.5]), grad, mom, **how)
    onp.testing.assert_allclose(mom.asnumpy(), [0.86499989, 0.94499999, 0.87], rtol=1e-6)
    weight, mom, wide = mx.nd.array([1.0, -2, 0.5]), mx.nd.ones(3), mx.nd.array([1.0, -2, 0.5])
    mx.nd.mp_nag_mom_update(weight.astype("float16"), grad.astype("float16"), mom, wide, **how)
    onp.testing.assert_allclose(wide.asnumpy(), [1.7434952, -1.1045026, 1.2530092], rtol=1e-6)
    onp.testing.assert_allclose(mom.asnumpy(), [0.85012758, 0.9270888, 0.85494459], rtol=1e-6)


@pytest.mark.parametrize("step, history, of_1, of_2", [
    (mx.nd.contrib.group_adagrad_update, [[1], [2.0]], [0.97171569, 0.94343138], [0.97641718, 0.95283419]),
    (mx.nd.sparse.adagrad_update, [[1, 1], [1, 1.0]], [0.96220362, 0.93675452], [0.96909833, 0.94775921]),
])  # fmt: skip
@pytest.mark.parametrize("version", ["1.9", "2.0"])
def test_steps_of_rows(step, history, of_1, of_2, version):
    weight, history = mx.nd.ones((2, 2)), mx.nd.array(history)
    grad = mx.nd.sparse.row_sparse_array((onp.array([[0.5, 1]], "float32"), [1]), shape=(2, 2))
    with mx.config.scope(compat_version=version):
        step(weight, grad, history, out=weight, lr=0.1, epsilon=0.5)
    want = [[1, 1], of_1 if version == "1.9" else of_2]
    onp.testing.assert_allclose(weight.asnumpy(), want, rtol=1e-6)


def _after_two_steps(optimizer):
    updater, weight = mx.optimizer.get_updater(optimizer), mx.nd.array([[1.0, -2], [0.5, 3]])
    for _ in range(2):
        updater(0, mx.nd.array([[0.3, -0.1], [0.4, 0.2]]), weight)
    return weight.asnumpy(), updater.states[0]


def test_group_adagrad_has_epsilon_under_the_root():
    weight, _ = _after_two_steps(mx.optimizer.GroupAdaGrad(learning_rate=0.1, eps=0.5))
    want = [[0.92081821, -1.9736062], [0.40055099, 2.9502757]]
    onp.testing.assert_allclose(weight, want, rtol=1e-6)
    assert mx.optimizer.GroupAdaGrad().epsilon == 1e-5


def test_ftrl_goes_by_its_scheduler():
    scheduler = mx.lr_scheduler.FactorScheduler(10, base_lr=0.4)
    weight, _ = _after_two_steps(mx.optimizer.Ftrl(learning_rate=0.1, lr_scheduler=scheduler))
    want = [[0.0511306, -0.1067742], [-0.0713678, 0.3676385]]
    onp.testing.assert_allclose(weight, want, rtol=1e-5)


@pytest.mark.parametrize("version", ["1.9", "2.0"])
def test_states_of_centered_rmsprop_begin_with(version):
    squares, mean = [[0.0171, 0.0019], [0.0304, 0.0076]], [[0.057, -0.019], [0.076, 0.038]]
    with mx.config.scope(compat_version=version):
        weight, states = _after_two_steps(mx.optimizer.RMSProp(learning_rate=0.1, centered=True))
    onp.testing.assert_allclose(
        weight, [[0.1117609, -1.1117647], [-0.3882394, 2.1117616]], rtol=2e-6
    )
    wanted = (squares, mean) if version == "1.9" else (mean, squares)
    for got, want in zip(states, wanted, strict=False):
        onp.testing.assert_allclose(got.asnumpy(), want, rtol=1e-5)


def test_rmspropalex_keeps_squares_in_its_first_state():
    weight, grad = mx.nd.array([1.0, -2, 0.5]), mx.nd.array([0.3, -0.1, 0.4])
    n, g, delta = mx.nd.ones(3), mx.nd.zeros(3), mx.nd.zeros(3)
    new = mx.nd.rmspropalex_update(
        weight, grad, n, g, delta, lr=0.1, wd=0.2, rescale_grad=0.5, clip_gradient=0.1,
        gamma1=0.9, gamma2=0.8,
    )  # fmt: skip
    step = onp.array([-1, 1, -1]) * 0.01053566
    onp.testing.assert_allclose(new.asnumpy(), [0.98946434, -1.98946428, 0.48946434], rtol=1e-6)
    onp.testing.assert_allclose(n.asnumpy(), [0.901] * 3, rtol=1e-6)
    onp.testing.assert_allclose(g.asnumpy(), [0.01, -0.01, 0.01], rtol=1e-6)
    onp.testing.assert_allclose(delta.asnumpy(), step, rtol=1e-5)


@pytest.mark.parametrize("stype", ["csr", "row_sparse", "default"])
def test_operators_of_stored_elements(stype):
    x = onp.array([[0, 0, 0], [4, 0, 1]], "float32")
    given = mx.nd.array(x).tostype(stype)
    stored = {"csr": x != 0, "row_sparse": onp.array([[False], [True]]), "default": True}[stype]
    added = mx.nd._internal._scatter_plus_scalar(given, scalar=1.5)
    assert added.stype == stype
    assert added.asnumpy().tolist() == onp.where(stored, x + 1.5, 0).tolist()
    if stype != "csr":
        divided = mx.nd._internal._scatter_elemwise_div(given, mx.nd.full((2, 3), 2))
        assert divided.stype == stype
        assert divided.asnumpy().tolist() == (x / 2).tolist()


@pytest.mark.parametrize(("version", "dtype"), [("1.9", "int32"), ("2.0", "int64")])
def test_indices_of_a_grid(version, dtype):
    with mx.config.scope(compat_version=version):
        assert mx.np.indices((2, 3)).dtype == dtype
        assert mx.np.indices((2, 3), dtype="float32").dtype == "float32"
        got = mx.np.indices((2, 3)).asnumpy()
    onp.testing.assert_array_equal(got, onp.indices((2, 3)))


@pytest.mark.parametrize("version", ["1.9", "2.0"])
def test_numbers_beside_arrays_are_float32(version):
    with mx.config.scope(compat_version=version):
        made = mx.np.atleast_1d(mx.np.ones(2), 3.0, 2)
    assert [(m.dtype.name, m.tolist()) for m in made] == [
        ("float32", [1, 1]), ("float32", [3]), ("float32", [2]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "momentum, expected",
    [
        (0.9, ([0.01193192, 0.01702972, 0.02333599], [0.4982945, 0.60644686, 0.69482434])),
        (0.5, ([0.01166229, 0.01858959, 0.0215822], [0.49147254, 0.6322342, 0.6741215])),
    ],
)
def test_the_penalty_on_activations_goes_by_moving_means(momentum, expected):
    net = mx.sym.IdentityAttachKLSparseReg(
        mx.sym.Variable("data"), name="k", sparseness_target=0.2, penalty=0.01, momentum=momentum
    )
    assert net.list_auxiliary_states() == ["k_moving_avg"]
    assert net.infer_shape(data=(4, 3, 2))[2] == [(3,)]
    x = mx.nd.array(onp.random.RandomState(0).uniform(0.1, 0.9, (4, 3)))
    run = net.bind(
        mx.cpu(),
        {"data": x},
        {"data": mx.nd.zeros((4, 3))},
        aux_states=[mx.nd.array([0.5, 0.6, 0.7])],
    )
    onp.testing.assert_array_equal(run.forward()[0].asnumpy(), x.asnumpy())
    onp.testing.assert_array_equal(run.aux_arrays[0].asnumpy(), onp.float32([0.5, 0.6, 0.7]))
    run.forward(is_train=True)
    run.backward(mx.nd.zeros((4, 3)))
    onp.testing.assert_allclose(run.grad_arrays[0].asnumpy(), [expected[0]] * 4, rtol=1e-5)
    onp.testing.assert_allclose(run.aux_arrays[0].asnumpy(), expected[1], rtol=1e-6)


@pytest.mark.parametrize("axes", [(0, 1), (1, -2)])
def test_moments_of_everything_have_one_axis(axes):
    mean, variance = mx.nd.moments(mx.nd.array([[0, 1, 2], [3, 4, 5]]), axes=axes)
    assert mean.shape == variance.shape == (1,)
    assert (mean.asscalar(), variance.asscalar()) == (2.5, pytest.approx(35 / 12))


def test_running_statistics_have_no_gradient():
    x = mx.nd.array([[1.0, 2.0], [3.0, 5.0]])
    gamma, beta, mean, var = (mx.nd.ones(2) for _ in range(4))
    for a in (gamma, mean, var):
        a.attach_grad()
    with mx.autograd.record():
        y = mx.nd.BatchNorm(x, gamma, beta, mean, var, use_global_stats=True, fix_gamma=False)
    y.backward()
    assert [a.grad.asnumpy().tolist() for a in (mean, var)] == [[0, 0], [0, 0]]
    assert abs(gamma.grad.asnumpy()).min() > 0


@pytest.mark.parametrize("k", [3, -2])
def test_the_diagonal_next_to_a_matrix_is_empty(k):
    assert mx.nd.diag(mx.nd.ones((2, 3)), k=k).size == 0
    with pytest.raises(mx.MXNetError, match="outside of matrices of 2 rows and 3 columns"):
        mx.nd.diag(mx.nd.ones((2, 3)), k=k + (1 if k > 0 else -1))


@pytest.mark.parametrize("out_type", ["float32", "int32"])
def test_products_of_bytes_prepare_floats_themselves(out_type):
    data, weight = onp.sin(onp.arange(192.0)).reshape(3, 64), onp.arange(512) % 41 - 20
    prepared = mx.nd.array(weight.reshape(8, 64), dtype="int8")
    multiply = mx.nd.contrib.intgemm_fully_connected
    options = {"num_hidden": 8, "no_bias": True, "out_type": out_type}
    given = [mx.nd.array([2.0])] if out_type == "float32" else []
    got = multiply(mx.nd.array(data), prepared, *given, **options).asnumpy()
    reach = onp.abs(data).max()
    whole = onp.rint(data * 127 / reach) @ weight.reshape(8, 64).T
    want = whole * 2 * reach / 127 if given else whole
    onp.testing.assert_allclose(got, want, rtol=1e-5)
    with pytest.raises(mx.MXNetError, match="needs its scaling|float32 or int8"):
        multiply(mx.nd.array(data, dtype="float64" if not given else None), prepared, **options)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "bool"])
def test_dtypes_of_means_by_generation(dtype):
    """Values of MXNet 1.9.1 and 2.0.0b1."""
    x = mx.np.array([[1, 0], [1, 1]], dtype=dtype)
    kept = dtype if dtype.startswith("float") else "float32"
    for version, want in (("1.9", kept), ("2.0", "float32"), ("1.9", kept)):
        with mx.config.scope(compat_version=version):
            for made in (x.mean(), mx.np.mean(x, axis=0), mx.np.mean(x, keepdims=True)):
                assert made.dtype == want
            assert mx.np.mean(x, dtype="float16").dtype == "float16"


def test_a_mean_of_float64_keeps_its_digits_in_mxnet_1():
    with mx.config.scope(compat_version="1.9"):
        assert mx.np.array([16777217.0, 16777219.0], dtype="float64").mean().item() == 16777218.0
