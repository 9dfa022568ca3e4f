"""What the server says of itself: Prometheus' text by its own parser, the page's JSON, and the log."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import PATIENCE, wait_until

REQUEST = {"prompt": "one two three", "max_tokens": 8, "temperature": 0, "ignore_eos": True, "seed": 5}
SCRAPED = {
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:gpu_cache_usage_perc",
    "vllm:prefix_cache_queries",
    "vllm:prefix_cache_hits",
    "vllm:num_preemptions",
    "vllm:prompt_tokens",
    "vllm:generation_tokens",
    "vllm:request_success",
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:time_per_output_token_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:spec_decode_num_drafts",
    "vllm:spec_decode_num_draft_tokens",
    "vllm:spec_decode_num_accepted_tokens",
}


@pytest.fixture
def scrape(serve):
    """A function that parses /metrics of a server: family name -> family."""

    def read(server):
        status, headers, text = server.get("/metrics")
        assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
        return {family.name: family for family in text_string_to_metric_families(text.decode())}

    return read


def value(families, name, sample=None, **labels):
    found = [
        s.value
        for s in families[name].samples
        if s.name == (sample or s.name) and all(s.labels.get(k) == v for k, v in labels.items())
    ]
    assert len(found) == 1, (name, sample, labels, found)
    return found[0]


def test_prometheus(serve, scrape):
    server = serve("--served-model-name", "tiny")
    before = scrape(server)
    assert set(before) >= SCRAPED, SCRAPED - set(before)
    server.ask("/v1/completions", REQUEST)
    server.ask("/v1/completions", {**REQUEST, "n": 2})
    assert server.post("/v1/completions", {**REQUEST, "frobnicate": 1})[0] == 400
    assert server.get("/nothing")[0] == 404
    families = scrape(server)
    assert value(families, "vllm:generation_tokens", model_name="tiny") == 24
    assert value(families, "vllm:request_success", finished_reason="length") == 3
    assert value(families, "vllm:request_success", finished_reason="stop") == 0
    assert value(families, "vllm:time_to_first_token_seconds", "vllm:time_to_first_token_seconds_count") == 3
    assert value(families, "vllm:inter_token_latency_seconds", "vllm:inter_token_latency_seconds_count") == 21
    assert value(families, "vllm:e2e_request_latency_seconds", "vllm:e2e_request_latency_seconds_count") == 3
    assert value(families, "eadem_requests_refused", reason="invalid") == 1
    assert value(families, "eadem_http_replies", status="404") == 1
    assert value(families, "eadem_up") == 1
    for family in families.values():
        if family.type == "histogram":
            counts = [s.value for s in family.samples if s.name.endswith("_bucket")]
            assert counts == sorted(counts)


def test_the_page_gets_the_same(serve):
    server = serve("--served-model-name", "tiny")
    server.ask("/v1/completions", REQUEST)
    # The engine counts an answer when its step is over, which may be after the client has it.
    wait_until(lambda: server.stats()["engine"]["finished"] == 1, PATIENCE, "the engine's count of the answer")
    stats = server.stats()
    assert stats["state"] == "ready" and stats["model"] == "tiny" and len(stats["fingerprint"]) == 64
    assert stats["generation_tokens"] == 8 and stats["answers"]["length"] == 1
    assert stats["engine"]["finished"] == 1 and stats["engine"]["steps"] > 0
    assert stats["histograms"]["inter_token"]["count"] == 7


def test_the_log(serve, tmp_path, smollm2):
    path = tmp_path / "log"
    server = serve("--log-file", path, "--served-model-name", "tiny", model=smollm2)
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"X-Request-Id": "mine", "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    status, fields, _ = server.request("POST", "/v1/completions", {**REQUEST, "prompt": "secret words"}, headers)
    assert status == 200 and fields["x-request-id"] == "mine" and fields["traceparent"].startswith(f"00-{trace}-")
    stream = server.stream("/v1/completions", {**REQUEST, "max_tokens": 4000})  # not over before its client goes
    stream.next()
    stream.close()
    server.wait_idle()
    server.stop()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines if line["event"] != "request"] == [
        "listening",
        "ready",
        "draining",
        "stopped",
    ]
    whole = next(line for line in lines if line.get("request_id") == "mine")
    assert whole["status"] == 200 and whole["trace_id"] == trace and whole["seed"] == 5
    assert whole["completion_tokens"] == 8 and whole["finish_reason"] == "length" and whole["seconds"] > 0
    assert any(line.get("status") == 499 and line["cancelled"] for line in lines)
    assert "secret" not in path.read_text()
