"""What an answer's head and body become on a connection."""

import asyncio

from app.http.middleware import JoiningTransport


class RecordingTransport:
    """Keeps what is written to it, and in which order it is closed."""

    def __init__(self) -> None:
        self.done: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.done.append(data)

    def close(self) -> None:
        self.done.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.done


def test_writes_of_one_turn_of_the_loop_are_sent_together_and_in_order() -> None:
    async def write() -> list[bytes | str]:
        inner = RecordingTransport()
        outer = JoiningTransport(inner, asyncio.get_running_loop())
        outer.write(b"head ")
        outer.write(b"body")
        assert inner.done == []
        await asyncio.sleep(0)
        outer.write(b"more")
        await asyncio.sleep(0)
        return inner.done

    assert asyncio.run(write()) == [b"head body", b"more"]


def test_what_was_written_is_sent_before_the_end() -> None:
    async def write() -> tuple[list[bytes | str], bool]:
        inner = RecordingTransport()
        outer = JoiningTransport(inner, asyncio.get_running_loop())
        outer.write(b"last")
        outer.close()
        await asyncio.sleep(0)
        return inner.done, outer.is_closing()

    assert asyncio.run(write()) == ([b"last", "closed"], True)
