"""Stochastic variance-reduced gradients (Johnson and Zhang 2013) for `mx.mod.Module`."""

from __future__ import annotations

from . import svrg_module, svrg_optimizer
from .svrg_module import SVRGModule

__all__ = ["SVRGModule", "svrg_module", "svrg_optimizer"]
