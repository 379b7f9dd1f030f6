"""The profilers of a distributed store's servers, told what to do through the store.

MXNet's workers send such commands to every server (``KVStore::kSetProfilerParams``); a server gives what
arrives to `obey`.  What is sent is JSON, never a pickle.
"""

from __future__ import annotations

import json
import os
import warnings
from typing import Any

from mxjax.errors import MXNetError, MXNetValueError

from ._session import users_frame

HEAD = 5  # kSetProfilerParams among the store's commands (src/kvstore/kvstore_dist_server.h)
_ACTIONS = frozenset({"configure", "run", "stop", "pause", "resume", "dump"})


def send(store: Any, action: str, **arguments: Any) -> None:
    """Tell all servers of a store.

    Raises:
      MXNetError: the store cannot send commands.
    """
    tell = getattr(store, "_send_command_to_servers", None) or getattr(store, "send_command", None)
    if tell is None:
        raise MXNetError(
            f"profile_process='server' needs a kvstore with send_command, got {type(store).__name__}: "
            "pass the one that training uses to profiler.set_kvstore_handle"
        )
    if not getattr(store, "has_servers", True):
        warnings.warn(
            f"a kvstore of type {store.type!r} has no servers, so profile_process='server' profiles nothing; "
            "its workers do all the work: profile those",
            stacklevel=users_frame(),
        )
    tell(HEAD, json.dumps({"action": action, **arguments}))


def obey(profiler: Any, body: str, rank: int) -> None:
    """In a server: do what a worker asked for; its files' names begin with ``rank<n>_``.

    Raises:
      MXNetError: the command is none of the profiler's.
    """
    try:
        command = json.loads(body)
        action = command.pop("action")
    except (AttributeError, KeyError, TypeError, ValueError):
        raise MXNetValueError(f"not a command of the profiler: {body[:80]!r}") from None
    if action not in _ACTIONS:
        expected = ", ".join(sorted(_ACTIONS))
        raise MXNetValueError(f"a command of the profiler is one of {expected}; got {action!r}")
    if action == "configure":
        options = dict(command.get("options") or {})
        folder, name = os.path.split(str(options.get("filename", "profile.json")))
        options |= {
            "filename": os.path.join(folder, f"rank{rank}_{name}"),
            "profile_process": "worker",
        }
        profiler.configure(options)
    elif action == "dump":
        profiler.dump(bool(command.get("finished", True)))
    else:
        getattr(profiler, action)()
