"""Demonstrations: the episode store, readers of other formats, windows, inspection."""
