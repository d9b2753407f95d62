"""YAML recipes; values only, validated against the typed configuration by the tests."""

if __name__ != "outrider.configs":
    raise ImportError(
        f"{__name__!r} is a second copy of outrider.configs: import outrider.configs instead"
    )
