"""Simulated robots, one at a time and as a fleet of N. numpy and the standard library only."""
