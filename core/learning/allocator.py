"""Keep the pages of freed tensors: large arrays are mapped and unmapped at every operation else.

glibc returns blocks above 32 MiB at most, and by default far smaller ones, to the system as soon
as they are freed, so that each of the many megabyte-sized tensors of an update is paid for in
page faults again. It is a setting of the process, so only command-line verbs that learn make it.
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
