"""What turns an observation into an action, and the ways to finetune it."""

if __name__ != "outrider.policies":
    raise ImportError(
        f"{__name__!r} is a second copy of outrider.policies: import outrider.policies instead"
    )
