"""The command line: one file per verb, thin. Verbs are imported when they are called."""
