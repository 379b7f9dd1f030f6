"""What computes in float16, in float32, and in either, by MXNet's registry names."""

from ..operators import conditional, losses, named

#: Computed in low precision.
FP16_FUNCS = named("low")
#: Computed in what they are given.
FP16_FP32_FUNCS = named(None)
#: Computed in float32.
FP32_FUNCS = named("full")
#: Computed in float32 where an attribute has one of these values: (operator, attribute, values).
CONDITIONAL_FP32_FUNCS = conditional()
#: Computed in the widest of their arrays' dtypes.
WIDEST_TYPE_CASTS = named("widest")
#: Losses whose gradient is their own: the loss scale goes into their `grad_scale`.
LOSS_OUTPUT_FUNCTIONS = losses()
