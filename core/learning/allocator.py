"""Let the C library keep the memory of freed tensors for the next ones.

By default glibc returns large blocks to the system as soon as they are freed, and an update makes
and frees many tensors of some megabytes: each would pay for its pages again. This is a setting of
the whole process, so only the command-line verbs that learn make it.
"""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_GIB = 1 << 30


def keep_freed_memory() -> bool:
    """Ask the C library to keep freed blocks; returns whether it could be asked."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(
        mallopt(_M_MMAP_THRESHOLD, _GIB)
        and mallopt(_M_TRIM_THRESHOLD, 2 * _GIB - 1)
        and mallopt(_M_TOP_PAD, 64 << 20)
    )
