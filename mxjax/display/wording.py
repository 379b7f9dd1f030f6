"""What help tells of arguments that many functions and classes share, written once.

Their own docstrings leave these out, and `worded` puts them in. Those of operators are made by `mxjax.ops.help`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Callable[..., object])

#: By group and name; "Returns" is a section of its own.
WORDS: dict[str, dict[str, str]] = {
    "random": {
        "alpha": "the shape parameter, positive.",
        "beta": "the scale, positive.",
        "ctx": "MXNet 1's name of `device`.",
        "data": "the probabilities, along the last axis, or the array whose rows are shuffled.",
        "dtype": "the dtype of the result.",
        "high": "the upper end.",
        "k": "the number of failures, positive.",
        "lam": "the rate.",
        "loc": "the mean, or the place of the centre.",
        "low": "the lower end.",
        "mu": "the mean.",
        "n": "the number of trials, or of draws.",
        "out": "an array that the result is written into, and that is given back.",
        "p": "the probability, or the probabilities.",
        "scale": "the standard deviation, not negative.",
        "shape": "the shape of the result.",
        "Returns": "NDArray or Symbol: of that shape, a draw for each element of array parameters; `dtype` or float32.",
    },
    "convolution": {
        "activation": "the function that follows, by its name in `npx.activation`; none without.",
        "bias_initializer": "fills the bias.",
        "ceil_mode": "whether windows that do not fit are taken in at the end.",
        "channels": "the number of output channels.",
        "count_include_pad": "whether averages count the zeros of the padding.",
        "dilation": "the distance of a kernel's taps on each spatial axis.",
        "dtype": "the dtype of the parameters.",
        "groups": "in how many groups channels are computed apart.",
        "in_channels": "the number of input channels; found at the first call if it is 0.",
        "kernel_size": "the length of the window on each spatial axis, or one number for all.",
        "layout": "the order of the axes, with N, C and the spatial ones D, H, W.",
        "output_padding": "how much longer the output is than the smallest possible.",
        "padding": "how many zeros are added at both ends of each spatial axis.",
        "pool_size": "the length of the window on each spatial axis, or one number for all.",
        "strides": "the distance of windows on each spatial axis.",
        "use_bias": "whether a bias is added.",
        "weight_initializer": "fills the weight.",
    },
    "norm": {
        "axis": "the axis of the channels.",
        "beta_initializer": "fills beta.",
        "center": "whether beta is added.",
        "epsilon": "what is added to a denominator, against a division by zero.",
        "gamma_initializer": "fills gamma.",
        "in_channels": "the number of input channels; found at the first call if it is 0.",
        "momentum": "how much of the former direction, or statistic, is kept.",
        "running_mean_initializer": "fills the running mean.",
        "running_variance_initializer": "fills the running variance.",
        "scale": "whether the result is multiplied by gamma.",
        "use_global_stats": "whether the running statistics are used in training, too.",
    },
    "optimizer": {
        "aggregate_num": "taken for compatibility; a step is one call for all weights in any case.",
        "beta1": "the decay of the mean of gradients.",
        "beta2": "the decay of the mean of squared gradients.",
        "correct_bias": "whether the means are corrected for their beginning at 0.",
        "epsilon": "what is added to a denominator, against a division by zero.",
        "lazy_update": "whether rows without a gradient stay as they are, where the gradient is row_sparse.",
        "learning_rate": "the learning rate, unless a scheduler has one.",
        "lower_bound": "the smallest norm that counts; none without.",
        "momentum": "how much of the former direction, or statistic, is kept.",
        "multi_precision": "whether 16-bit weights have float32 copies that are updated.",
        "rho": "the decay of the mean of squared gradients.",
        "upper_bound": "the largest norm that counts; none without.",
        "use_fused_step": "taken for compatibility; a step is one program in any case.",
    },
    "loss": {
        "batch_axis": "the axis of the samples.",
        "weight": "a factor of the loss; none without.",
    },
    # By their own names: of what stands in files that have no room for more lines.
    "cond": {
        "pred": "an array of one element, or a function of the inputs that gives one.",
        "then_func": "what is computed where it is not zero: a function of the inputs.",
        "else_func": "what is computed where it is zero: a function of the inputs.",
        "inputs": "the arrays that the functions take, or a list of them; none without.",
        "name": "what the operator is called in a symbol.",
        "Returns": "an array or a list of arrays: what the function that ran gave.",
    },
    "foreach": {
        "body": "a function of a slice of the data and the states: it gives an output and new states.",
        "data": "an array (steps, ...), or a list of such; the steps are along its first axis.",
        "init_states": "the states of the first step: an array or a list of arrays.",
        "name": "what the operator is called in a symbol.",
        "Returns": "(outputs, states): the outputs of all steps, stacked along a new first axis, and the last states.",
    },
    "while_loop": {
        "cond": "a function of the loop variables: an array of one element that is zero where the loop ends.",
        "func": "a function of the loop variables: it gives an output and new variables.",
        "loop_vars": "the variables of the first step: a list of arrays.",
        "max_iterations": "the most steps; the length of the outputs' first axis.",
        "name": "what the operator is called in a symbol.",
        "Returns": "(outputs, variables): the outputs, (max_iterations, ...), and the last variables.",
    },
    "BaseSparseNDArray": {
        "handle": "what is stored: values and indices.",
        "writable": "taken for compatibility; every array can be written to.",
    },
    "Parameter": {
        "name": "the parameter's own name.",
        "grad_req": '"write", "add" or "null": what `backward` does with the gradient.',
        "shape": "the shape; lengths that are found at the first forward pass are -1 or 0.",
        "dtype": "the dtype of value and gradient.",
        "lr_mult": "a factor of the learning rate.",
        "wd_mult": "a factor of the weight decay.",
        "init": "the initializer, or its name; that of `initialize` without.",
        "allow_deferred_init": "whether it may be initialized before its shape is known.",
        "differentiable": "whether it has gradients at all.",
        "stype": 'how the value is stored: "default" (dense), "row_sparse" or "csr".',
        "grad_stype": 'how the gradient is stored: "default" or "row_sparse".',
        "sharding": "how `Block.shard` cuts it: for each axis the name of a mesh's axis, or None.",
    },
    "metric": {
        "axis": "the axis of the classes.",
        "name": "what the metric is called in its results.",
        "output_names": "the names of the outputs that count; all without.",
        "label_names": "the names of the labels that count; all without.",
        "threshold": "where the scores of class 1 begin; an array has one for each class.",
        "top_k": "how many classes may hold the label.",
    },
    "one_hot": {
        "idx": "the classes, (n,).",
        "num": "how many classes there are.",
        "Returns": "ndarray: (n, num), int32.",
    },
    "predict_with_threshold": {
        "pred": "the scores; classes are along the last axis.",
        "threshold": "a number, or an array of one for each class.",
        "Returns": "ndarray: bool, of the scores' shape.",
    },
    "register": {
        "klass": "the subclass of Optimizer.",
        "Returns": "type: the class itself, so that it can stand before a class as a decorator.",
    },
    "DataDesc": {
        "name": "the input's name.",
        "shape": "its shape, that of a batch.",
        "dtype": "its dtype.",
        "layout": "a letter for each axis, N for that of the batch; None where it is not known.",
    },
    "DataIter": {"batch_size": "samples in a batch."},
    "DetBorrowAug": {
        "augmenter": "an augmenter of `mx.image` that changes no places, of colours say."
    },
    "DetHorizontalFlipAug": {"p": "the probability that it happens."},
    "DetRandomSelectAug": {
        "aug_list": "the augmenters of which one is taken; a single one counts as a list.",
        "skip_prob": "the probability that none is.",
    },
    "HEADER": {
        "flag": "0, or how many labels there are before the payload.",
        "label": "the label: a number, or an array of labels.",
        "id": "the record's number.",
        "id2": "a second number, which is not used.",
    },
    "list_lines": {
        "path": "the list's path.",
        "key_type": "makes a key of its text.",
        "Returns": "an iterator over (key, labels, file name), or a FormatError where a line is something else.",
    },
    "make_index": {"Returns": "list of int: where the records begin."},
    "offsets": {
        "uri": "the record file.",
        "Returns": "list of int: the byte at which each record begins.",
    },
    "unpack": {
        "s": "a record, as `read` gives it.",
        "Returns": "(IRHeader, bytes): the header and the payload.",
    },
}


def worded(group: str) -> Callable[[T], T]:
    """Complete the docstring of a function, or of a class, by the words of a group for the arguments it leaves out."""

    def complete(thing: T) -> T:
        if thing.__doc__:
            thing.__doc__ = completed(
                thing.__doc__, inspect.signature(thing).parameters, WORDS[group]
            )
        return thing

    return complete


def told(*things: Callable[..., object]) -> None:
    """Complete the docstrings of things by the words under their own names."""
    for thing in things:
        worded(thing.__name__)(thing)


_SECTION = re.compile(r"^\s*(?:(?:Args|Returns|Yields|Raises|Notes):|>>>)")


def completed(text: str, names: Iterable[str], words: dict[str, str]) -> str:
    """A docstring with lines for those of the names that it does not describe, in their order.

    >>> print(completed("Add.\\n\\n    Args:\\n      y: what is added.", ["x", "y"], {"x": "the first."}))
    Add.
    <BLANKLINE>
        Args:
          x: the first.
          y: what is added.
    """
    lines = text.rstrip().split("\n")
    margin = " " * min(
        (len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=4
    )
    begin = lines.index(f"{margin}Args:") if f"{margin}Args:" in lines else None
    if begin is None:
        end = next((at for at, line in enumerate(lines) if at and _SECTION.match(line)), len(lines))
        before, entries, after = lines[:end], [], lines[end:]
    else:
        end = next((at for at in range(begin, len(lines)) if not lines[at].strip()), len(lines))
        before, entries, after = lines[:begin], lines[begin + 1 : end], lines[end:]
    own: dict[str, list[str]] = {}  # by the first name of each
    told: set[str] = set()
    first = ""
    for line in entries:
        if line.startswith(f"{margin}  ") and line[len(margin) + 2] != " ":
            heads = [name.strip("`* ") for name in re.split(r"[:(]", line)[0].split(",")]
            first = heads[0]
            told.update(heads)
            own[first] = []
        own[first].append(line)
    order = [name for name in names if name in own or name in words and name not in told]
    made = []
    for name in [*order, *(name for name in own if name not in order)]:
        made += own.get(name) or [f"{margin}  {name}: {words[name]}"]
    before = "\n".join(before).rstrip().split("\n")
    gives = "Returns" in words and not any(line.strip() == "Returns:" for line in lines)
    section = ["", f"{margin}Returns:", f"{margin}  {words['Returns']}"] if gives else []
    after = after if not after or not after[0].strip() else ["", *after]
    return "\n".join([*before, "", f"{margin}Args:", *made, *section, *after, margin])


__all__ = ["completed", "told", "worded"]
