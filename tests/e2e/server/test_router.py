"""Two replicas behind the router `smg`: either gives the same bits, and one that dies leaves an error or a retry."""

import concurrent.futures
import http.client
import json
import subprocess
import sys

import pytest
from serving import Server, free_port, joined, sse_events, wait_until

PROMPTS = ["The sky is", "Once upon a time", "A good soup needs", "The first rule is", "In the year 1850", "My dog"]
STREAM_TOKENS = 240  # so many that the first stream goes on when the last begins
SECONDS = 300  # within which every stream must have ended, one way or the other


class Router:
    """`smg launch` before some workers."""

    def __init__(self, workers, folder):
        self.port = free_port()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "smg", "launch", "--host", "127.0.0.1", "--port", str(self.port)]
            + ["--worker-urls", *(worker.url for worker in workers), "--policy", "round_robin"]
            + ["--prometheus-port", str(free_port()), "--health-check-interval-secs", "1", "--log-dir", str(folder)]
            + ["--health-failure-threshold", "1", "--health-success-threshold", "1"]
            + ["--health-check-timeout-secs", "60"]  # a replica that is gone refuses, it does not hang
            + ["--disable-tokenizer-autoload", "--shutdown-grace-period-secs", "1"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        headers = {"Content-Type": "application/json"} if body else {}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        return connection.getresponse()

    def ready(self, workers):
        """Whether it knows so many, and sends requests to each."""
        assert self.process.poll() is None, "the router ended"
        try:
            response = self.request("GET", "/workers")
            if response.status != 200:
                return False
            known = json.loads(response.read())["workers"]
            return sum(worker["is_healthy"] and worker["status"] == "ready" for worker in known) == workers
        except OSError:
            return False

    def ask(self, body):
        response = self.request("POST", "/v1/completions", body)
        content = response.read()
        assert response.status == 200, (response.status, content)
        return json.loads(content)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


@pytest.fixture
def replicas(tmp_path, smollm2):
    workers = [Server(smollm2, "--served-model-name", "small", folder=tmp_path / f"worker{i}") for i in range(2)]
    try:
        for worker in workers:
            worker.start(free_port())
        yield workers
        for worker in workers:
            worker.stop()
    finally:
        for worker in workers:
            worker.kill()


@pytest.fixture
def router(replicas, tmp_path):
    router = Router(replicas, tmp_path)
    try:
        wait_until(lambda: router.ready(len(replicas)), SECONDS, "the router", 0.2)
        yield router
    finally:
        router.close()


def body(prompt, tokens=STREAM_TOKENS):
    return {"model": "small", "prompt": prompt, "max_tokens": tokens, "seed": 4, "temperature": 0.9, "ignore_eos": True}


def essence(answer):
    """What must be equal: an answer without its id, time, and what tells of the run."""
    return [(choice["text"], choice["logprobs"], choice["finish_reason"]) for choice in answer["choices"]]


def test_either_replica_gives_the_same_bits(router, replicas):
    answers = [router.ask({**body("The sky is", 24), "logprobs": 2}) for _ in range(6)]
    assert all(essence(answer) == essence(answers[0]) for answer in answers)
    assert len({answer["system_fingerprint"] for answer in answers}) == 1
    assert all(worker.stats()["requests"] > 0 for worker in replicas), "one replica answered all"
    assert essence(router.ask({**body("The sky is", 24), "logprobs": 2, "seed": 5})) != essence(answers[0])


def streamed(router, prompt, started):
    """The text of a stream through the router, or the error that ended it."""
    try:
        response = router.request("POST", "/v1/completions", {**body(prompt), "stream": True})
        if response.status != 200:
            return None, f"status {response.status}"
        events = []
        for data in sse_events(iter(response.readline, b"")):
            started.add(prompt)
            events.append(data)
        if not events or events.pop() != "[DONE]":
            return None, "ended without [DONE]"
        return joined(map(json.loads, events))["choices"][0]["text"], None
    except (OSError, http.client.HTTPException, AssertionError, KeyError) as error:
        return None, repr(error)


def test_a_replica_killed_in_the_middle(router, replicas):
    started = set()
    with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
        asked = {prompt: pool.submit(replicas[1].ask, "/v1/completions", body(prompt)) for prompt in PROMPTS}
        expected = {prompt: answer.result()["choices"][0]["text"] for prompt, answer in asked.items()}
        streams = {prompt: pool.submit(streamed, router, prompt, started) for prompt in PROMPTS}
        wait_until(lambda: len(started) == len(PROMPTS), SECONDS, "every stream to start")
        assert replicas[0].stats()["running"] > 0 and replicas[1].stats()["running"] > 0
        port = replicas[0].port
        replicas[0].kill()
        ended = {prompt: stream.result(SECONDS) for prompt, stream in streams.items()}
    whole = {prompt: text for prompt, (text, _) in ended.items() if text is not None}
    broken = [prompt for prompt, (text, error) in ended.items() if error]
    assert whole and broken, ended
    assert all(text == expected[prompt] for prompt, text in whole.items())

    def retried(prompt):
        try:
            return router.ask(body(prompt))["choices"][0]["text"]
        except (AssertionError, OSError, http.client.HTTPException):
            return None  # the router has not noticed yet

    for prompt in broken:
        again = wait_until(lambda prompt=prompt: retried(prompt), SECONDS, "an answer by the other", 0.2)
        assert again == expected[prompt]

    replicas[0].start(port)

    def comes_back():
        assert retried(PROMPTS[0]) == expected[PROMPTS[0]]
        return replicas[0].stats()["requests"] > 0

    wait_until(comes_back, SECONDS, "the restarted replica to be used again", 0.2)
