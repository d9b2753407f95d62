"""The stages of a run, each one function from a recipe and a folder to files in it."""
