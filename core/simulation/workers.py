"""Worker processes that answer requests, one at a time, in bytes.

A worker is started with `spawn`: it shares no threads, locks or graphics contexts with this
process. A request is one byte that says what is asked, and a payload; an answer is one byte that
says whether it went well, and a payload. Nothing is pickled but the arguments of the start.
"""

import json
import multiprocessing
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Protocol

from outrider.core.errors import OutriderError

GOODBYE, OK, FAILED = 0, 1, 2
PATIENCE_S = 5.0


class Service(Protocol):
    """What lives in a worker process."""

    def greeting(self) -> bytes:
        """The first answer, given once the service is ready."""
        ...

    def answer(self, kind: int, payload: memoryview) -> bytes:
        """Answer a request; `kind` is 1 to 255."""
        ...

    def close(self) -> None:
        """Free what the service holds."""
        ...


class Worker:
    """A process with one service, seen from the process that asks.

    Args:
        service: makes the service, in the worker; picklable.
        name: how messages call the worker, such as `worker 1 (robots 4-7)`.
    """

    def __init__(self, service: Callable[[], Service], name: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = name
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(service, theirs), daemon=True)
        try:
            with _interrupts_held():
                self._process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise OutriderError(
                f"what it should run cannot be sent to another process ({error})",
                where=name,
                fix="Build simulators with module-level functions, or use workers: 0.",
            ) from error
        finally:
            theirs.close()

    def send(self, kind: int, payload: bytes = b"") -> None:
        """Send a request without waiting for its answer.

        Raises:
            OutriderError: when the worker is dead.
        """
        try:
            self.connection.send_bytes(bytes((kind,)) + payload)
        except OSError as error:
            raise self._death() from error

    def receive(self) -> memoryview:
        """Wait for the answer to the oldest request (or for the greeting).

        Raises:
            OutriderError: what the service raised, or that the worker is dead, with its exit code.
        """
        try:
            message = self.connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise self._death() from error
        if message[0] != OK:
            raise OutriderError(**json.loads(message[1:]))
        return memoryview(message)[1:]

    def _death(self) -> OutriderError:
        self._process.join(PATIENCE_S)
        code = self._process.exitcode
        by = f" ({signal.Signals(-code).name})" if code is not None and code < 0 else ""
        return OutriderError(
            f"the process ended unexpectedly with exit code {code}{by}",
            where=self.name,
            fix="SIGKILL often means that memory ran out: use fewer workers." if by else "",
        )

    def close(self, patience_s: float = PATIENCE_S) -> None:
        """Ask the worker to end, make it end if it does not, and reap it."""
        with suppress(OSError):
            self.connection.send_bytes(bytes((GOODBYE,)))
        self.connection.close()
        self._process.join(patience_s)
        for insist in (self._process.terminate, self._process.kill):
            if self._process.exitcode is None:
                insist()
                self._process.join(patience_s)
        self._process.close()


def start(
    services: Sequence[tuple[Callable[[], Service], str]],
) -> tuple[list[Worker], list[bytes]]:
    """Start workers side by side; returns them with their greetings.

    Args:
        services: for each worker, what makes its service and what messages call it.

    Raises:
        OutriderError: when one cannot start; the others are closed before.
    """
    workers: list[Worker] = []
    try:
        for service, name in services:
            workers.append(Worker(service, name))
        return workers, [bytes(worker.receive()) for worker in workers]
    except BaseException:
        close(workers)
        raise


def close(workers: Sequence[Worker]) -> None:
    """Close workers, asking all before waiting for any."""
    for worker in workers:
        with suppress(OSError):
            worker.connection.send_bytes(bytes((GOODBYE,)))
    for worker in workers:
        worker.close()


def serve(make: Callable[[], Service], connection: Connection) -> None:
    """Body of a worker: answer requests until the other side says goodbye or is gone."""
    service: Service | None = None
    try:
        service = make()
        connection.send_bytes(bytes((OK,)) + service.greeting())
        while True:
            request = memoryview(connection.recv_bytes())
            if request[0] == GOODBYE:
                break
            answer = service.answer(request[0], request[1:])
            connection.send_bytes(bytes((OK,)) + answer)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the process that asked is gone
    except Exception as error:
        with suppress(OSError):
            connection.send_bytes(bytes((FAILED,)) + _complaint(error))
    finally:
        if service is not None:
            service.close()
        connection.close()


def _complaint(error: Exception) -> bytes:
    if isinstance(error, OutriderError):
        parts = {"what": error.what, "where": error.where, "fix": error.fix}
    else:
        parts = {"what": f"{type(error).__name__}: {error}", "where": "in a worker process"}
    return json.dumps(parts).encode()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Start a process that Ctrl-C does not reach: its parent decides when it ends.

    The mask is inherited. An interrupt that comes meanwhile is delivered at the end.
    """
    resource_tracker.ensure_running()  # it would lift the mask when it starts with the process
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
