"""Helpers for tests: comparisons with MXNet's tolerances, random arrays, gradient checks.

The names and defaults are those of `mxnet.test_utils`.
"""

from __future__ import annotations

# `from mxnet.test_utils import *`, with which tests begin, brings these as well.
import bz2
import errno
import gzip
import json
import logging
import numbers
import os
import platform
import struct
import sys
import time
import traceback
import zipfile
from collections import OrderedDict
from contextlib import contextmanager

import numpy as np
import numpy.random as rnd
import numpy.testing as npt

import mxjax as mx

from ..device import current_device
from ..errors import explain_names as _explain_names
from ..modes import generation
from ..runtime import Features
from ..symbol import Symbol
from ..util import getenv, setenv, use_np, use_np_default_dtype
from .compare import (
    almost_equal,
    assert_allclose,
    assert_almost_equal,
    assert_almost_equal_ignore_nan,
    assert_almost_equal_with_err,
    assert_exception,
    checkShapes,
    default_atols,
    default_numeric_eps,
    default_rtols,
    effective_dtype,
    get_atol,
    get_etol,
    get_rtol,
    get_tolerance,
    get_tols,
    locationError,
    same,
    same_array,
)
from .files import (
    download_model,
    get_bz2_data,
    get_cifar10,
    get_im2rec_path,
    get_mnist_iterator,
    get_mnist_pkl,
    get_mnist_ubyte,
    get_zip_data,
)
from .generate import (
    assign_each,
    assign_each2,
    collapse_sum_like,
    create_2d_np_tensor,
    create_2d_tensor,
    create_vector,
    default_dtype,
    get_identity_mat,
    get_identity_mat_batch,
    new_matrix_with_real_eigvals_2d,
    new_matrix_with_real_eigvals_nd,
    new_orthonormal_matrix_2d,
    new_sym_matrix_with_real_eigvals_2d,
    new_sym_matrix_with_real_eigvals_nd,
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
from .optimizers import (
    compare_ndarray_tuple,
    compare_optimizer,
    compare_optimizer_noise_seeded,
)
from .sparse import (
    create_sparse_array,
    create_sparse_array_zd,
    rand_sparse_ndarray,
    shuffle_csr_column_indices,
)
from .statistics import (
    chi_square_check,
    gen_buckets_probs_with_ppf,
    mean_check,
    var_check,
    verify_generator,
)
from .surroundings import (
    DummyIter,
    default_context,
    default_device,
    discard_stderr,
    download,
    environment,
    get_mnist,
    has_tvm_ops,
    is_aarch64_run,
    is_cd_run,
    is_op_runnable,
    list_gpus,
    retry,
    set_default_context,
    set_default_device,
)
from .symbols import (
    check_consistency,
    check_speed,
    check_symbolic_backward,
    check_symbolic_forward,
    numeric_grad,
    same_symbol_structure,
    simple_forward,
)

__all__ = [
    "bz2",
    "contextmanager",
    "errno",
    "gzip",
    "numbers",
    "platform",
    "struct",
    "traceback",
    "zipfile",
    "DummyIter",
    "Features",
    "OrderedDict",
    "Symbol",
    "almost_equal",
    "assert_allclose",
    "assert_almost_equal",
    "assert_almost_equal_ignore_nan",
    "assert_almost_equal_with_err",
    "assert_exception",
    "assign_each",
    "assign_each2",
    "checkShapes",
    "check_consistency",
    "check_gluon_hybridize_consistency",
    "check_numeric_gradient",
    "check_speed",
    "check_symbolic_backward",
    "check_symbolic_forward",
    "chi_square_check",
    "collapse_sum_like",
    "compare_ndarray_tuple",
    "compare_optimizer",
    "compare_optimizer_noise_seeded",
    "create_2d_np_tensor",
    "create_2d_tensor",
    "create_sparse_array",
    "create_sparse_array_zd",
    "create_vector",
    "current_device",
    "default_atols",
    "default_context",
    "default_device",
    "default_dtype",
    "default_numeric_eps",
    "default_rtols",
    "discard_stderr",
    "download",
    "download_model",
    "effective_dtype",
    "environment",
    "gen_buckets_probs_with_ppf",
    "get_atol",
    "get_bz2_data",
    "get_cifar10",
    "get_etol",
    "get_identity_mat",
    "get_identity_mat_batch",
    "get_im2rec_path",
    "get_mnist",
    "get_mnist_iterator",
    "get_mnist_pkl",
    "get_mnist_ubyte",
    "get_rtol",
    "get_tolerance",
    "get_tols",
    "get_zip_data",
    "getenv",
    "has_tvm_ops",
    "is_aarch64_run",
    "is_cd_run",
    "is_op_runnable",
    "json",
    "list_gpus",
    "locationError",
    "logging",
    "mean_check",
    "mx",
    "new_matrix_with_real_eigvals_2d",
    "new_matrix_with_real_eigvals_nd",
    "new_orthonormal_matrix_2d",
    "new_sym_matrix_with_real_eigvals_2d",
    "new_sym_matrix_with_real_eigvals_nd",
    "np",
    "np_reduce",
    "npt",
    "numeric_grad",
    "os",
    "rand_coord_2d",
    "rand_ndarray",
    "rand_shape_2d",
    "rand_shape_3d",
    "rand_shape_nd",
    "rand_sparse_ndarray",
    "random_arrays",
    "random_sample",
    "random_uniform_arrays",
    "retry",
    "rnd",
    "same",
    "same_array",
    "same_symbol_structure",
    "set_default_context",
    "set_default_device",
    "setenv",
    "shuffle_csr_column_indices",
    "simple_forward",
    "sys",
    "time",
    "use_np",
    "use_np_default_dtype",
    "var_check",
    "verify_generator",
]
# What MXNet's module holds beside its own; `compat/module_names.py` knows the names that are not above.
__all__ += [
    *("get_cuda_compute_capability", "np_symbol", "ss"),
]
if generation() == 1:
    __all__ += ["Context", "array", "current_context"]
else:
    __all__ += ["get_max_supported_compute_capability", "get_rtc_compile_opts"]

_explain_names(__name__)
