"""The pictures of `data_work.py` by torchvision and PyTorch's DataLoader; prints one JSON object. `data.py` starts it.

python benchmarks/data_torch.py FOLDER records|resized
"""

from __future__ import annotations

import io
import json
import os
import struct
import sys
import time

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

CUT, BATCH = 224, 64
MEAN, STD = (123.68, 116.78, 103.94), (58.4, 57.1, 57.4)


class Records(Dataset):  # type: ignore[type-arg]
    """The JPEGs of a record file, which are whole records without labels of their own."""

    def __init__(self, path: str, transform: transforms.Compose):
        with open(path, "rb") as file:
            data = file.read()
        self.pictures, self.transform, at = [], transform, 0
        while at < len(data):
            length = struct.unpack_from("<I", data, at + 4)[0] & (1 << 29) - 1
            self.pictures.append(data[at + 32 : at + 8 + length])
            at += 8 + (length + 3 & ~3)

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, idx: int) -> torch.Tensor:
        picture = Image.open(io.BytesIO(self.pictures[idx])).convert("RGB")
        return self.transform(picture)  # type: ignore[no-any-return]


def main(folder: str, work: str) -> None:
    torch.set_num_threads(1)
    steps = [transforms.Resize(CUT)] if work == "resized" else []
    steps += [
        transforms.RandomCrop(CUT),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize([each / 255 for each in MEAN], [each / 255 for each in STD]),
    ]
    loader = DataLoader(
        Records(os.path.join(folder, "data.rec"), transforms.Compose(steps)), BATCH, num_workers=0
    )
    best = float("inf")
    for _ in range(3):
        begin, count = time.process_time(), 0
        for batch in loader:
            count += len(batch)
        best = min(best, (time.process_time() - begin) / count)
    print(json.dumps({work: best, "framework": f"torch {torch.__version__}"}))


if __name__ == "__main__":
    main(*sys.argv[1:])
