"""Min-max normalisation to [-1, 1], inside the module so that nobody can forget it."""

import numpy as np
import torch
from torch import Tensor, nn

from outrider.core.errors import OutriderError
from outrider.core.types import Float


class MinMaxNormalizer(nn.Module):
    """Maps [minimum, maximum] of the data to [-1, 1], element by element.

    A range below the floor is replaced by the floor, around the same centre: a nearly constant
    element would otherwise turn sensor noise into full-scale input. Values outside the data's
    range map outside [-1, 1]; they are not clipped.
    """

    center: Tensor
    half_range: Tensor

    def __init__(self, size: int, range_floor: float) -> None:
        super().__init__()
        self._range_floor = range_floor
        self.register_buffer("center", torch.zeros(size))
        self.register_buffer("half_range", torch.ones(size))

    def fit(self, values: Float, where: str) -> None:
        """Take the range of (T, size) values.

        Raises:
            OutriderError: when there are none, or one of them is not finite.
        """
        if len(values) == 0:
            raise OutriderError("there are no values to take the range of", where=where)
        if not np.isfinite(values).all():
            raise OutriderError(
                "a value is NaN or infinite", where=where, fix="Look at outrider demos info."
            )
        low, high = values.min(axis=0), values.max(axis=0)
        half = np.maximum(high - low, np.float32(self._range_floor)) / 2
        self.center.copy_(torch.from_numpy((low + high) / 2))
        self.half_range.copy_(torch.from_numpy(half))

    def normalize(self, value: Tensor) -> Tensor:
        """Physical -> normalised."""
        return (value - self.center) / self.half_range

    def denormalize(self, value: Tensor) -> Tensor:
        """Normalised -> physical."""
        return value * self.half_range + self.center
