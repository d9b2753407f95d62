"""Whether an ONNX graph holds all of its own weights.

A tensor of a graph may name a file instead of holding its numbers, and ONNX Runtime opens that
file, relative to the working folder. No digest of a bundle would cover it. This walks through the
protocol buffer without the onnx package, which a robot does not have.
"""

from collections.abc import Iterator

from outrider.core.errors import OutriderError

MAX_DEPTH = 64

_TENSOR, _LOCATION = "tensor", (13, 14)  # external_data, data_location
_INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: _TENSOR, 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: _TENSOR, 6: "graph", 10: _TENSOR, 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: _TENSOR, 2: _TENSOR},
}
"""Message -> field number -> message, as in onnx.proto; what holds no tensor is left out."""


def require_enclosed(graph: bytes) -> None:
    """Refuse a graph that refers to a file.

    Raises:
        OutriderError: when it does, or is no ONNX model.
    """
    try:
        outside = _refers_outside(memoryview(graph), "model", 0)
    except ValueError as error:
        raise OutriderError(
            f"it is no ONNX model ({error})", where="policy graph", fix="Export it again."
        ) from error
    if outside:
        raise OutriderError(
            "it keeps weights in a file outside itself",
            where="policy graph",
            fix="Export it again with all weights inside.",
        )


def _refers_outside(message: memoryview, kind: str, depth: int) -> bool:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    for number, value in _fields(message):
        if kind == _TENSOR:
            if number in _LOCATION and value != 0:
                return True
            continue
        inner = _INSIDE[kind].get(number)
        if inner is None:
            continue
        if isinstance(value, int):
            raise ValueError("a field of the wrong type")
        if _refers_outside(value, inner, depth + 1):
            return True
    return False


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Field number and value of each field; numbers of fixed width are given as bytes."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, position = _varint(message, position)
            yield number, value
            continue
        if wire == 2:
            length, position = _varint(message, position)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if position + length > len(message):
            raise ValueError("it is cut off")
        yield number, message[position : position + length]
        position += length


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            raise ValueError("it is cut off")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("a number is too long")
