"""What other libraries, or other modules of this one, call a thing: for the errors about names that are not there.

Looked at when somebody reads such an error.
"""

from __future__ import annotations

#: Attributes of PyTorch's modules, and what stands for them on a Block.
BLOCKS = {
    "parameters": "net.collect_params() has the parameters, by name",
    "named_parameters": "net.collect_params() has the parameters, by name",
    "train": "training is said where it happens: `with mx.autograd.record():` (or train_mode())",
    "eval": "without mx.autograd.record() a block predicts; `with mx.autograd.predict_mode():` inside of it",
    "to": "net.reset_device(device) moves it, net.cast(dtype) converts it",
    "cuda": "net.reset_device(mx.gpu(0)) moves it; initialize(device=mx.gpu(0)) begins there",
    "cpu": "net.reset_device(mx.cpu()) moves it",
    "half": "net.cast('float16'); mx.amp trains in mixed precision",
    "float": "net.cast('float32')",
    "double": "net.cast('float64')",
    "state_dict": "net.save_parameters(file) writes the parameters; net.collect_params() has them",
    "load_state_dict": "net.load_parameters(file) reads them; net.load_dict(arrays) takes arrays",
    "requires_grad_": "net.setattr('grad_req', 'null') freezes it, 'write' undoes that",
    "modules": "net.apply(function) visits the block and all in it",
    "named_modules": "net.apply(function) visits the block and all in it",
    "children": "net.apply(function) visits the block and all in it",
    "named_children": "net.apply(function) visits the block and all in it",
    "register_buffer": "gluon.Constant(array) as an attribute is a parameter without a gradient",
    "add_module": "net.register_child(block, name), or an attribute",
    "fit": "gluon.contrib.estimator.Estimator(net, loss) has fit; mx.mod.Module, too",
    "predict": "call it: net(x)",
    "summary_": "net.summary(x)",
}

#: Attributes of PyTorch's and JAX's arrays, and what stands for them on ours.
ARRAYS = {
    "numpy": "x.asnumpy() gives the numbers to NumPy",
    "to": "x.to_device(device) moves it, x.astype(dtype) converts it",
    "cuda": "x.to_device(mx.gpu(0)) moves it",
    "cpu": "x.to_device(mx.cpu()) moves it; x.asnumpy() gives the numbers to NumPy",
    "view": "x.reshape(shape)",
    "permute": "x.transpose(axes)",
    "unsqueeze": "x.expand_dims(axis)",
    "requires_grad_": "x.attach_grad() makes it a variable",
    "requires_grad": "x.attach_grad() makes it a variable",
    "detach_": "x.detach() gives it without its history",
    "contiguous": "arrays lie in one piece here: leave it out",
    "float": "x.astype('float32')",
    "double": "x.astype('float64')",
    "half": "x.astype('float16')",
    "long": "x.astype('int64')",
    "int": "x.astype('int32')",
    "bool": "x.astype('bool')",
    "type": "x.astype(dtype) converts it, x.dtype is what it is",
    "dim": "x.ndim",
    "numel": "x.size",
    "clone": "x.copy()",
    "data_ptr": "mx.profiler and x.to_dlpack_for_read() know where it lies",
    "masked_fill": "np.where(mask, number, x)",
    "matmul": "x @ y, np.matmul(x, y)",
    "mm": "x @ y, np.dot(x, y)",
    "t": "x.T",
    "add_": "x += y",
    "mul_": "x *= y",
    "zero_": "x[:] = 0",
    "fill_": "x[:] = number",
    "copy_": "x[:] = y",
    "block_until_ready": "x.wait_to_read()",
    "at": "arrays change in place: x[index] = y, x[index] += y",
    "device_buffer": "x.jax is the jax.Array",
}

#: Layers and losses of PyTorch, and Gluon's.
LAYERS = {
    "Linear": "nn.Dense(units): it finds the number of inputs itself",
    "Module": "nn.HybridBlock, whose method is forward",
    "ReLU": "nn.Activation('relu')",
    "Sigmoid": "nn.Activation('sigmoid')",
    "Tanh": "nn.Activation('tanh')",
    "Softplus": "nn.Activation('softrelu')",
    "Softmax": "mx.npx.softmax(x, axis=-1) in forward; SoftmaxCrossEntropyLoss takes scores without it",
    "LogSoftmax": "mx.npx.log_softmax(x, axis=-1) in forward",
    "Conv1d": "nn.Conv1D(channels, kernel_size)",
    "Conv2d": "nn.Conv2D(channels, kernel_size): it finds the number of inputs itself",
    "Conv3d": "nn.Conv3D(channels, kernel_size)",
    "ConvTranspose2d": "nn.Conv2DTranspose(channels, kernel_size)",
    "BatchNorm1d": "nn.BatchNorm()",
    "BatchNorm2d": "nn.BatchNorm()",
    "BatchNorm3d": "nn.BatchNorm()",
    "InstanceNorm2d": "nn.InstanceNorm()",
    "MaxPool1d": "nn.MaxPool1D()",
    "MaxPool2d": "nn.MaxPool2D()",
    "AvgPool2d": "nn.AvgPool2D()",
    "AdaptiveAvgPool2d": "nn.GlobalAvgPool2D() for a size of 1; mx.nd.contrib.AdaptiveAvgPooling2D",
    "ModuleList": "nn.HybridSequential(), or register_child(block)",
    "ModuleDict": "register_child(block, name), or attributes",
    "Parameter": "gluon.Parameter(name, shape=shape)",
    "Dropout2d": "nn.Dropout(rate, axes=(2, 3))",
    "CrossEntropyLoss": "gluon.loss.SoftmaxCrossEntropyLoss()",
    "NLLLoss": "gluon.loss.SoftmaxCrossEntropyLoss(from_logits=True)",
    "MSELoss": "gluon.loss.L2Loss(), which has a factor of 1/2",
    "L1Loss": "gluon.loss.L1Loss()",
    "BCELoss": "gluon.loss.SigmoidBinaryCrossEntropyLoss(from_sigmoid=True)",
    "BCEWithLogitsLoss": "gluon.loss.SigmoidBinaryCrossEntropyLoss()",
    "KLDivLoss": "gluon.loss.KLDivLoss()",
    "functional": "mx.npx has the functions",
    "init": "mx.init has the initializers",
}

#: What names of a module that is not there are elsewhere.
NAMES = {
    "mxjax": {
        "rtc": "it compiles CUDA's source while a program runs; a kernel is written in jax.experimental.pallas here, "
        "and called in a mx.operator.CustomOp, or joined by jax.ffi (docs/exclusions.md)",
        "cuda": "it sets marks for NVIDIA's profiler; mx.profiler.scope names what runs, on every device "
        "(docs/exclusions.md)",
        "tvmop": "there is no TVM here: XLA compiles operators (docs/exclusions.md)",
        "tensor": "mx.np.array", "Tensor": "mx.np.ndarray", "no_grad": "mx.autograd.pause()", "jit": "net.hybridize()",
        "grad": "mx.autograd.grad, or record, backward and x.grad", "manual_seed": "mx.random.seed",
        "array": "mx.np.array", "zeros": "mx.np.zeros", "ones": "mx.np.ones", "NDArray": "mx.nd.NDArray",
        "Trainer": "mx.gluon.Trainer", "nn": "mx.gluon.nn", "optim": "mx.optimizer",
    },
    "mxjax.gluon": {
        "Module": "gluon.HybridBlock, whose method is forward; mx.mod.Module trains a symbol",
        "DataLoader": "gluon.data.DataLoader", "Dataset": "gluon.data.Dataset",
    },
    "mxjax.gluon.loss": {
        name: LAYERS[name] for name in ("MSELoss", "BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "NLLLoss")
    } | {"SmoothL1Loss": "gluon.loss.HuberLoss()"},
    "mxjax.gluon.data": {
        name: f"gluon.data.vision.{name}" for name in ("ImageFolderDataset", "MNIST", "CIFAR10", "transforms")
    },
    "mxjax.gluon.nn": LAYERS,
    "mxjax.np": {
        "tensor": "np.array", "cat": "np.concatenate", "FloatTensor": "np.array", "no_grad": "mx.autograd.pause",
        "randn": "np.random.randn", "rand": "np.random.rand", "randint": "np.random.randint",
        "manual_seed": "np.random.seed",
        "from_jax_array": "np.from_jax",
    },
    "mxjax.nd": {"tensor": "nd.array", "cat": "nd.concat"},
    "mxjax.optimizer": {"lr_scheduler": "mx.lr_scheduler"},
    "mxjax.autograd": {
        "no_grad": "autograd.pause()", "enable_grad": "autograd.record()", "Variable": "x.attach_grad()",
        "value_and_grad": "record, backward and x.grad; jax.value_and_grad takes mxjax's functions, too",
    },
}  # fmt: skip

#: Arguments of functions elsewhere.
KEYWORDS = {
    "dim": ("axis", "axes"), "dims": ("axes", "axis"), "keepdim": ("keepdims",), "keep_dims": ("keepdims",),
    "input": ("data", "a", "x"), "other": ("x2", "rhs", "b"), "size": ("shape",), "stride": ("strides",),
    "padding": ("pad",), "dilation": ("dilate",), "groups": ("num_group",), "kernel_size": ("kernel",),
    "out_channels": ("num_filter",), "out_features": ("num_hidden",), "p": ("rate",), "ratio": ("p",),
    "num_classes": ("depth",), "min": ("a_min",), "max": ("a_max",), "eps": ("epsilon",), "n": ("k",),
}  # fmt: skip

#: Options of optimizers elsewhere.
OPTIONS = {
    "lr": "learning_rate", "weight_decay": "wd", "betas": "beta1 and beta2", "eps": "epsilon",
    "max_norm": "clip_gradient",
}  # fmt: skip

#: Modules that have each other's names: where one is missed, the others are asked.
KIN = (
    (
        "mxjax.np",
        "mxjax.npx",
        "mxjax.np.linalg",
        "mxjax.np.random",
        "mxjax.npx.random",
        "mxjax.npx.image",
    ),
    (
        "mxjax.nd",
        "mxjax.nd.contrib",
        "mxjax.nd.linalg",
        "mxjax.nd.random",
        "mxjax.nd.image",
        "mxjax.np",
        "mxjax.npx",
    ),
    (
        "mxjax.symbol",
        "mxjax.symbol.contrib",
        "mxjax.symbol.linalg",
        "mxjax.symbol.random",
        "mxjax.symbol.numpy",
    ),
    (
        "mxjax.gluon",
        "mxjax.gluon.nn",
        "mxjax.gluon.rnn",
        "mxjax.gluon.loss",
        "mxjax.gluon.data",
        "mxjax.gluon.utils",
    ),
)


def called_here(option: str) -> str:
    """The end of a message about an optimizer's option that is called something else here, or nothing.

    >>> called_here("lr")
    '; it is called learning_rate'
    """
    return f"; it is called {OPTIONS[option]}" if option in OPTIONS else ""
