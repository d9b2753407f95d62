"""Contracts, host, data, learning loop, evaluation, export, bundle, runtime and command line."""

if __name__ != "outrider.core":
    raise ImportError(
        f"{__name__!r} is a second copy of outrider.core: import outrider.core instead"
    )
