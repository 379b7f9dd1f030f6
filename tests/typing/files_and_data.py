"""Records, pictures, iterators and checkpoints: read by type checkers, not run."""

from typing import assert_type

import mxjax as mx
from mxjax import gluon, nd


def write(path: str, pictures: list[mx.np.ndarray]) -> int:
    record = mx.recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "w")
    for at, picture in enumerate(pictures):
        header = mx.recordio.IRHeader(0, float(at % 2), at, 0)
        record.write_idx(at, mx.recordio.pack_img(header, picture.asnumpy(), quality=90))
    record.close()
    return len(pictures)


def read(path: str) -> nd.NDArray:
    data = mx.io.ImageRecordIter(path_imgrec=path, data_shape=(3, 32, 32), batch_size=8)
    for batch in data:
        assert_type(batch, mx.io.DataBatch)
        return batch.data[0]
    return nd.zeros((1,))


class Squares(gluon.data.Dataset):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, at: int) -> tuple[int, int]:
        return at, at * at


def loader() -> gluon.data.DataLoader:
    batchify = gluon.data.batchify.Group(gluon.data.batchify.Stack(), gluon.data.batchify.Stack())
    return gluon.data.DataLoader(Squares(), batch_size=4, batchify_fn=batchify, num_workers=0)


def checkpoint(net: gluon.Block, trainer: gluon.Trainer, step: int) -> None:
    gluon.save_checkpoint("folder", net, trainer)
    print(step, mx.__version__)
