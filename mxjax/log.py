"""Loggers whose lines begin with the level's letter, the time and the place, in colour on a stream."""

from __future__ import annotations

import logging
import warnings
from logging import CRITICAL, DEBUG, ERROR, INFO, NOTSET, WARNING

__all__ = ["CRITICAL", "DEBUG", "ERROR", "INFO", "NOTSET", "WARNING", "getLogger", "get_logger"]

_RED, _GREEN, _BLUE, _PLAIN = (f"\x1b[{code}m" for code in ("31", "32", "34", "0"))


class _Formatter(logging.Formatter):
    """`I0131 12:34:56 4711 /path/file.py:function:12] message`, coloured by level."""

    def __init__(self) -> None:
        place = "%(asctime)s %(process)d %(pathname)s:%(funcName)s:%(lineno)d]"
        super().__init__(f"%(mark)s{place}{_PLAIN} %(message)s", datefmt="%m%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        level = record.levelno
        colour = _RED if level >= WARNING else _GREEN if level >= INFO else _BLUE
        letter = {CRITICAL: "C", ERROR: "E", WARNING: "W", INFO: "I", DEBUG: "D"}.get(level, "U")
        record.mark = colour + letter
        return super().format(record)


def get_logger(
    name: str | None = None,
    filename: str | None = None,
    filemode: str | None = None,
    level: int = WARNING,
) -> logging.Logger:
    """A logger with a handler of its own, made the first time that its name is asked for.

    Args:
      name: its name; None is Python's root logger, which is left as it is.
      filename: a file for its lines; without one they go to the standard error stream, in colour.
      filemode: how the file is opened, "a" if None.
      level: what is less important is not shown.

    >>> get_logger("a name", level=DEBUG).level
    10
    """
    logger = logging.getLogger(name)
    if name is None or getattr(logger, "_init_done", False):
        return logger
    logger._init_done = True  # type: ignore[attr-defined]  # MXNet's mark: handlers made by either are not doubled
    handler: logging.Handler
    if filename:
        handler = logging.FileHandler(filename, filemode or "a")
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(_Formatter())
    logger.addHandler(handler)
    logger.setLevel(level)
    return logger


def getLogger(  # noqa: N802  # MXNet's name
    name: str | None = None,
    filename: str | None = None,
    filemode: str | None = None,
    level: int = WARNING,
) -> logging.Logger:
    """The old name of `get_logger`."""
    warnings.warn(
        "getLogger is deprecated, use get_logger instead", DeprecationWarning, stacklevel=2
    )
    return get_logger(name, filename, filemode, level)
