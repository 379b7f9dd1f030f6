"""`mx.contrib.io`: a loader of Gluon as an iterator that Module takes."""

from __future__ import annotations

from typing import Any

from .. import nd
from ..errors import MXNetValueError
from ..io import DataDesc, DataIter

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """The batches of a `gluon.data.DataLoader`, whose samples are (data, label).

    The first batch is read when the iterator is made: it says what the shapes are. A last batch that is shorter is
    filled with zeros; `pad` says by how many.

    Args:
      loader: the loader.
      data_name, label_name: names of data and label.
      dtype: of both.

    Raises:
      ValueError: the loader has no batch.

    >>> import mxjax as mx
    >>> loader = mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset([1.0, 2.0, 3.0], [0, 1, 0]), batch_size=2)
    >>> [batch.pad for batch in DataLoaderIter(loader)]
    [0, 1]
    """

    def __init__(
        self,
        loader: Any,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: Any = "float32",
    ):
        super().__init__()
        self._loader = loader
        first = next(iter(loader), None)
        if first is None:
            raise MXNetValueError(
                "DataLoaderIter: the loader has no batch, so that the shapes are not known"
            )
        data, label = first
        self.batch_size = data.shape[0]
        self.dtype = dtype
        self.provide_data = [DataDesc(data_name, data.shape, dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, dtype)]
        self._current_batch: Any = None
        self.reset()

    def reset(self) -> None:
        self._iter = iter(self._loader)

    def iter_next(self) -> bool:
        self._current_batch = next(self._iter, None)
        return self._current_batch is not None

    def _whole(self, given: Any) -> list[Any]:
        given = given.as_nd_ndarray().astype(self.dtype)
        missing = self.getpad()
        if missing:
            rest = nd.zeros((missing, *given.shape[1:]), dtype=self.dtype, ctx=given.context)
            given = nd.concatenate([given, rest])
        return [given]

    def getdata(self) -> list[Any]:
        return self._whole(self._current_batch[0])

    def getlabel(self) -> list[Any]:
        return self._whole(self._current_batch[1])

    def getpad(self) -> int:
        return self.batch_size - self._current_batch[0].shape[0]

    def getindex(self) -> None:
        return None

    def state_dict(self) -> dict[str, Any]:
        return self._loader.state_dict()  # type: ignore[no-any-return]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._loader.load_state_dict(state)
        self.reset()
