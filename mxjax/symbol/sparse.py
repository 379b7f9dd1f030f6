"""What `mx.sym.sparse` has: the operators that MXNet can compute on sparse arrays. They are those of `mx.sym`."""

from __future__ import annotations

from typing import Any

from ..errors import no_name

_NAMES = """ElementWiseSum Embedding FullyConnected LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput
abs adagrad_update adam_update add_n arccos arccosh arcsin arcsinh arctan arctanh broadcast_add broadcast_div
broadcast_minus broadcast_mul broadcast_plus broadcast_sub cast_storage cbrt ceil clip concat cos cosh degrees digamma
dot elemwise_add elemwise_div elemwise_mul elemwise_sub exp expm1 fix floor ftrl_update gamma gammaln log log10 log1p
log2 log_sigmoid make_loss mean mish negative norm radians relu retain rint round rsqrt sgd_mom_update sgd_update
sigmoid sign sin sinh slice sqrt square stop_gradient sum tan tanh trunc where zeros_like""".split()
#: Names that are those of `mx.sym._internal`, or of no function of `mx.sym`.
_OWN = {"retain": "_sparse_retain", "adagrad_update": "_sparse_adagrad_update"}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        from mxjax import symbol

        if name in _OWN:
            return getattr(symbol._internal, _OWN[name])

        if hasattr(symbol, name):
            return getattr(symbol, name)
    raise no_name(__name__, name)


def __dir__() -> list[str]:
    return [*globals(), *_NAMES]
