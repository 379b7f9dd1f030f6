"""The events of a training, as base classes of handlers."""

from __future__ import annotations

from typing import Any

from mxjax.display.reprs import Shown


class EventHandler(Shown):
    """The base of handlers; those with a smaller ``priority`` come first (0 where there is none)."""


class TrainBegin(EventHandler):
    """A handler that is called before training."""

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """Before the first epoch."""


class TrainEnd(EventHandler):
    """A handler that is called after training."""

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """After the last epoch."""


class EpochBegin(EventHandler):
    """A handler that is called before each epoch."""

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """Before the first batch."""


class EpochEnd(EventHandler):
    """A handler that is called after each epoch."""

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """After the last batch; True stops training."""
        return False


class BatchBegin(EventHandler):
    """A handler that is called before each batch."""

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """Before the forward pass; ``batch`` is given by name."""


class BatchEnd(EventHandler):
    """A handler that is called after each batch."""

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """After the backward pass; ``batch``, ``pred``, ``label``, ``loss`` are given by name. True stops training."""
        return False
