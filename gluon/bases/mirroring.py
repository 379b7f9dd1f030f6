"""What a block says of its own mirroring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxjax import attribute, errors, settings

from ..parameter import Layout


class MirroredBlock:
    """The part of a block that says whether the backward pass computes it again."""

    _force_mirroring: bool | None = None
    _mirror: Any = None  # what hybridize was told
    forward: Callable[..., Any]

    @property
    def force_mirroring(self) -> bool | None:
        """Whether the backward pass of a hybridized forward computes this block's calls again.

        ``True``: all of them, convolutions and matrix products too, though mirroring is off for the network:
        what the block takes is kept, and random bits (Dropout's mask). The block is computed again as one, so
        what saves memory is to say it of several blocks, each of a part of the network. ``False``: none,
        though mirroring is on (``hybridize(mirror=True)``). ``None`` (default): as the block around it says,
        and outside of all as the network.

        It may be changed at any time; the next call records the network anew. A plan or a policy by segments
        (`memonger.plan`, ``"sublinear"``) decides for the whole network, and warns where blocks say something.
        Calls that are not hybridized are not affected: `mx.dtr` saves their memory.

        Raises (when set):
          TypeError: it is none of the three.

        Source: MXNet's attribute ``__force_mirroring__``.

        >>> import mxjax as mx
        >>> net = mx.gluon.nn.HybridSequential()
        >>> net.add(*[mx.gluon.nn.Dense(4, activation="tanh") for _ in range(3)])
        >>> net[1].force_mirroring = True
        """
        return self._force_mirroring

    @force_mirroring.setter
    def force_mirroring(self, value: bool | None) -> None:
        if not (value is None or isinstance(value, bool)):
            raise errors.MXNetTypeError(
                f"{type(self).__name__}.force_mirroring is True (computed again in the backward pass), False (kept) "
                f"or None (as the block around it), got {value!r} ({type(value).__name__})"
            )
        if value is not self._force_mirroring:
            self._force_mirroring = value
            Layout.version += 1

    def _policy(self) -> Any:
        """The rematerialisation in force for this block, or ``None``."""
        chosen = self._mirror
        if chosen is None or chosen is True:
            mode = "mirror" if chosen else settings.get("memory.remat")
            if mode == "none":
                return None
            chosen = mode
        if chosen is False:
            return None
        if isinstance(chosen, str):
            from mxjax import memonger

            return memonger.policy(chosen)
        return chosen

    def _scoped_forward(self, *args: Any, **kwargs: Any) -> Any:
        with attribute.AttrScope(force_mirroring=str(self._force_mirroring)):
            return self.forward(*args, **kwargs)
