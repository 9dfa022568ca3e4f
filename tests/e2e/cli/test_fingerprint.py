"""`eadem info` tells the fingerprint, short and as CycloneDX; all of it is documented, and weights are hashed once."""

import hashlib
import importlib.resources
import json
import os
import pathlib
import re
import shutil
import time

import jsonschema
import referencing
import referencing.jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[3]


def info(eadem, *arguments):
    return json.loads(eadem("info", "--json", *arguments).stdout)["model"]


def validator():
    """The official schema of CycloneDX 1.7, as the package cyclonedx-python-lib carries it."""
    folder = importlib.resources.files("cyclonedx.schema") / "_res"

    def load(name):
        return json.loads((folder / name).read_text(encoding="utf-8"))

    parts = ["spdx.SNAPSHOT.schema.json", "jsf-0.82.SNAPSHOT.schema.json", "cryptography-defs.SNAPSHOT.schema.json"]
    schema = load("bom-1.7.SNAPSHOT.schema.json")
    base = schema["$id"].rsplit("/", 1)[0]
    registry = referencing.Registry().with_resources(
        (f"{base}/{name}", referencing.jsonschema.DRAFT7.create_resource(load(name))) for name in parts
    )
    return jsonschema.Draft7Validator(schema, registry=registry)


def test_info_tells_both_halves(eadem):
    first, second = info(eadem), info(eadem, "--threads", "3", "--replica", "host-7")
    assert first["fingerprint"] == second["fingerprint"] and first["identity"] == second["identity"]
    assert first["deployment_digest"] != second["deployment_digest"]
    changed = {key for key, value in first["deployment"].items() if second["deployment"][key] != value}
    assert changed == {"threads", "replica"}
    assert "host-7" not in json.dumps(second)
    text = eadem("info").stdout.decode()
    for value in (first["fingerprint"], first["identity"]["weights"], first["deployment"]["cpu_model"]):
        assert value in text


def test_every_field_is_documented(eadem):
    model = info(eadem)
    documented = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "fingerprint.md").read_text(), re.MULTILINE))
    assert documented == set(model["identity"]) | set(model["deployment"])


def test_free_order_promises_nothing(eadem):
    model = info(eadem, "--mode", "free")
    assert model["identity"]["numerics"] == "fma32-free" and model["deployment"]["isa"].endswith("-free")


def test_bill_of_materials_is_valid(eadem):
    bom = json.loads(eadem("info", "--cyclonedx").stdout)
    check = validator()
    assert not [error.message for error in check.iter_errors(bom)]
    for field, wrong in (("specVersion", 1.7), ("components", [{"name": "x"}]), ("serialNumber", "1")):
        assert list(check.iter_errors({**bom, field: wrong})), f"the control: {field}"
    broken = json.loads(json.dumps(bom))
    broken["components"][0]["hashes"][0]["alg"] = "CRC-32"
    assert list(check.iter_errors(broken)), "the control: an algorithm that the schema does not know"


def test_bill_of_materials_says_what_answers_are_made_with(eadem):
    bom, model = json.loads(eadem("info", "--cyclonedx").stdout), info(eadem)
    parts = {component["bom-ref"]: component for component in bom["components"]}
    assert parts["model"]["type"] == "machine-learning-model" and "modelCard" in parts["model"]
    assert parts["model"]["hashes"] == [{"alg": "BLAKE3", "content": model["identity"]["weights"]}]
    assert parts["tokenizer"]["hashes"][0]["content"] == model["identity"]["tokenizer"]
    assert parts["chat-template"]["hashes"][0]["content"] == model["identity"]["chat_template"]
    for file in parts["model"]["components"]:
        digest = hashlib.sha256((eadem.model / file["name"]).read_bytes()).hexdigest()
        assert file["hashes"] == [{"alg": "SHA-256", "content": digest}]
    formed = {p["name"]: p["value"] for p in bom["formulation"][0]["properties"]}
    for key, value in model["identity"].items():
        assert formed[f"eadem:identity:{key}"] == value
    run = {p["name"]: p["value"] for p in bom["metadata"]["component"]["properties"]}
    for key, value in model["deployment"].items():
        assert run[f"eadem:deployment:{key}"] == str(value)


def test_bill_of_materials_lists_the_libraries(eadem):
    bom = json.loads(eadem("info", "--cyclonedx").stdout)
    listed = {c["name"]: c for c in bom["components"] if c["type"] == "library"}
    manifest = (ROOT / "rust" / "text" / "Cargo.toml").read_text()
    crates = re.findall(r"^([a-z_0-9-]+) = .*?\"=([0-9.]+)\"", manifest.split("[dependencies]")[1], re.MULTILINE)
    assert len(crates) > 8
    for name, version in crates:
        assert listed[name]["purl"] == f"pkg:cargo/{name}@{version}"
    for name in ("openssl", "curl", "zlib", "boost", "nlohmann-json", "cli11", "tomlplusplus"):
        assert re.fullmatch(r"\d+(\.\d+)+", listed[name]["version"]), listed[name]
    assert all(c["licenses"][0]["expression"] for c in listed.values())
    needed = {d["ref"]: d["dependsOn"] for d in bom["dependencies"]}["eadem"]
    assert {c["bom-ref"] for c in listed.values()} < set(needed)


def test_weights_are_hashed_once_and_again_on_request(eadem):
    model = eadem.folder / "model"
    shutil.copytree(eadem.model, model)
    eadem.model = model
    digests = pathlib.Path(eadem.environment["EADEM_CACHE"]) / "digests"

    def written(when):
        for file in model.iterdir():
            os.utime(file, (when, when))

    written(time.time() + 3600)  # after whatever moment the program takes for now
    fresh = info(eadem)["identity"]["weights"]
    assert not digests.exists(), "files that changed just now are not believed, so nothing is kept"
    written(time.time() - 3600)
    time.sleep(2.1)
    assert info(eadem)["identity"]["weights"] == fresh
    (entry,) = digests.iterdir()
    kept = json.loads(entry.read_text())
    assert kept["digest"] == fresh
    kept_at = entry.stat().st_mtime_ns
    assert info(eadem)["identity"]["weights"] == fresh and entry.stat().st_mtime_ns == kept_at, "read, not written"
    info(eadem, "--recheck-weights")
    (entry,) = digests.iterdir()
    assert entry.stat().st_mtime_ns != kept_at, "hashed again, and kept again"
    # An entry that lies about its digest and has no valid check of its own is not believed.
    entry.write_text(json.dumps({**kept, "digest": "0" * 64}))
    assert info(eadem)["identity"]["weights"] == fresh
    weights = model / "model-00003-of-00003.safetensors"
    data, times = bytearray(weights.read_bytes()), weights.stat()
    data[-2] ^= 1
    weights.write_bytes(data)
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert info(eadem)["identity"]["weights"] != fresh, "one bit, under the old size and time of writing"
