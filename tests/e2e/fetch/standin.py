"""A stand-in for the Python index and the Hugging Face hub, with the faults that networks have.

Files are served at the paths given. `Served` says how one file misbehaves; every request is logged as (path, headers).
"""

import hashlib
import http.server
import json
import threading
from dataclasses import dataclass, field


@dataclass
class Served:
    """One file: `content`, and what goes wrong on the way."""

    content: bytes
    type: str = "application/octet-stream"
    etag: str = '"v1"'
    status: int = 200
    location: str = ""  # a redirect
    cut: list = field(default_factory=list)  # for each request in turn: bytes after which the connection breaks
    refuse: int = 0  # so many requests are answered by 503 first
    ranges: bool = True
    claims_length: bool = True  # without it, a broken connection looks like the end
    extra: dict = field(default_factory=dict)


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_arguments):
        pass

    def do_GET(self):
        path = self.path.split("?")[0]
        self.server.log.append((path, dict(self.headers)))
        served = self.server.files.get(path)
        if served is None:
            self.send_error(404)
        elif served.refuse > 0:
            served.refuse -= 1
            self.send_error(503)
        elif served.location:
            self.send_response(302)
            self.send_header("Location", served.location)
            for name, value in served.extra.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self.send_body(served)

    def send_body(self, served):
        start = 0
        wanted = self.headers.get("Range", "")
        same = self.headers.get("If-Range", served.etag) == served.etag
        if served.ranges and wanted.startswith("bytes=") and same:
            start = int(wanted[len("bytes=") :].rstrip("-"))
        if start >= len(served.content) and start > 0:
            self.send_error(416)
            return
        body = served.content[start:]
        self.send_response(206 if start else served.status)
        self.send_header("Content-Type", served.type)
        self.send_header("ETag", served.etag)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(served.content) - 1}/{len(served.content)}")
        if served.claims_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: served.cut.pop(0)] if served.cut else body)


class StandIn:
    """The server, on a free port of this machine, as a context manager."""

    def __enter__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.files, self.server.log = {}, []
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.other_host = f"http://localhost:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_exception):
        self.server.shutdown()
        self.server.server_close()

    def serve(self, path, content, **how):
        served = Served(content.encode() if isinstance(content, str) else content, **how)
        self.server.files[path] = served
        return served

    def requests(self, path):
        """The headers of every request of a path so far."""
        return [headers for asked, headers in self.server.log if asked == path]

    def serve_repository(self, name, files, commit="c0ffee", revision="main"):
        """A hub repository; files with a dot-safetensors or dot-gguf name are in LFS. Returns path -> Served."""
        siblings, served = [], {}
        for path, content in files.items():
            entry = {"rfilename": path, "size": len(content)}
            entry["blobId"] = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            if path.endswith((".safetensors", ".gguf")):
                entry["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            siblings.append(entry)
            served[path] = self.serve(f"/{name}/resolve/{commit}/{path}", content)
        listing = {"id": name, "sha": commit, "siblings": siblings}
        self.serve(f"/api/models/{name}/revision/{revision}", json.dumps(listing), type="application/json")
        return served
