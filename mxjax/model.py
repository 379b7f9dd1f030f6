"""Checkpoints of symbols with their parameters: `prefix-symbol.json` and `prefix-0001.params`."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections import namedtuple
from typing import Any

from . import nd
from . import symbol as symbols
from .device import cpu
from .errors import no_name

__all__ = ["BatchEndParam", "load_checkpoint", "load_params", "save_checkpoint"]

#: What callbacks get: the epoch, the number of the batch, the metric, and the loop's variables.
BatchEndParam = namedtuple("BatchEndParams", ["epoch", "nbatch", "eval_metric", "locals"])  # type: ignore[name-match]  # noqa: PYI024

SKLEARN_INSTALLED = importlib.util.find_spec("sklearn") is not None


def marked_params(arg_params: dict[str, Any], aux_params: dict[str, Any]) -> dict[str, Any]:
    """Arguments and auxiliary states as one dictionary, as files have them: `arg:name`, `aux:name`."""
    marked = {f"arg:{name}": value.as_in_context(cpu()) for name, value in arg_params.items()}
    marked.update({f"aux:{name}": value.as_in_context(cpu()) for name, value in aux_params.items()})
    return marked


def unmarked_params(marked: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments and auxiliary states from such a dictionary; other names are left out."""
    parts: dict[str, dict[str, Any]] = {"arg": {}, "aux": {}}
    for key, value in marked.items():
        kind, _, name = key.partition(":")
        if kind in parts:
            parts[kind][name] = value
    return parts["arg"], parts["aux"]


def save_checkpoint(
    prefix: str, epoch: int, symbol: Any, arg_params: dict[str, Any], aux_params: dict[str, Any],
    remove_amp_cast: bool = True,
) -> None:  # fmt: skip
    """Write a network's symbol and its parameters after an epoch.

    Args:
      prefix: the beginning of the files' paths.
      epoch: its number, four digits of the parameters' file name.
      symbol: the network; None writes parameters alone.
      arg_params, aux_params: parameters and auxiliary states by name.
      remove_amp_cast: without the casts that mixed precision put in.
    """
    if symbol is not None:
        symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
    name = f"{prefix}-{epoch:04d}.params"
    nd.save(name, marked_params(arg_params, aux_params))
    logging.info('Saved checkpoint to "%s"', name)


def load_params(prefix: str, epoch: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the auxiliary states of a checkpoint, by name."""
    name = f"{prefix}-{epoch:04d}.params"
    found = nd.load(name)
    if not found:
        logging.warning("Params file '%s' is empty", name)
        return {}, {}
    return unmarked_params(found)


def load_checkpoint(prefix: str, epoch: int) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The symbol, the parameters and the auxiliary states of a checkpoint."""
    return (symbols.load(f"{prefix}-symbol.json"), *load_params(prefix, epoch))


def __getattr__(name: str) -> Any:
    if name == "FeedForward":  # it trains with Module, which needs what is above
        return importlib.import_module("mxjax.module.feedforward").FeedForward
    raise no_name(__name__, name)
