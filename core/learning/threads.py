"""Torch's thread count, set for a block of code and put back."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Run the block with `count` torch threads.

    Matrix products round differently with another number of threads, so whatever must repeat bit
    for bit on one machine names its number.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
