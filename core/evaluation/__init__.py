"""Seeded rollouts, their statistics and smoothness, films, and the report of a run. No torch."""
