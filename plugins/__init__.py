"""The plugins that come with Outrider, one room each."""

if __name__ != "outrider.plugins":
    raise ImportError(
        f"{__name__!r} is a second copy of outrider.plugins: import outrider.plugins instead"
    )
