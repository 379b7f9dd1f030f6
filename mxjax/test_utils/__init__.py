"""Helpers for tests: comparisons with MXNet's tolerances, random arrays, gradient checks.

The names and defaults are those of `mxnet.test_utils`, as far as they do not need symbols.
"""

from __future__ import annotations

# `from mxnet.test_utils import *`, with which tests begin, brings these two as well.
import numpy as np

import mxjax as mx

from ..errors import explain_names as _explain_names
from ..util import use_np, use_np_default_dtype
from .compare import (
    almost_equal,
    assert_allclose,
    assert_almost_equal,
    assert_almost_equal_ignore_nan,
    assert_almost_equal_with_err,
    assert_exception,
    default_atols,
    default_numeric_eps,
    default_rtols,
    effective_dtype,
    get_atol,
    get_etol,
    get_rtol,
    get_tolerance,
    get_tols,
    same,
    same_array,
)
from .generate import (
    collapse_sum_like,
    create_2d_tensor,
    create_vector,
    default_dtype,
    np_reduce,
    rand_coord_2d,
    rand_ndarray,
    rand_shape_2d,
    rand_shape_3d,
    rand_shape_nd,
    random_arrays,
    random_sample,
    random_uniform_arrays,
)
from .gradients import (
    check_gluon_hybridize_consistency,
    check_numeric_gradient,
)
from .statistics import (
    chi_square_check,
    gen_buckets_probs_with_ppf,
    mean_check,
    var_check,
    verify_generator,
)
from .surroundings import (
    default_device,
    discard_stderr,
    download,
    environment,
    get_mnist,
    has_tvm_ops,
    is_cd_run,
    is_op_runnable,
    list_gpus,
    set_default_device,
)

__all__ = [
    "almost_equal",
    "assert_allclose",
    "assert_almost_equal",
    "assert_almost_equal_ignore_nan",
    "assert_almost_equal_with_err",
    "assert_exception",
    "check_gluon_hybridize_consistency",
    "check_numeric_gradient",
    "chi_square_check",
    "collapse_sum_like",
    "create_2d_tensor",
    "create_vector",
    "default_atols",
    "default_device",
    "default_dtype",
    "default_numeric_eps",
    "default_rtols",
    "discard_stderr",
    "download",
    "effective_dtype",
    "environment",
    "gen_buckets_probs_with_ppf",
    "get_atol",
    "get_etol",
    "get_mnist",
    "get_rtol",
    "get_tolerance",
    "get_tols",
    "has_tvm_ops",
    "is_cd_run",
    "is_op_runnable",
    "list_gpus",
    "mean_check",
    "mx",
    "np",
    "np_reduce",
    "rand_coord_2d",
    "rand_ndarray",
    "rand_shape_2d",
    "rand_shape_3d",
    "rand_shape_nd",
    "random_arrays",
    "random_sample",
    "random_uniform_arrays",
    "same",
    "same_array",
    "set_default_device",
    "use_np",
    "use_np_default_dtype",
    "var_check",
    "verify_generator",
]

_explain_names(__name__)
