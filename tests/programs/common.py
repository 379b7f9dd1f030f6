"""What the programs share: numbers that both packages begin with."""

import mxnet as mx
import numpy as np


def normal(seed, *shape):
    return np.random.RandomState(seed).normal(size=shape).astype("float32")


def fill(block, seed=0, scale=0.3):
    """The same numbers in the parameters, whoever initialized them; in the order in which they were made."""
    rng = np.random.RandomState(seed)
    array = mx.np.array if mx.util.is_np_array() else mx.nd.array
    for p in block.collect_params().values():
        if p.grad_req != "null":
            p.set_data(array(rng.normal(scale=scale, size=p.shape)))


def start(module, seed=0, scale=0.3):
    """The same for a Module."""
    rng = np.random.RandomState(seed)
    module.init_params()
    args, auxs = module.get_params()
    module.set_params(
        {k: mx.nd.array(rng.normal(scale=scale, size=args[k].shape)) for k in sorted(args)}, auxs
    )
