"""The policy bundle: one verifiable file. numpy and the standard library; no torch."""
