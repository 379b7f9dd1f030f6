"""What JAX's primitives are, by name: the one place that classifies them.

Who asks: NumPy's interpretation (`../interpret`), prices and exact answers on the host (`../run/price.py`,
`../run/host_compute.py`), images and loops (`../compile`), and memonger (what is kept, what is computed again).
What stands nowhere here costs as much as a sum, and is neither turned, nor kept, nor known to be exact: a new
primitive of JAX costs speed, no right result. `tests/core/graph/test_primitives.py` says which of these a JAX lacks.
"""

from __future__ import annotations

# ---- wrappers -------------------------------------------------------------------------------------------

#: What `jax.checkpoint` is called in a jaxpr, by version of JAX.
AGAIN = frozenset({"checkpoint", "remat", "remat2"})
#: Calls in a jaxpr that are nothing but their bodies.
INLINED = frozenset({"closed_call", "core_call", "jit", "pjit"})
#: Functions with derivatives of their own.
CUSTOM = frozenset({"custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"})
LOOPS = frozenset({"scan", "while"})

# ---- what they do with numbers ----------------------------------------------------------------------------

#: Functions whose last bits differ between NumPy and XLA.
ROUNDED = frozenset(
    "acos acosh asin asinh atan atan2 atanh cbrt cos cosh exp exp2 expm1 log log1p logistic pow rsqrt sin sinh tan "
    "tanh".split()
)
#: Arithmetic that NumPy computes to the last bit, of integers at least: XLA may round products and sums at once, and
#: a quotient as a product.
ROUNDED_TOGETHER = frozenset("add div integer_pow mul rem square sub".split())
_SIMPLE = frozenset(
    "abs add_any and ceil clamp convert_element_type copy copy_p digamma eq erf erf_inv erfc floor ge gt is_finite "
    "le lgamma lt max min name ne neg nextafter not or reduce_precision round select_n sign sqrt stop_gradient "
    "xor".split()
)
#: Those that treat each element by itself.
POINTWISE = ROUNDED | ROUNDED_TOGETHER | _SIMPLE
#: Those of them that are computed again, number by number, in less time than it takes to write and read them.
CHEAP = (
    POINTWISE
    - ROUNDED
    - set("copy copy_p digamma div erf erf_inv erfc lgamma name rem sqrt".split())
)
REDUCING = frozenset("reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum".split())
_MOVING = frozenset(
    "broadcast_in_dim concatenate dynamic_slice iota reshape slice squeeze stack transpose".split()
)
_INEXACT = frozenset(
    "add_any digamma erf erf_inv erfc is_finite lgamma name nextafter reduce_precision round sqrt stop_gradient".split()
)
#: What a compiler merges with what uses its results, besides those that treat each element by itself.
MOVING = _MOVING | {"gather", "pad", "rev", "split", "tile", "unstack"}
#: Functions that are polynomials, in a program.
FUNCTIONS = (ROUNDED - {"rsqrt"}) | {"digamma", "erf", "erf_inv", "erfc", "lgamma"}
#: What NumPy computes to the last bit, as every device does, one by one or of integers.
EXACT = ROUNDED_TOGETHER | REDUCING | _MOVING | (_SIMPLE - _INEXACT)

# ---- what they read and write -------------------------------------------------------------------------------

#: The same numbers in another shape: nothing is computed.
FREE = frozenset({"expand_dims", "reshape", "squeeze", "stop_gradient"})
#: What only looks at an array.
VIEWS = frozenset({"expand_dims", "reshape", "slice", "split", "squeeze", "unstack"})
#: These read of their operand no more than they give.
PARTS = frozenset({"dynamic_slice", "gather", "slice", "squeeze"})
#: These are written in their operand's place, so that the update counts alone: which operand that is.
PLACED = {
    "dynamic_update_slice": 1, "scatter": 2, "scatter-add": 2, "scatter-max": 2, "scatter-min": 2, "scatter-mul": 2,
}  # fmt: skip

# ---- what they cost -----------------------------------------------------------------------------------------

#: Convolutions, as JAX and as we write them.
CONVOLUTIONS = (
    "conv_general_dilated",
    "convolution",
    "convolution_input_gradient",
    "convolution_weight_gradient",
)
PRODUCTS = frozenset({"conv_general_dilated", "dot_general"})
#: Libraries compute these, whatever the program is compiled with.
LIBRARY = PRODUCTS | {"custom_call", "fft"}
DRAWS = frozenset({"random_bits", "threefry2x32"})
#: Keys made of keys.
KEYS = frozenset({"random_fold_in", "random_split"})
#: Numbers that take as long as so many sums: a quick program calls a function for each, or compares many times.
WEIGHTS = {
    "exp": 4, "log": 4, "tanh": 4, "logistic": 4, "sin": 4, "cos": 4, "pow": 8, "erf": 4, "log1p": 4, "expm1": 4,
    "search": 50, "sort": 50, "cumsum": 37, "cumprod": 37, "cummax": 37, "cummin": 37, "cumlogsumexp": 37,
    **dict.fromkeys(DRAWS, 20),
}  # fmt: skip

# ---- what is computed again ---------------------------------------------------------------------------------

#: Not to be computed twice: they draw numbers, or call Python.
ONCE = DRAWS | {"io_callback", "pure_callback", "rng_bit_generator", "rng_uniform"}
#: Costly to compute again.
COSTLY = (
    ONCE
    | PRODUCTS
    | LOOPS
    | {*CONVOLUTIONS, "ragged_dot_general", "concatenate", "fft", "search", "sort"}
    | {"cholesky", "eigh", "lu", "qr", "svd"}
)

# ---- what a compiler makes of them --------------------------------------------------------------------------

#: Shapes, names, memory: nothing in a program.
PASSED = FREE | {
    "copy", "copy_p", "layout_constraint", "name", "random_unwrap", "random_wrap", "sharding_constraint",
}  # fmt: skip
#: Not computed again for each number that is made of one result.
ONCE_EACH = FUNCTIONS | {"div", "gather", "rem", "rsqrt", "sqrt"}
#: The kind of each, as the table of prices has it (`../run/constants.CPU_CODE`); the others are arithmetic.
KINDS = {
    **dict.fromkeys(FUNCTIONS, "function"),
    **dict.fromkeys(MOVING, "moving"),
    "transpose": "turn",
    **dict.fromkeys(REDUCING | {"argmax", "argmin", "reduce", "reduce_xor"}, "reduction"),
    "reduce_sum": "sum",
    "dot_general": "product", "ragged_dot_general": "product",
    **dict.fromkeys(PLACED, "placed"), "dynamic_update_slice": "update",
    **dict.fromkeys(
        "cumlogsumexp cummax cummin cumprod cumsum max_pool_pick reduce_window reduce_window_max reduce_window_min "
        "reduce_window_sum".split(), "windows",
    ),
    "max_pool_pick_transpose": "windows placed", "select_and_scatter_add": "windows placed",
    "approx_top_k": "sort", "sort": "sort", "top_k": "sort",
    "cond": "branch", "row_sums": "row sums", "scan": "loop", "search": "loop", "while": "loop",
    **dict.fromkeys(DRAWS | {"rng_bit_generator"}, "draw"),
    **dict.fromkeys(KEYS | {"random_seed"}, "key"),
    "optimization_barrier": "barrier",
    **dict.fromkeys(
        "cholesky custom_call eig eigh fft householder_product io_callback lu pure_callback qr svd "
        "triangular_solve".split(), "library",
    ),
}  # fmt: skip
