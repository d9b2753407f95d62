"""A point mass with three ways to its goal: a multimodal problem that trains in a minute."""
