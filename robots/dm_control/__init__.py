"""The DeepMind control suite: any of its tasks, by name."""
