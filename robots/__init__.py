"""Where actions are executed: simulated robots, and the scripted experts that drive them."""

if __name__ != "outrider.robots":
    raise ImportError(
        f"{__name__!r} is a second copy of outrider.robots: import outrider.robots instead"
    )
