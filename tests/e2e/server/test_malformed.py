"""Requests that are no requests: each gets one clear answer or a closed connection, and the server goes on."""

import contextlib
import json
import random
import time

import pytest
from serving import PATIENCE, wait_until

REFERENCE = {"prompt": "one two", "max_tokens": 6, "temperature": 0.9, "seed": 3, "logprobs": 1, "ignore_eos": True}
MAX_BODY = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    from serving import FIXTURE_MODELS, Server

    folder = tmp_path_factory.mktemp("malformed")
    options = ["--max-body", MAX_BODY, "--header-timeout", 1, "--body-timeout", 1, "--keep-alive-timeout", 1]
    with Server(FIXTURE_MODELS / "llama3", *options, folder=folder) as server:
        yield server


@pytest.fixture(autouse=True)
def unharmed(server):
    before = server.ask("/v1/completions", REFERENCE)["choices"]
    yield
    assert server.ask("/v1/completions", REFERENCE)["choices"] == before
    server.wait_idle()


def answer_to(server, request, seconds=60):
    """The status that comes back for raw bytes (None: the connection was closed without one), and all bytes."""
    content = b""
    with server.socket(seconds) as connection:
        began = time.monotonic()
        # A server that has refused may be gone before all is sent; its reply is there all the same.
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(request)
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65536):
                content += part
        assert time.monotonic() - began < seconds
    if not content:
        return None, b""
    assert content.startswith(b"HTTP/1.1 "), content[:100]
    return int(content[9:12]), content


def raw(*lines, body=b""):
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


POST = "POST /v1/completions HTTP/1.1"
HEAD = (POST, "Host: a", "Content-Type: application/json", "Connection: close")
WIRE = {
    "no version": (raw("GET /health"), {400}),
    "an unknown version": (raw("GET /health HTTP/3.7", "Host: a"), {400, 505}),
    "an unknown method": (raw("BREW /v1/completions HTTP/1.1", "Host: a", "Connection: close"), {400, 405, 501}),
    "a space in the path": (raw("GET /a b HTTP/1.1", "Host: a"), {400, 505}),
    "a broken escape in the path": (raw("GET /%zz HTTP/1.1", "Host: a", "Connection: close"), {400, 404}),
    "a path that climbs": (raw("GET /../../etc/passwd HTTP/1.1", "Host: a", "Connection: close"), {400, 404}),
    "an escaped NUL in the path": (raw("GET /health%00x HTTP/1.1", "Host: a", "Connection: close"), {400, 404}),
    "a header without a colon": (raw("GET /health HTTP/1.1", "Host a"), {400}),
    "a NUL in a header": (raw("GET /health HTTP/1.1", "Host: a", "X: a\0b"), {400}),
    "a folded header": (raw("GET /health HTTP/1.1", "Host: a", "X: a", "  b", "Connection: close"), {200, 400}),
    "too long a header": (raw("GET /health HTTP/1.1", "Host: a", "X: " + "a" * 300000), {400, 431}),
    "too many headers": (raw("GET /health HTTP/1.1", *[f"X{i}: a" for i in range(40000)]), {400, 431}),
    "too long a path": (raw("GET /" + "a" * 300000 + " HTTP/1.1", "Host: a"), {400, 414, 431}),
    "two different lengths": (raw(*HEAD, "Content-Length: 2", "Content-Length: 3", body=b"{} "), {400}),
    "a negative length": (raw(*HEAD, "Content-Length: -1"), {400}),
    "a length that is no number": (raw(*HEAD, "Content-Length: 1e3"), {400}),
    "a length past 64 bits": (raw(*HEAD, "Content-Length: 99999999999999999999999"), {400, 413}),
    "a length and chunks": (
        raw(*HEAD, "Content-Length: 4", "Transfer-Encoding: chunked", body=b"2\r\n{}\r\n0\r\n\r\n"),
        {400},
    ),
    "an unknown coding": (raw(*HEAD, "Transfer-Encoding: gzip", body=b"xx"), {400, 411, 501}),
    "a chunk size that is no number": (raw(*HEAD, "Transfer-Encoding: chunked", body=b"zz\r\n{}\r\n"), {400}),
    "a chunk size past 64 bits": (raw(*HEAD, "Transfer-Encoding: chunked", body=b"f" * 30 + b"\r\n"), {400, 413}),
    "a body longer than it may be": (raw(*HEAD, f"Content-Length: {MAX_BODY + 1}", body=b" " * (MAX_BODY + 1)), {413}),
    "a body that is said to be huge": (raw(*HEAD, "Content-Length: 1000000000000"), {413}),
    "chunks without end": (
        raw(*HEAD, "Transfer-Encoding: chunked", body=(b"10000\r\n" + b" " * 65536 + b"\r\n") * 40),
        {413},
    ),
    "a TLS greeting": (bytes.fromhex("16030100750100007103034f5a") + b"\0" * 100, {400}),
    "HTTP/2 without being asked": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505}),
    "zeros": (b"\0" * 5000, {400}),
}


@pytest.mark.parametrize("name", WIRE)
def test_the_wire(server, name):
    request, statuses = WIRE[name]
    status, content = answer_to(server, request)
    assert status in statuses | {None}, (status, content[:300])
    # A 413 must reach its client: it is sent while the body is still under way.
    if 413 in statuses:
        assert status in statuses, "closed without a word"


BODIES = {
    "nothing": b"",
    "no JSON": b"prompt=Hi",
    "half an object": b'{"prompt": "Hi"',
    "something after it": b'{"prompt": "Hi"} {}',
    "an array": b"[]",
    "a text": b'"Hi"',
    "null": b"null",
    "deep arrays": b'{"prompt": ' + b"[" * 100000 + b"]" * 100000 + b"}",
    "deep objects": b'{"prompt": ' + b'{"a":' * 50000 + b"1" + b"}" * 50000 + b"}",
    "no UTF-8": b'{"prompt": "\xff\xfe"}',
    "half a surrogate": b'{"prompt": "\\ud800", "frobnicate": 1}',
    "a number without end": b'{"prompt": "Hi", "max_tokens": 1' + b"0" * 400 + b"}",
    "a float for an integer": b'{"prompt": "Hi", "max_tokens": 1.5}',
    "infinity": b'{"prompt": "Hi", "temperature": 1e999}',
    "not a number": b'{"prompt": "Hi", "temperature": NaN}',
    "a text for a number": b'{"prompt": "Hi", "temperature": "1"}',
    "token ids that are none": b'{"prompt": [1, -5]}',
    "token ids past the vocabulary": b'{"prompt": [1, 99999999]}',
    "token ids past 64 bits": b'{"prompt": [1, 99999999999999999999999999]}',
    "mixed prompts": b'{"prompt": ["a", 1]}',
    "no prompts": b'{"prompt": []}',
    "an empty prompt among others": b'{"prompt": ["a", []]}',
    "too many answers": b'{"prompt": "Hi", "n": 1000000000}',
    "too many stop texts": json.dumps({"prompt": "Hi", "stop": [f"a{i}" for i in range(50000)], "x": 1}).encode(),
    "the same field twice": b'{"prompt": "Hi", "max_tokens": 1, "max_tokens": 2, "frobnicate": 1}',
    "a name with control characters": b'{"prompt": "Hi", "a\\nb\\u0000": 1}',
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize"])
def test_bodies(server, path, name):
    status, _, answer = server.post(path, BODIES[name])
    assert 400 <= status < 500, (status, answer)
    assert isinstance(answer["error"]["message"], str) and len(answer["error"]["message"]) < 1000
    assert "\n" not in answer["error"]["message"]


def test_the_type_of_the_body_is_looked_at(server):
    body = json.dumps(REFERENCE)
    assert server.post("/v1/completions", body, headers={"Content-Type": "text/plain"})[0] in (200, 400, 415)
    assert server.post("/v1/completions", body, headers={"Content-Encoding": "gzip"})[0] in (400, 415)


def test_random_bytes(server):
    rng = random.Random(20261129)
    memory, files = server.resident(), server.open_files()
    good = raw(*HEAD, f"Content-Length: {len(json.dumps(REFERENCE))}", body=json.dumps(REFERENCE).encode())
    for _ in range(150):
        request = bytearray(good)
        for _ in range(rng.choice((1, 1, 2, 8, 40))):
            kind, place = rng.randrange(3), rng.randrange(len(request))
            if kind == 0:
                request[place] = rng.randrange(256)
            elif kind == 1:
                del request[place : place + rng.randrange(1, 20)]
            else:
                request[place:place] = rng.randbytes(rng.randrange(1, 20))
        status, content = answer_to(server, bytes(request) + b"\r\n\r\n")
        assert status is None or status in (200, 411, 501, 505) or 400 <= status < 500, (bytes(request), content[:300])
    wait_until(lambda: server.open_files() <= files + 1, PATIENCE, "the sockets to be closed")
    assert server.resident() < memory + (32 << 20)


def test_pipelined_requests_are_answered_in_order(server):
    one = raw("GET /health HTTP/1.1", "Host: a")
    two = raw("GET /v1/models HTTP/1.1", "Host: a")
    last = raw("GET /no/such/path HTTP/1.1", "Host: a", "Connection: close")
    status, content = answer_to(server, one + two + last)
    assert status == 200 and content.count(b"HTTP/1.1 ") == 3
    assert content.index(b'"object"') < content.index(b"HTTP/1.1 404")
