"""Batches made sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._host import is_array, is_legacy, map_tree, tree_to_arrays, tree_to_host
from .batchify import collate, collates
from .dataset import host_item

# What samples record (an index, a transform) runs as one program for this many samples.  A program
# for a whole batch of 256 takes 10 s to compile, one for a block 0.4 s, whatever the batch size.
_BLOCK = 8


def sample_by_sample(
    dataset: Any, batchify_fn: Callable[[Sequence[Any]], Any]
) -> Callable[[Sequence[Any]], Any]:
    """A function from indices to a batch, for this process and its threads."""
    if not collates(batchify_fn):
        return lambda indices: batchify_fn([dataset[index] for index in indices])

    def load(indices: Sequence[Any]) -> Any:
        block = [dataset[index] for index in indices[:_BLOCK]]
        rest = indices[_BLOCK:]
        if block and _stays_on_its_device(block[0]):
            return batchify_fn([*block, *(dataset[index] for index in rest)])
        samples = list(map(tree_to_host, block))
        samples += _on_the_host(lambda index: dataset[index], rest)
        return tree_to_arrays(collate(batchify_fn, samples))

    return load


def host_batch(
    dataset: Any, batchify_fn: Callable[[Sequence[Any]], Any], indices: Sequence[Any]
) -> Any:
    """The batch as a worker process makes it: on the host, if `batchify_fn` can do that."""
    if not collates(batchify_fn):
        return batchify_fn([dataset[index] for index in indices])
    return collate(batchify_fn, _on_the_host(lambda index: host_item(dataset, index), indices))


def _on_the_host(read: Callable[[Any], Any], indices: Sequence[Any]) -> list[Any]:
    samples: list[Any] = []
    for start in range(0, len(indices), _BLOCK):
        block = [read(index) for index in indices[start : start + _BLOCK]]
        samples += map(tree_to_host, block)
    return samples


def _stays_on_its_device(sample: Any) -> bool:
    """Whether a sample holds arrays that a detour over the host would move, or change in kind."""
    found = False

    def look(leaf: Any) -> None:
        nonlocal found
        if is_array(leaf):
            from mxjax import cpu, current_device
            from mxjax.modes import is_np_array

            found |= (
                is_legacy(leaf) == is_np_array() or not leaf.device == current_device() == cpu()
            )

    map_tree(look, sample)
    return found
