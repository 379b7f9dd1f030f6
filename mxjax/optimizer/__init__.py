"""Optimizers with MXNet's update rules: `mx.optimizer`."""

from ..display.wording import told as _told
from ..errors import explain_names as _explain_names
from . import mxnet1 as _mxnet1  # noqa: F401  # the other generation of rules
from .adam import LAMB, LANS, AdaBelief, Adam, Adamax, AdamW, Nadam
from .adaptive import FTML, AdaDelta, AdaGrad, Ftrl, GroupAdaGrad, RMSProp
from .legacy import LBSGD, NDabs, ccSGD
from .optax import Optax
from .optimizer import Optimizer, create, register
from .rules import Guard
from .sgd import DCASGD, LARS, NAG, SGD, SGLD, Signum, Test
from .updater import Updater, get_updater

__all__ = [
    "DCASGD",
    "FTML",
    "LAMB",
    "LANS",
    "LARS",
    "LBSGD",
    "NAG",
    "SGD",
    "SGLD",
    "AdaBelief",
    "AdaDelta",
    "AdaGrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Ftrl",
    "GroupAdaGrad",
    "Guard",
    "NDabs",
    "Nadam",
    "Optax",
    "Optimizer",
    "RMSProp",
    "Signum",
    "Test",
    "Updater",
    "ccSGD",
    "create",
    "get_updater",
    "register",
]

_told(register)
_explain_names(__name__)
