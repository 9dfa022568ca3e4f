"""What goes wrong around a server: clients that vanish, do not read or never finish asking, kills, full disks, drains.

After each fault the server answers as before, bit for bit, and holds nothing of the request that failed.
"""

import concurrent.futures
import http.client
import json
import signal
import socket
import struct
import time

import pytest
from serving import PATIENCE, free_port, joined, wait_until

# So long that no answer is over before its test has done what it will.
LONG = {"prompt": "Go on and on:", "max_tokens": 4000, "temperature": 0, "ignore_eos": True, "logprobs": 0}
REFERENCE = {"prompt": "The sky is", "max_tokens": 24, "temperature": 0.9, "seed": 8, "logprobs": 2, "ignore_eos": True}


def send(connection, body):
    """Sends a request and leaves its answer unread."""
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})


def bits(server):
    """What of the reference request must never change."""
    return server.ask("/v1/completions", REFERENCE)["choices"]


@pytest.fixture(scope="module")
def expected(server):
    return bits(server)


@pytest.fixture(autouse=True)
def unharmed(request):
    """After each test that used the shared server it is idle, and answers as before."""
    if "server" not in request.fixturenames:
        yield
        return
    server, before = request.getfixturevalue("server"), request.getfixturevalue("expected")
    yield
    server.wait_idle()
    assert bits(server) == before


def reset(connection):
    """Closes a socket with RST, as the kernel does for a process that was killed with unread data."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# ---- clients that go ----


def freed_after(server, streams):
    """Seconds from the going of clients until no sequence runs and no block is held."""
    for stream in streams:
        stream.next()
    # The stats are of the end of a step, a moment after its tokens are told.
    wait_until(lambda: server.stats()["running"] == len(streams), PATIENCE, "all to run")
    started = time.monotonic()
    for stream in streams:
        stream.close()
    server.wait_idle()
    return time.monotonic() - started


def freed_times(server, clients, enough, least):
    """How long that many clients' blocks took to be free in each of some tries, until one took less than enough.

    A timer would delay each of them, a busy machine may delay some. Every answer must have been cancelled.
    """
    before, times = server.stats()["answers"]["cancelled"], []
    while len(times) < least or (len(times) < 20 and min(times) >= enough):
        times.append(freed_after(server, [server.stream("/v1/completions", LONG) for _ in range(clients)]))
    server.wait_ended("cancelled", before + clients * len(times))
    return times


def test_a_client_that_goes_frees_its_blocks_at_once(server):
    times = freed_times(server, 1, 0.1, 5)
    assert min(times) < 0.1 and max(times) < 2, times


def test_many_clients_that_go_together(server):
    times = freed_times(server, 16, 0.5, 2)
    assert min(times) < 0.5, times


def test_a_client_that_waits_for_a_whole_answer_and_goes(server):
    before = server.stats()["answers"]["cancelled"]
    connection = server.connect()
    send(connection, {**LONG, "n": 2})
    wait_until(lambda: server.stats()["running"] == 2, PATIENCE, "the request to run")
    reset(connection.sock)
    server.wait_idle()
    server.wait_ended("cancelled", before + 2)


def test_a_client_that_goes_while_its_prompt_is_computed(server):
    before = server.stats()["answers"]["cancelled"]
    connection = server.connect()
    send(connection, {**LONG, "prompt": "All work and no play. " * 250})
    wait_until(lambda: server.stats()["running"] == 1, PATIENCE, "the request to run")
    reset(connection.sock)
    server.wait_idle()
    server.wait_ended("cancelled", before + 1)


def test_a_client_that_stops_asking_still_gets_its_answer(server):
    """A TCP connection that is half closed: nothing more will be asked, but the answer is waited for."""
    payload = json.dumps(REFERENCE).encode()
    with server.socket(60) as connection:
        connection.sendall(head(len(payload), "Connection: close") + payload)
        connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 200 ") and b'"finish_reason"' in answer


# ---- clients that are slow, or never finish ----


def head(length, *more, path="/v1/completions"):
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: test",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        *more,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def read_all(connection):
    """What comes until the server closes."""
    content = b""
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            return content
        if not part:
            return content
        content += part


def test_a_reader_that_does_not_read_holds_up_nobody(serve, smollm2):
    pool = 160 << 20  # of keys and values: memory that the answer may touch in any case
    server = serve("--max-unsent", 65536, "--kv-memory", pool, model=smollm2)
    first, memory = bits(server), server.resident()
    # Some megabytes, more than the kernel's buffers take.
    payload = json.dumps({**LONG, "logprobs": 20, "n": 4, "max_tokens": 1000, "stream": True}).encode()
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", server.port))
        slow.sendall(head(len(payload)) + payload)
        # It runs, or is cut off already.
        wait_until(lambda: (stats := server.stats())["running"] or stats["answers"]["cancelled"], PATIENCE, "a start")
        assert bits(server) == first
        # What is not read is bounded: past the bound the client is cut off and its answer cancelled.
        server.wait_ended("cancelled", 4)
        server.wait_idle()
        assert server.resident() < memory + pool + (32 << 20)
    assert bits(server) == first


def test_connections_that_never_finish_asking_are_ended(serve):
    server = serve("--header-timeout", 1, "--body-timeout", 1, "--keep-alive-timeout", 1)
    beginnings = {
        "nothing": b"",
        "half a line": b"POST /v1/comp",
        "half a header": b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nX-",
        "half a body": head(1000) + b'{"prompt": "',
        "half a chunk": b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nab",
    }
    files = server.open_files()
    for what, start in beginnings.items():
        with server.socket(60) as connection:
            connection.sendall(start)
            began = time.monotonic()
            answer = read_all(connection)
            assert time.monotonic() - began < 30, what
            assert answer == b"" or answer.startswith(b"HTTP/1.1 408 "), (what, answer)
    # One byte a second is no way around it.
    with server.socket(60) as connection:
        began = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() - began < 60:
                connection.sendall(b"G")
                time.sleep(0.25)
    wait_until(lambda: server.open_files() <= files, PATIENCE, "the sockets to be closed")


def test_idle_connections_do_not_keep_others_out(serve):
    server = serve("--max-connections", 50)
    idle = [server.socket() for _ in range(60)]
    # Beyond the limit connections are refused or closed, and once the idle ones go there is room again.
    for connection in idle:
        connection.close()
    wait_until(lambda: server.get("/health")[0] == 200, PATIENCE, "room")


# ---- the server's own troubles ----


def attempt(server, prompt, max_tokens):
    """A stream's text, or None where the connection broke."""
    try:
        stream = server.stream("/v1/completions", {**LONG, "prompt": prompt, "max_tokens": max_tokens})
        return joined(stream)["choices"][0]["text"]
    except (OSError, http.client.HTTPException, AssertionError):
        return None


def test_a_kill_under_load_and_a_restart(serve, smollm2):
    port = free_port()
    server = serve(model=smollm2, port=port)
    first = bits(server)
    prompts = [f"Chapter {i}." for i in range(8)]
    whole = {
        prompt: joined(server.stream("/v1/completions", {**LONG, "prompt": prompt, "max_tokens": 150}))
        for prompt in prompts[:2]
    }
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        streams = [pool.submit(attempt, server, prompt, LONG["max_tokens"]) for prompt in prompts]
        wait_until(lambda: server.stats()["running"] == 8, PATIENCE, "all to run")
        server.kill()
        assert [stream.result(PATIENCE) for stream in streams] == [None] * 8
    server.start(port)
    assert server.port == port
    assert bits(server) == first
    for prompt, answer in whole.items():
        assert attempt(server, prompt, 150) == answer["choices"][0]["text"]


def test_a_full_disk_for_logs(serve):
    server = serve("--log-file", "/dev/full")
    answers = [server.ask("/v1/completions", {**REFERENCE, "max_tokens": 4})["choices"] for _ in range(5)]
    assert all(answer == answers[0] for answer in answers)
    wait_until(lambda: server.stats()["log"]["dropped"] > 0, PATIENCE, "lines to be dropped")
    assert server.metric("eadem_log_dropped_total") > 0


def test_sigterm_drains(serve, smollm2):
    server = serve("--drain-timeout", 120, model=smollm2)
    prompts = [f"Verse {i}:" for i in range(4)]
    request = {**LONG, "max_tokens": 120}
    expected = [
        server.ask("/v1/completions", {**request, "prompt": prompt})["choices"][0]["text"] for prompt in prompts
    ]
    streams = [server.stream("/v1/completions", {**request, "prompt": prompt}) for prompt in prompts]
    heads = [stream.next()["choices"][0]["text"] for stream in streams]
    server.process.send_signal(signal.SIGTERM)
    # New requests are refused (or find nobody); those under way are finished to the last token.
    assert wait_until(lambda: refused(server), PATIENCE, "new requests to be refused")
    texts = [begin + joined(stream)["choices"][0]["text"] for begin, stream in zip(heads, streams, strict=True)]
    assert texts == expected
    assert server.process.wait(PATIENCE) == 0
    server.process = None


def refused(server):
    try:
        status, headers, _ = server.post("/v1/completions", {**REFERENCE, "max_tokens": 1})
    except (ConnectionError, http.client.HTTPException):
        return True
    assert status in (200, 503), status
    return status == 503 and ("retry-after" in headers or headers.get("connection") == "close")


def test_a_drain_that_takes_too_long_is_cut(serve, smollm2):
    server = serve("--drain-timeout", 1, model=smollm2)
    stream = server.stream("/v1/completions", LONG)
    stream.next()
    server.stop()
    with pytest.raises((OSError, http.client.HTTPException, AssertionError)):
        joined(stream)


def test_a_full_queue_answers_429_and_when_to_come_again(serve, smollm2):
    server = serve("--max-num-seqs", 2, "--max-waiting", 3, model=smollm2)
    streams = [server.stream("/v1/completions", LONG) for _ in range(2)]
    for stream in streams:
        stream.next()
    waiting = [server.connect() for _ in range(3)]
    for connection in waiting:
        send(connection, {**LONG, "max_tokens": 4})
    wait_until(lambda: server.stats()["waiting"] == 3, PATIENCE, "three to wait")
    status, headers, answer = server.post("/v1/completions", LONG)
    assert status == 429 and int(headers["retry-after"]) >= 1, (status, headers, answer)
    assert answer["error"]["type"] and answer["error"]["message"]
    assert server.stats()["refused"]["queue_full"] == 1
    for stream in streams:
        stream.close()
    assert all(connection.getresponse().status == 200 for connection in waiting)
