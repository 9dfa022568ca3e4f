"""curl, TLS, and nginx in front: event streams pass at once, and a client that leaves nginx is noticed behind it."""

import http.client
import json
import shutil
import ssl
import subprocess
import time

import pytest
from serving import PATIENCE, free_port, joined, sse_events, wait_until

BODY = {"prompt": "The sky is", "max_tokens": 16, "temperature": 0, "ignore_eos": True, "logprobs": 0}


def curl(*arguments, status=0):
    command = ["curl", "--silent", "--show-error", "--max-time", "300", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == status, (done.returncode, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """(certificate, key) of localhost, signed by itself."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        + ["-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    return certificate, key


# ---- curl ----


def test_curl_as_the_documentation_shows_it(server):
    whole = json.loads(curl(server.url + "/v1/completions", "--json", json.dumps(BODY)))
    lines = curl("-N", server.url + "/v1/completions", "--json", json.dumps({**BODY, "stream": True})).splitlines(True)
    events = list(sse_events(lines))
    assert events.pop() == "[DONE]"
    streamed = joined(json.loads(event) for event in events)
    assert streamed["choices"][0]["text"] == whole["choices"][0]["text"]
    assert streamed["choices"][0]["logprobs"] == whole["choices"][0]["logprobs"]["token_logprobs"]


def test_curl_head_options_and_unknown_paths(server):
    assert b" 200" in curl("--head", server.url + "/health").splitlines()[0]
    assert curl("-o", "/dev/null", "-w", "%{http_code}", server.url + "/no/such/path") == b"404"
    assert curl("-o", "/dev/null", "-w", "%{http_code}", "-X", "DELETE", server.url + "/v1/completions") == b"405"


def test_curl_keeps_one_connection(server):
    many = curl("-w", "%{num_connects} ", *["-o", "/dev/null", server.url + "/health"] * 3)
    assert many.split() == [b"1", b"0", b"0"]


def test_curl_waits_for_100_continue(server):
    body = json.dumps({**BODY, "prompt": "word " * 600})
    answer = curl(server.url + "/v1/completions", "--json", body, "-H", "Expect: 100-continue")
    assert json.loads(answer)["usage"]["completion_tokens"] == 16


def test_curl_sends_a_chunked_body(server):
    answer = curl(server.url + "/v1/completions", "--json", json.dumps(BODY), "-H", "Transfer-Encoding: chunked")
    assert json.loads(answer)["choices"][0]["text"]


# ---- TLS ----


def test_tls(serve, certificate):
    cert, key = certificate
    server = serve("--ssl-certfile", cert, "--ssl-keyfile", key, "--served-model-name", "tiny", scheme="https")
    url = f"https://localhost:{server.port}"
    answer = json.loads(
        curl(url + "/v1/completions", "--cacert", cert, "--json", json.dumps({**BODY, "stream": False}))
    )
    lines = curl("-N", url + "/v1/completions", "--cacert", cert, "--json", json.dumps({**BODY, "stream": True}))
    events = list(sse_events(lines.splitlines(True)))[:-1]
    assert joined(map(json.loads, events))["choices"][0]["text"] == answer["choices"][0]["text"]
    assert curl(url + "/health", "--cacert", cert, "--tlsv1.3") is not None
    curl(url + "/health", "--cacert", cert, "--tls-max", "1.1", status=35)  # too old a protocol
    curl(url + "/health", status=60)  # a certificate that nobody signed
    # Plain HTTP on the TLS port gets no answer that could be taken for one, and hurts nobody.
    assert (
        subprocess.run(["curl", "--silent", "--max-time", "10", f"http://localhost:{server.port}/health"]).returncode
        != 0
    )
    assert json.loads(curl(url + "/v1/models", "--cacert", cert))["data"][0]["id"] == "tiny"


# ---- nginx ----

CONFIGURATION = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream eadem {{ server 127.0.0.1:{port}; keepalive 8; }}
  server {{
    listen 127.0.0.1:{listen} ssl; ssl_certificate {cert}; ssl_certificate_key {key};
    location / {{
      proxy_pass http://eadem; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_read_timeout 300s; client_max_body_size 16m;
    }}
  }}
}}
"""


@pytest.fixture(scope="module")
def proxy(server, certificate, tmp_path_factory):
    """nginx with TLS before the server: a function that opens an HTTPS connection to it."""
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    assert nginx, "nginx is not installed (./dev setup)"
    folder = tmp_path_factory.mktemp("nginx")
    listen = free_port()
    text = CONFIGURATION.format(folder=folder, port=server.port, listen=listen, cert=certificate[0], key=certificate[1])
    (folder / "nginx.conf").write_text(text)
    process = subprocess.Popen([nginx, "-e", f"{folder}/error.log", "-p", folder, "-c", f"{folder}/nginx.conf"])
    context = ssl.create_default_context(cafile=certificate[0])

    def connect():
        return http.client.HTTPSConnection("localhost", listen, context=context, timeout=300)

    def answers():
        assert process.poll() is None, (folder / "error.log").read_text()
        try:
            connection = connect()
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False

    try:
        wait_until(answers, PATIENCE, "nginx", 0.05)
        yield connect
    finally:
        process.terminate()
        process.wait(PATIENCE)


def post(connection, body):
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.status == 200, response.read()
    return response


def timed_stream(connection):
    """A stream of 64 tokens through the proxy, joined, and the times when its events came."""
    response = post(connection, {**BODY, "max_tokens": 64, "stream": True})
    events, times = [], []
    for data in sse_events(iter(response.readline, b"")):
        times.append(time.monotonic())
        events.append(data)
    assert events.pop() == "[DONE]"
    return joined(map(json.loads, events)), times


def test_a_stream_passes_nginx_event_by_event(server, proxy):
    direct = joined(server.stream("/v1/completions", {**BODY, "max_tokens": 64}))
    connection = proxy()
    # Held back by a buffer they would come all at the end, every time: most of the time must lie between the first and
    # the last. A busy machine may hold up who reads here, and then they seem to come together.
    for _ in range(20):
        through, times = timed_stream(connection)
        assert through["choices"] == direct["choices"]
        one_by_one = times[-1] - times[0] > 0.1 and len({round(t, 3) for t in times}) > 16
        if one_by_one:
            break
    assert one_by_one, times
    # Keep-alive through the proxy.
    whole = json.loads(post(connection, BODY).read())
    assert whole["choices"][0]["text"] == direct["choices"][0]["text"][: len(whole["choices"][0]["text"])]
    connection.close()


def test_a_client_that_leaves_nginx_is_cancelled(server, proxy):
    before = server.wait_idle()["answers"]["cancelled"]
    connection = proxy()
    response = post(connection, {**BODY, "max_tokens": 4000, "stream": True})
    for _ in range(6):
        response.readline()
    connection.close()
    response.close()
    server.wait_ended("cancelled", before + 1)
    server.wait_idle()
