"""The operator table, in files by topic."""

from __future__ import annotations

from . import activation as activation
from . import attention as attention
from . import choices as choices
from . import contrib as contrib
from . import control_flow as control_flow
from . import creation as creation
from . import deformable as deformable
from . import detection as detection
from . import deviations as deviations
from . import elementwise as elementwise
from . import image as image
from . import indexing as indexing
from . import internal as internal
from . import linalg as linalg
from . import loss as loss
from . import nn as nn
from . import optimizer as optimizer
from . import optimizer_contrib as optimizer_contrib
from . import pdf as pdf
from . import quantized as quantized
from . import random as random
from . import reduction as reduction
from . import rewriting as rewriting
from . import rnn as rnn
from . import sequence as sequence
from . import shape as shape
from . import signal as signal
from . import sorting as sorting
from . import sparse as sparse
from .lowering import cross_entropy as cross_entropy
from .table import FRONT_ENDS, TABLE, Op, binary, op, unary

deviations.enter()
choices.enter()

__all__ = ["FRONT_ENDS", "TABLE", "Op", "binary", "op", "unary"]
