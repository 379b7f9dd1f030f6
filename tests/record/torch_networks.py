"""Record what torchvision's networks give, and their names and shapes: python torch_networks.py > torch_networks.json

With torch and torchvision; weights and images are NumPy's random numbers, so that the test makes them again.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import torchvision.models

sys.path.insert(0, str(Path(__file__).parents[1]))
from drawn import weights  # noqa: E402

SIZES = {"resnet18": 64, "resnet50": 64, "squeezenet1_1": 224, "densenet121": 224, "vgg11_bn": 0, "alexnet": 0,
         "inception_v3": 0, "mobilenet_v2": 0}  # fmt: skip


def record():
    found = {}
    for network, size in SIZES.items():
        with torch.device("meta"):
            module = getattr(torchvision.models, network)(
                **({"init_weights": False} if "inception" in network else {})
            )
        state = module.state_dict()
        found[network] = {"names": list(state), "shapes": [list(a.shape) for a in state.values()]}
        if size:
            module.to_empty(device="cpu").eval()
            given = weights(**found[network])
            module.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in given.items()})
            image = np.random.RandomState(1).standard_normal((1, 3, size, size)).astype("float32")
            with torch.no_grad():
                out = module(torch.from_numpy(image)).numpy()
            found[network] |= {
                "size": size,
                "output": [float(v) for v in out[0, :8]],
                "largest": float(abs(out).max()),
            }
    return found


if __name__ == "__main__":
    rows = [
        f" {json.dumps(name)}: {json.dumps(each, separators=(',', ':'))}"
        for name, each in record().items()
    ]
    print("{\n" + ",\n".join(rows) + "\n}")
