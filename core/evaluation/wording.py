"""Figures as a person reads them."""


def number(value: float) -> str:
    """Three or four significant digits, thousands with k, millions with M."""
    size = abs(value)
    if size >= 1e9 or 0 < size < 1e-3:
        return f"{value:.1e}".replace("e-0", "e-").replace("e+", "e")
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if size >= 10 * unit or (size >= unit and unit == 1e6):
            return f"{value / unit:.3g}{name}"
    return f"{value:.4g}" if size >= 100 else f"{value:.3g}"


def percent(share: float) -> str:
    """A share as a whole percentage, or one decimal where the whole one would mislead."""
    text = f"{100 * share:.0f}"
    return f"{100 * share:.1f}%" if text in {"0", "100"} and share not in {0, 1} else f"{text}%"


def duration(seconds: float) -> str:
    """`2 h 5 min`, `3 min 20 s`, `4.2 s`, `0.5 ms`."""
    if seconds >= 60:
        minutes, rest = divmod(round(seconds), 60)
        return (
            f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"
        )
    return f"{seconds:.3g} s" if seconds >= 0.1 or seconds == 0 else f"{1000 * seconds:.3g} ms"
