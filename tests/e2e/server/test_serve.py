"""The command itself: what it refuses, how it starts, how it ends."""

import http.client
import json
import signal
import socket
import subprocess

import pytest
from serving import FIXTURE_MODELS, PATIENCE, program, wait_until

MODEL = FIXTURE_MODELS / "llama3"


def refused(*options, model=MODEL, port=0):
    command = [program(), "serve", "-m", model, "--port", port, *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2, done
    errors = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert len(errors) == 1 and errors[0].startswith("eadem: "), done.stderr
    return errors[0]


def test_bad_options_are_refused_in_one_line(serve, tmp_path):
    assert "--ssl-keyfile" in refused("--ssl-certfile", "a.pem")
    assert "--ssl-certfile a.pem" in refused("--ssl-certfile", "a.pem", "--ssl-keyfile", "b.pem")
    assert "--root-path" in refused("--root-path", "llm/")
    assert "--max-body" in refused("--max-body", "much")
    assert "--log-file" in refused("--log-file", tmp_path)
    assert "--log-level" in refused("--log-level", "loud")
    assert "--allowed-origins" in refused("--allowed-origins", "[1]")
    assert "nowhere" in refused(model=tmp_path / "nowhere")
    busy = serve()
    assert "--port" in refused(port=busy.port)


def test_a_unix_socket_and_a_ready_file(tmp_path):
    path, ready = tmp_path / "socket", tmp_path / "ready"
    command = [program(), "serve", "-m", MODEL, "--uds", path, "--ready-file", ready, "--root-path", "/llm"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout.readline() == f"listening on unix:{path}\n"
        assert ready.read_text() == f"unix:{path}\n"
        for prefix in ("", "/llm"):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                connection.sendall(f"GET {prefix}/version HTTP/1.0\r\n\r\n".encode())
                answer = connection.makefile("rb").read()
            assert answer.startswith(b"HTTP/1.0 200 ") and json.loads(answer.partition(b"\r\n\r\n")[2])["version"]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert not path.exists() and not ready.exists()
    finally:
        process.kill()
        process.wait()


def test_a_second_signal_ends_the_drain(serve, smollm2):
    server = serve("--drain-timeout", 600, model=smollm2)
    stream = server.stream("/v1/completions", {"prompt": "Go on:", "max_tokens": 4000, "ignore_eos": True})
    stream.next()
    server.process.send_signal(signal.SIGTERM)
    wait_until(lambda: server.get("/health")[0] == 503, PATIENCE, "/health to say that the server goes")
    assert server.get("/metrics")[0] == 200
    assert server.process.poll() is None
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE) == 0
    server.process = None
    with pytest.raises((OSError, http.client.HTTPException, AssertionError)):
        list(stream)  # it was cut, not waited for


def test_keys_from_the_environment(serve):
    server = serve("--api-key", "one", environment={"EADEM_API_KEY": "two"})
    body = {"prompt": "Hi", "max_tokens": 1}
    assert server.post("/v1/completions", body)[0] == 401
    for key in ("one", "two"):
        assert server.post("/v1/completions", body, headers={"Authorization": f"Bearer {key}"})[0] == 200
    assert server.get("/health")[0] == 200 and server.get("/metrics")[0] == 200 and server.get("/v1/stats")[0] == 401


@pytest.mark.parametrize(
    "origins, allowed", [('["http://a.example"]', False), ("http://b.example,http://c.example", True)]
)
def test_origins(serve, origins, allowed):
    server = serve("--allowed-origins", origins)
    _, headers, _ = server.get("/health", headers={"Origin": "http://c.example"})
    assert (headers.get("access-control-allow-origin") == "http://c.example") == allowed
