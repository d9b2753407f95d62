"""Errors that a user reads: one line that says what, where and what to do.

Exit codes of the command line: 0 done, 1 the thing checked does not hold, 2 bad input or usage.
"""


class OutriderError(Exception):
    """Bad input or usage (exit code 2).

    Args:
        what: what is wrong, in one clause, with the offending value.
        where: the file, field, episode or plugin in which it was found.
        fix: what the reader can do about it.
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return " ".join((f"{text}. {self.fix}" if self.fix else text).split())


class CheckFailed(OutriderError):
    """The thing that was checked does not hold (exit code 1)."""

    exit_code = 1


class MissingDependency(OutriderError):
    """A package of an extra is not installed (exit code 2)."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed",
            fix=f"pip install 'outrider[{extra}]'",
        )


def nearest(word: str, options: list[str]) -> str:
    """A sentence that lists the valid options and names the one closest to `word`."""
    from difflib import get_close_matches

    close = get_close_matches(word, options, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}valid: {', '.join(sorted(options)) or 'none'}"
