"""Where rows knowingly differ from MXNet: their column `deviates`, a sentence for each kind of call.

``(sentence, rows, calls)``; the calls are those that MXNet's answers are recorded of (tests/record/table.py): ``sample``
(the row's samples), a dtype, ``special`` (NaN and infinities), ``zero`` (recorded in tests/ops/test_edges.py), ``empty``, ``one``, ``scalar``, ...; ``*`` is any. tests/ops/test_recorded_table.py
holds each row to all that is not named here.
"""

from __future__ import annotations

from .table import TABLE

DEVIATIONS: tuple[tuple[str, str, str], ...] = (
    (
        "MXNet has no derivative there and gives zeros; here it is the derivative.",
        "atleast_1d atleast_2d atleast_3d interp linalg_eigh linalg_eigvalsh linalg_pinv median percentile quantile repeat "
        "std var",
        "*",
    ),
    (
        "MXNet keeps no places of a maximum outside training, and so its gradient there is zeros.",
        "pooling",
        "sample",
    ),
    (
        "The derivative by the divisor is that of the truncated quotient; MXNet takes that of mod.",
        "fmod rfmod_scalar",
        "*",
    ),
    (
        "MXNet's derivative of arctan2(number, x) has another sign and factor; here it is -number / (number ** 2 + x ** 2).",
        "rarctan2_scalar",
        "*",
    ),
    (
        "MXNet turns the gradient by the angle once more, not back.",
        "rot90",
        "*",
    ),
    (
        "float32 along an axis stays float32; MXNet has the dtype that NumPy 1.23 gives there.",
        "nanpercentile nanquantile",
        "sample axis keepdims",
    ),
    (
        "What an integer divided by zero gives is nobody's promise.",
        "rfloor_divide_scalar rtrue_divide_scalar@nd divmod_",
        "int8 int32 int64 uint8 bool",
    ),
    (
        "float16 is computed in float32 and rounded once.",
        "ftml_update lamb_update_phase1",
        "float16",
    ),
    (
        "An array of nd has an axis, as in MXNet 1; MXNet 2 gives a number without one where shapes are NumPy's.",
        "la_det la_slogdet",
        "*",
    ),
    (
        "The derivative of 0 ** y is 0; MXNet computes the logarithm of 0, and gets infinity and NaN.",
        "power rpower_scalar",
        "zero",
    ),
    (
        "MXNet multiplies SELU's gradient by lambda once more.",
        "leaky_relu",
        "sample",
    ),
    (
        "MXNet computes float64 with constants or functions of float32.",
        "degrees digamma erf erfinv gamma gammaln percentile quantile",
        "float64 float16 scalar",
    ),
    (
        "NaN spreads, and infinities follow IEEE 754; MXNet's kernels compare with NaN, or take the largest finite number to begin with.",
        "activation adaptive_avg_pooling argsort argsort@nd bilinear_resize ctc_loss deconvolution digamma digamma@nd fmax fmin gamma gammaln "
        "psroi_pooling rmod_scalar rmod_scalar@nd roi_align rsqrt@nd signsgd_update signum_update softmax_output intgemm_maxabsolute intgemm_prepare_data intgemm_prepare_weight log_softmax logaddexp logaddexp_scalar "
        "masked_softmax partition rcopysign_scalar rlogaddexp_scalar sort spacing col2im im2col ftrl_update lamb_update_phase1 "
        "log_softmax@nd power@nd gamma@nd "
        "gammaln@nd rarctan2_scalar median percentile pooling power quantile quantize_v2 sign_ste "
        "sldwin_atten_score softmax",
        "special",
    ),
    (
        "Outside training fix_gamma reads gamma as 1 and leaves the array alone; MXNet fills it with ones.",
        "batch_norm batch_norm@nd batch_norm_with_relu",
        "sample",
    ),
    (
        "A number beside an array of bools is compared as the number it is; MXNet makes a bool of it first.",
        "equal_scalar greater_equal_scalar greater_scalar less_equal_scalar less_scalar not_equal_scalar",
        "bool",
    ),
    (
        "A number that is no integer is refused, as NumPy refuses it; MXNet cuts it off.",
        "gcd_scalar lcm_scalar",
        "int8 int32 int64 uint8 bool special empty scalar",
    ),
    (
        "Which of the elements in front of the k-th comes first is nobody's promise.",
        "argpartition partition",
        "*",
    ),
    (
        "Integers are rounded to tens as NumPy rounds them; MXNet cuts them off.",
        "around",
        "sample",
    ),
    (
        "The norm of integers is a float; MXNet's is cut off to an integer, of which it warns.",
        "linalg_matrix_norm linalg_norm linalg_vector_norm",
        "int8 int32 int64 uint8 bool",
    ),
    (
        "The signs of singular vectors are LAPACK's.",
        "linalg_svd",
        "sample float64 float16 one axis",
    ),
    (
        "OpenCV interpolates bytes in fixed point, which is off by one.",
        "image_resize image_adjust_lighting",
        "sample one",
    ),
    (
        "Sums of integers are scaled in float32 in another order, so the last bits differ.",
        "quantized_batch_norm quantized_elemwise_add",
        "sample one axis",
    ),
    (
        "Bytes are quantized as floats are; MXNet hands them through.",
        "quantize_v2",
        "int8 uint8",
    ),
    (
        "oneDNN's logarithm of 1 is not 0.",
        "log_softmax",
        "one",
    ),
    (
        "Of nothing there is no maximum, middle or position, which is refused; MXNet gives memory that nobody wrote.",
        "intgemm_maxabsolute linalg_slogdet linalg_tensorsolve median percentile quantile quantized_flatten roi_pooling softmax_activation "
        "sequence_last nanmedian nanpercentile nanquantile trapz col2im im2col",
        "empty",
    ),
    (
        "MXNet reads beyond an array of one element, or without an axis.",
        "interleaved_matmul_selfatt_qk sequence_last sldwin_atten_mask_like slice_like softmax_activation softmin svm_output "
        "tensordot",
        "one scalar",
    ),
    (
        "float16 has no such decomposition, which is a NotImplementedError; of singular matrices the condition is large, or infinite.",
        "linalg_cond",
        "float16 bool",
    ),
)


def enter() -> None:
    """Fill the column of the rows, which are all there by then."""
    for sentence, rows, calls in DEVIATIONS:
        for row in rows.split():
            TABLE[row].deviates = {**TABLE[row].deviates, **dict.fromkeys(calls.split(), sentence)}
