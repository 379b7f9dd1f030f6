"""What copies and pickles of parameters and trainers hold, and what those of MXNet do.

A copy trains by itself: its arrays have gradients of their own, its trainer has the states and a kvstore of its own.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

from mxjax.autograd import pause
from mxjax.display.reprs import Shown
from mxjax.errors import MXNetTypeError
from mxjax.files.atomic import read_whole, write_whole

__all__ = ["CopiedParameter", "CopiedTrainer"]


class CopiedParameter:
    """How a parameter is pickled, and copied deeply; `copy.copy` shares the arrays."""

    def __getstate__(self) -> dict[str, Any]:
        # Gradients are no part of an array's pickle; the trainer of a copy is the one that is copied along, if any.
        grads = [a.grad for a in (self._arrays or {}).values()]  # type: ignore[attr-defined]
        return {**self.__dict__, "_trainer": None, "_only": None, "_only_at": None, "_grads": grads}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_grads" not in state:
            state = self._of_mxnet(state)
        grads = state.pop("_grads")
        self.__dict__.update(state)
        with pause():
            self._attach()  # type: ignore[attr-defined]
            for a, g in zip((self._arrays or {}).values(), grads, strict=True):  # type: ignore[attr-defined]
                if g is not None and g.stype == "default":  # one that is sparse begins empty
                    a.grad[:] = g

    def _of_mxnet(self, found: dict[str, Any]) -> dict[str, Any]:
        """The state that stands for one of MXNet 1.9 or 2."""
        names = (
            "grad_req",
            "shape",
            "dtype",
            "stype",
            "grad_stype",
            "differentiable",
            "allow_deferred_init",
        )
        given = {name: found[f"_{name}"] for name in names if f"_{name}" in found}
        name = found.get("name") or found.get("_name")
        given |= {key: found[key] for key in ("lr_mult", "wd_mult", "init")}
        self.__init__(name, **given)  # type: ignore[misc]
        arrays = found["_data"] or []
        state = dict(self.__dict__)
        if arrays:
            state["_arrays"] = dict(
                zip(found.get("_ctx_list") or found["_device_list"], arrays, strict=True)
            )
        elif found["_deferred_init"]:
            init, where, default, data = found["_deferred_init"]
            state["_deferred"] = (init, list(where), default, data)
        return {
            **state,
            "_long": "_uuid" not in found,
            "_grads": found["_grad"] or [None] * len(arrays),
        }

    def __copy__(self) -> Any:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made


#: What a trainer makes anew when it is first used.
_OF_THE_STORE = (
    "_kvstore",
    "_kv_initialized",
    "_params_to_init",
    "_update_on_kvstore",
    "_distributed",
)


class CopiedTrainer(Shown):
    """How a trainer is pickled and copied: its parameters, optimizer and states are part of it."""

    def __getattr__(self, name: str) -> Any:
        # One of MXNet's: its parameters, which hold it, were not there when it was unpickled.
        found = self.__dict__.pop("_of_mxnet", None)
        if found is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.__init__(found["_params"], found["_optimizer"], None, **found["_kvstore_params"])  # type: ignore[misc]
        self._updaters: list[Any] = found["_updaters"]
        return getattr(self, name)

    def _shown(self) -> dict[Any, Any]:
        store = self.__dict__.get("_kvstore_params", {}).get("kvstore")
        return {
            0: self.__dict__["_optimizer"],
            "parameters": len(self.__dict__["_params"]),
            "kvstore": store,
        }

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        wanted = state["_kvstore_params"]["kvstore"]
        if state["_distributed"] or not isinstance(wanted, str | None):
            raise MXNetTypeError(
                f"a Trainer with the kvstore {getattr(wanted, 'type', wanted)!r} cannot be pickled or copied: it holds "
                "connections. save_states() and load_states() take its states elsewhere"
            )
        for name in _OF_THE_STORE:
            del state[name]
        state["_on_store"] = None
        if self._update_on_kvstore and not self._params_to_init:  # type: ignore[attr-defined]
            with tempfile.TemporaryDirectory() as folder:
                self.save_states(os.path.join(folder, "states"))  # type: ignore[attr-defined]
                state["_on_store"] = bytes(read_whole(os.path.join(folder, "states")))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_on_store" not in state:
            self.__dict__["_of_mxnet"] = state
            return
        on_store = state.pop("_on_store")
        self.__dict__.update(state)
        self._reset_kvstore()  # type: ignore[attr-defined]
        self._optimizer.param_dict = dict(enumerate(self._params))  # type: ignore[attr-defined]
        for p in self._params:  # type: ignore[attr-defined]
            if p._trainer is None:
                p._set_trainer(self)
        if on_store is not None:
            with tempfile.TemporaryDirectory() as folder:
                write_whole(os.path.join(folder, "states"), lambda file: file.write(on_store))
                self.load_states(os.path.join(folder, "states"))  # type: ignore[attr-defined]
