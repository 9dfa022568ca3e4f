"""A small asynchronous client for event streams, so cheap that it can share a machine with the server under load.

Standard library alone: a stream is read as raw bytes with the time of each event, and looked at after it has ended.
"""

import asyncio
import json
import time
from dataclasses import dataclass, field


@dataclass
class Reply:
    """One streamed reply: its status, its events as text, and when each came (seconds of time.monotonic)."""

    status: int = 0
    headers: dict = field(default_factory=dict)
    events: list = field(default_factory=list)
    times: list = field(default_factory=list)
    started: float = 0.0
    error: str = ""
    body: bytes = b""

    def parsed(self):
        """The events as objects; an error where the stream has no end, or goes on after it."""
        if not self.events or self.events[-1] != b"[DONE]":
            raise AssertionError(f"no [DONE] after {len(self.events)} events {self.error}")
        if b"[DONE]" in self.events[:-1]:
            raise AssertionError("an event after [DONE]")
        return [json.loads(event) for event in self.events[:-1]]


def request_bytes(path, body):
    payload = json.dumps(body).encode()
    lines = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{lines}Content-Length: {len(payload)}\r\n\r\n".encode() + payload


async def read_head(reader):
    """(status, headers) of a reply."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {}
    for line in head[1:]:
        if line:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
    return int(head[0].split()[1]), headers


async def read_events(reader, reply):
    """Chunks of an event stream until the last; an event may lie across chunks."""
    buffer = b""
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        chunk = await reader.readexactly(size + 2)
        if size == 0:
            break
        now = time.monotonic()
        *events, buffer = (buffer + chunk[:-2]).split(b"\n\n")
        for event in events:
            if event.startswith(b"data: "):
                reply.events.append(event[6:])
                reply.times.append(now)
            elif not event.startswith(b":"):
                raise ValueError(f"not an event: {event[:80]!r}")
    if buffer:
        raise ValueError(f"the stream ends inside an event: {buffer[:80]!r}")


class Connection:
    """One kept-alive connection; opened when it is first needed and after a failure."""

    def __init__(self, port):
        self.port, self.reader, self.writer = port, None, None

    async def ask(self, path, body):
        reply = Reply(started=time.monotonic())
        try:
            if self.writer is None:
                self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
            self.writer.write(request_bytes(path, body))
            reply.status, reply.headers = await read_head(self.reader)
            if reply.headers.get("transfer-encoding") == "chunked":
                await read_events(self.reader, reply)
            else:
                reply.body = await self.reader.readexactly(int(reply.headers.get("content-length", 0)))
            if reply.headers.get("connection", "").lower() == "close":
                self.close()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            reply.error = repr(error)
            self.close()
        return reply

    def close(self):
        if self.writer is not None:
            self.writer.close()
            self.writer = None


def percentile(values, percent):
    """The nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * percent // 100) - 1))]
