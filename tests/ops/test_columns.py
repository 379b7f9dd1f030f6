"""What rows say of themselves: MXNet's names, results, shapes, mixed precision, methods.

tests/record/operator_columns.py tells what MXNet was asked and how its answers are written down.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import errors
from mxjax.array.classes import NDArray, ndarray
from mxjax.effects import precision
from mxjax.ops import TABLE, help
from mxjax.ops.samples import Body, case, f
from mxjax.ops.table import METHODS, Op, by_internal, register
from tests.ops.test_table import ROWS, draw, kind, live, run

MXNET = json.loads((Path(__file__).parent.parent / "data" / "operator_columns.json").read_text())
NAMES = MXNET["names"]
ALIASES = {
    a: name
    for names in (MXNET["names_1"], NAMES)
    for name, aliases in names.items()
    for a in aliases
}

# ------------------------------------------------------------------------------ registry names

# Functions of NumPy that MXNet runs as Python code: no operator of its own.
PYTHON = "Custom"
# What MXNet writes as an expression in another operator: x != x.
EXPRESSIONS = {"isnan_@nd"}
# Functions of a row that MXNet has as two operators: the row has the name of the first.
# Registered in MXNet's builds for GPUs alone; the names were recorded of one for CPUs.
GPU_ONLY = {"_contrib_mrcnn_mask_target"}
OTHERS = {
    "npx.broadcast_greater": "broadcast_greater",
    "nd.moveaxis": "transpose",
}


def test_internal_names_are_registered():
    unknown, aliases = [], []
    for op in TABLE.values():
        names = [op.names.internal, op.names.internal_scalar, op.names.internal_rscalar]
        unknown += [(op.name, n) for n in names if n is not None and n not in {*NAMES, *GPU_ONLY}]
        if not op.name.endswith("_scalar"):  # these have their alias by convention
            known = (NAMES, MXNET["names_1"], ALIASES)
            aliases += [(op.name, a) for a in op.names.aliases if not any(a in k for k in known)]
    assert not unknown, (
        "(row, name) that MXNet has no operator of: the row says MXNet's name with internal=, or "
        "internal=None where it is ours alone"
    )
    assert not aliases


def names_seen():
    for row, functions in MXNET["seen"].items():
        for path, names in functions.items():
            if names != [PYTHON] and row not in EXPRESSIONS:
                yield TABLE[row], path, names


def test_rows_have_the_name_that_mxnet_writes():
    wrong, seen = [], 0
    for op, path, names in names_seen():
        seen += 1
        if path in OTHERS:
            right = names == [OTHERS[path]] and op.names.internal not in names
        else:
            known = {op.names.internal, *op.names.aliases}
            right = path in MXNET["composed"] or set(names) <= known
        if not right:
            wrong.append((op.name, path, names))
    assert not wrong and seen > 500


def test_rows_have_the_names_with_a_number_on_either_side():
    wrong = [
        (row, names)
        for row, functions in MXNET["scalars"].items()
        for names in functions.values()
        if [TABLE[row].names.internal_scalar, TABLE[row].names.internal_rscalar] != names
    ]
    assert not wrong and len(MXNET["scalars"]) >= 50


def test_a_row_is_found_by_any_registered_name():
    ours = {op.names.internal for op in TABLE.values()} - {None}
    for name in ours:
        assert by_internal(name).names.internal == name
    for alias, name in ALIASES.items():
        # 2.0 made operators of some aliases of 1.x; sparse arrays are not there.
        if name in ours and alias not in NAMES and not alias.startswith("_sparse_"):
            found = by_internal(alias)
            assert found is not None and found.names.internal == name, alias


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("FullyConnected", "fully_connected@nd"),  # with the defaults that files leave out
        ("Concat", "concat@nd"),
        ("_npx_reshape", "reshape@npx"),
        ("_npi_full_like", "full_like"),
        ("_npi_copy", "copy"),
        ("_copy", "copy@nd"),
        ("erf", "erf@nd"),
        ("transpose", "transpose@nd"),
        ("_npi_tensordot_int_axes", "tensordot"),
        ("_npi_rsubtract_scalar", "rsubtract_scalar"),
        ("_npi_greater_scalar", "greater_scalar"),
        ("_rminus_scalar", "rsubtract_scalar@nd"),
        ("_RMinusScalar", "rsubtract_scalar@nd"),
        # Of MXNet 1.x and before.
        ("_np_sum", "sum"),
        ("_Plus", "elemwise_add"),
        ("_sub", "elemwise_sub"),
        ("_Power", "power@nd"),
        ("_mod", "mod@nd"),
        ("_GreaterEqual", "greater_equal@nd"),
    ],
)
def test_of_several_rows_the_one_that_files_mean_is_found(name, row):
    assert by_internal(name) is TABLE[row]


def test_names_that_no_row_has_are_not_found():
    assert by_internal("_contrib_dgl_adjacency") is None
    assert by_internal("no such operator") is None


# ---------------------------------------------------------------------------------- results


@pytest.mark.parametrize("op", [p for p in ROWS if p.values[0].modal])
def test_rows_know_how_many_results_they_have_in_training(op):
    """tests/ops/test_table.py asks it of all rows outside of training; the others do not know the mode."""
    for k, sample in enumerate(op.tests.samples):
        with mx.autograd.train_mode():
            outs = run(op, live(op, draw(op, sample, k)), sample.attrs)
        attrs = {k: v.graph() if isinstance(v, Body) else v for k, v in sample.attrs.items()}
        assert op.count_outputs(attrs, len(sample.args)) == len(outs)


@pytest.mark.parametrize(
    ("row", "attrs", "sample"),
    [
        ("batch_norm", {"output_mean_var": True}, 0),
        ("layer_norm", {"output_mean_var": True}, 0),
        ("group_norm", {"output_mean_var": True}, 0),
        ("average", {"returned": True}, 0),
        ("categorical", {"get_prob": True}, 0),
        ("rnn", {"state_outputs": True}, 1),
        ("rnn", {"state_outputs": True}, 2),
        ("split", {"indices_or_sections": [1, 2, 3]}, 0),
        ("slice_channel", {"num_outputs": 4}, 0),
    ],
)
def test_attributes_tell_how_many_results_there_are(row, attrs, sample):
    op = TABLE[row]
    given = {**op.tests.samples[sample].attrs, **attrs}
    outs = run(op, live(op, draw(op, op.tests.samples[sample], sample)), given)
    assert op.count_outputs(given) == len(outs) > 1


# ------------------------------------------------------------------------------------- shapes


def tuples(value):
    return tuple(tuples(v) for v in value) if isinstance(value, list) else value


def test_shapes_follow_from_the_data_as_in_mxnet():
    wrong = []
    for asked in MXNET["shapes"]:
        op = by_internal(asked["operator"])
        attrs = {k: tuples(v) for k, v in asked["attrs"].items()}
        found = op.infer_shapes(tuple(asked["shape"]), attrs)
        wanted = [tuples(shape) for shape in asked["found"]]
        # Optional arrays that the attributes leave out are not among MXNet's.
        given = [found.get(name) for name in op.array_params[1:]]
        while len(given) > len(wanted) and None in given:
            given.remove(None)
        if given != wanted or not set(found) <= set(op.array_params[1:]):
            wrong.append((asked, found))
    assert not wrong and len(MXNET["shapes"]) >= 130


def test_every_row_whose_shapes_mxnet_infers_says_so():
    inferring = {case["operator"] for case in MXNET["shapes"] if any(case["found"])}
    for op in TABLE.values():
        if op.names.internal in inferring:
            assert op.inference.shapes is not None or by_internal(op.names.internal) is not op, (
                op.name
            )
    assert {by_internal(name).name for name in inferring} <= {
        op.name for op in TABLE.values() if op.inference.shapes
    }


def test_the_form_of_nd_names_its_own_arrays():
    shape = (2, 3, 4)
    assert list(TABLE["batch_norm"].infer_shapes(shape, {})) == [
        "gamma",
        "beta",
        "running_mean",
        "running_var",
    ]
    assert list(TABLE["batch_norm@nd"].infer_shapes(shape, {})) == [
        "gamma",
        "beta",
        "moving_mean",
        "moving_var",
    ]


def test_inferred_shapes_are_those_the_operator_takes():
    for op in TABLE.values():
        for sample in op.tests.samples if op.inference.shapes else ():
            shape = getattr(sample.args[0], "shape", None)
            if shape is None or 0 in shape:
                continue
            for name, found in op.infer_shapes(shape, sample.attrs).items():
                at = name if isinstance(name, int) else op.array_params.index(name)
                given = sample.args[at] if at < len(sample.args) else None
                if (
                    given is not None and op.name != "softmax_output"
                ):  # it takes rows of places in any shape
                    assert draw(op, sample, 0)[at].shape == found, (op.name, name)


# ---------------------------------------------------------------------------- mixed precision

# Products compute in the low precision here; MXNet takes the widest dtype of their operands.
BETTER = {
    **dict.fromkeys(["dot", "dot@nd", "batch_dot", "batch_dot@nd", "inner", "tensordot"], "low"),
    "rtrue_divide_scalar@nd": None,  # as the other divisions
}
WORDS = {name: word for word in ("low", "full", "widest") for name in MXNET["amp"][word]}


def test_mixed_precision_is_as_mxnet_lists_it():
    rows = [op for op in TABLE.values() if op.names.internal is not None]
    wrong = [
        op.name
        for op in rows
        if op.precision.amp != BETTER.get(op.name, WORDS.get(op.names.internal))
    ]
    assert not wrong and len(rows) > 600


def test_the_lists_of_the_settings_are_of_what_calls_are_named():
    white, black = precision._rated("low"), precision._rated("full")
    assert {
        "FullyConnected",
        "Convolution",
        "Deconvolution",
        "RNN",
        "dot",
        "matmul",
        "batch_dot",
        "einsum",
    } <= white
    assert {"softmax", "log_softmax", "LayerNorm", "exp", "sum", "norm", "CTCLoss"} <= black
    assert not white & black


def test_a_word_that_there_is_not_is_refused():
    with pytest.raises(errors.MXNetValueError, match=r"has amp='half'; it is one of"):
        Op("halved", lambda x: x, {}, amp="half")


# ------------------------------------------------------------------------------------ methods


@pytest.mark.parametrize("op", [p for p in ROWS if p.values[0].names.methods])
def test_methods_are_the_functions(op):
    for cls, names in op.names.methods.items():
        array = NDArray if cls == "nd" else ndarray
        for name in names:
            assert METHODS[cls][name] is op
            assert getattr(array, name).__doc__.startswith(help.about(op))
    if op.keyed or op.variadic:
        return
    sample = op.tests.samples[0]
    args = draw(op, sample, 0)
    want = [o.asnumpy() for o in run(op, live(op, args), sample.attrs)]
    first, *rest = live(op, args)
    for name in op.names.methods.get("np" if kind(op) is ndarray else "nd", ()):
        if name.startswith("__"):
            continue
        out = getattr(first, name)(*rest, **sample.attrs)
        out = list(out) if isinstance(out, (list, tuple)) else [out]
        assert [o.asnumpy().tolist() for o in out] == [w.tolist() for w in want]


def test_a_method_belongs_to_one_row():
    twice = Op("exp_again", lambda x: x, {}, methods={"np": "exp"}, samples=[case(f(2))])
    with pytest.raises(
        errors.MXNetValueError, match="exp of np arrays is both operator 'exp' and 'exp_again'"
    ):
        register(twice)
    assert METHODS["np"]["exp"] is TABLE["exp"] and "exp_again" not in TABLE


def test_a_column_that_there_is_not_is_refused():
    with pytest.raises(
        errors.MXNetTypeError, match=r"has no column 'output'; did you mean 'outputs'"
    ):
        Op("halved", lambda x: x, {}, output=2)
    with pytest.raises(errors.MXNetValueError, match=r"has unknown='lost'; it is one of"):
        Op("halved", lambda x: x, {}, unknown="lost")


def test_a_name_of_files_means_one_row():
    with pytest.raises(
        errors.MXNetValueError, match=r"_npi_hsplit of files is both operator 'hsplit'"
    ):
        register(Op("halved", lambda x: x, {}, read={"_npi_hsplit": "split"}))
    assert "halved" not in TABLE


def test_a_conditions_dtype_says_nothing_about_what_is_chosen():
    c, x, y = (mx.sym.var(name).as_np_ndarray() for name in "cxy")
    found, outs, _ = mx.sym.np.where(c, x, y).infer_type(c="bool", x="float16")
    assert [np.dtype(t).name for t in (*found, *outs)] == ["bool", "float16", "float16", "float16"]
