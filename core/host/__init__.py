"""Plugins: hook specifications, discovery, isolation, and what plugins offer. No torch."""
