"""Pretraining, finetuning, critics and replay. Imports torch; nothing below this room does."""
