"""Seeds that depend on names, so that adding a draw in one place changes nothing elsewhere."""

import zlib

import numpy as np


def sequence(seed: int, *path: str | int) -> np.random.SeedSequence:
    """The seed sequence of a named place, such as `sequence(seed, "finetune", "noise")`."""
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in path]
    return np.random.SeedSequence([seed, *words])


def generator(seed: int, *path: str | int) -> np.random.Generator:
    """A numpy generator for a named place."""
    return np.random.Generator(np.random.PCG64(sequence(seed, *path)))


def integer(seed: int, *path: str | int) -> int:
    """A 32-bit seed for what wants an integer: torch, or a simulator's reset."""
    return int(sequence(seed, *path).generate_state(1, np.uint32)[0])
