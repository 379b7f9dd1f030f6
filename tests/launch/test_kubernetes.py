"""The manifest of docs/kubernetes.yaml: its fields, and its job, with namespaces of this machine for pods."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

client = pytest.importorskip(
    "kubernetes.client", reason="needs the extra k8s: pip install 'mxjax[k8s]'"
)
yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
MANIFEST = {
    d["kind"]: d for d in yaml.safe_load_all((ROOT / "docs" / "kubernetes.yaml").read_text())
}
JOB = MANIFEST["Job"]
POD = JOB["spec"]["template"]["spec"]
SIZE = JOB["spec"]["completions"]
LONG = 300


def check(value: Any, kind: str, where: str) -> None:
    """All fields are those that Kubernetes knows, with values of their types."""
    if kind.lower().startswith("list["):
        assert isinstance(value, list), where
        for k, item in enumerate(value):
            check(item, kind[5:-1], f"{where}[{k}]")
    elif kind.lower().startswith("dict"):
        assert isinstance(value, dict), where
    elif kind in ("str", "int", "bool"):
        assert type(value).__name__ == kind, where
    else:
        model = getattr(client, kind)
        names = {alias: name for name, alias in model.attribute_map.items()}
        unknown = set(value) - set(names)
        assert not unknown, f"{where}: unknown fields {unknown}"
        for alias, given in value.items():
            check(given, model.openapi_types[names[alias]], f"{where}.{alias}")
        model(
            **{names[alias]: given for alias, given in value.items()}
        )  # raises where a required one is missing


@pytest.mark.parametrize("kind", MANIFEST)
def test_the_manifest_has_the_fields_of_its_kinds(kind):
    check(MANIFEST[kind], f"V1{kind}", kind)


def test_a_field_that_is_unknown_or_missing_is_found():
    with pytest.raises(AssertionError, match="unknown fields {'completion'}"):
        check({"spec": {"template": {}, "completion": 4}}, "V1Job", "Job")
    with pytest.raises(ValueError, match="template"):
        check({"spec": {"completions": 4}}, "V1Job", "Job")


def test_the_parts_of_the_manifest_fit_together():
    service = MANIFEST["Service"]
    assert service["spec"]["selector"] == {"job-name": JOB["metadata"]["name"]}
    assert (
        POD["subdomain"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None"
    )
    names = {MANIFEST[k]["metadata"]["name"] for k in ("ServiceAccount", "Role", "RoleBinding")}
    assert names == {POD["serviceAccountName"]} == {MANIFEST["RoleBinding"]["roleRef"]["name"]}
    assert JOB["spec"]["parallelism"] == SIZE and JOB["spec"]["completionMode"] == "Indexed"


class Kubernetes:
    """As much of the API as the pods of a job may read, and pods that are mount and UTS namespaces."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        account = folder / "run" / "secrets" / "kubernetes.io" / "serviceaccount"
        account.mkdir(parents=True)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=api",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key", "-out", account / "ca.crt"],
            check=True, capture_output=True,
        )  # fmt: skip
        (account / "token").write_text("of-the-account")
        (account / "namespace").write_text("default")
        name = JOB["metadata"]["name"]
        hosts = ["127.0.0.1 localhost"]
        hosts += [
            f"{self.address(k)} {name}-{k}.{POD['subdomain']} {name}-{k}" for k in range(SIZE)
        ]
        (folder / "hosts").write_text("\n".join(hosts) + "\n")
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known = (self.headers["authorization"] or "").lower() == "bearer of-the-account"
                found = api.answer(self.path) if known else None
                text = json.dumps(found or {}).encode()
                self.send_response(403 if found is None else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(account / "ca.crt", folder / "key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @staticmethod
    def address(k: int) -> str:
        return f"127.0.0.{10 + k}"

    def answer(self, path: str) -> dict[str, Any] | None:
        """What the manifest's role lets its account read."""
        url = urlsplit(path)
        name = JOB["metadata"]["name"]
        self.asked.append(url.path)
        if url.path == f"/apis/batch/v1/namespaces/default/jobs/{name}":
            return {**JOB, "metadata": {**JOB["metadata"], "labels": {}}}
        if url.path == "/api/v1/namespaces/default/pods":
            address = parse_qs(url.query)["fieldSelector"][0].removeprefix("status.podIP=")
            owner = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": name,
                "uid": "1",
                "controller": True,
            }
            metadata = {
                "name": f"pod-{address}",
                "labels": {"job-name": name},
                "ownerReferences": [owner],
            }
            return {"items": [{"metadata": metadata, "spec": POD, "status": {"podIP": address}}]}
        return None

    def pod(
        self, k: int, script: Path, *arguments: object, **variables: str
    ) -> subprocess.Popen[str]:
        """Container 0 of pod k, with another script."""
        (container,) = POD["containers"]
        command = [
            {"python": sys.executable, "train.py": str(script)}.get(c, c)
            for c in container["command"]
        ]
        command = [c.replace("/checkpoints", str(self.folder / "checkpoints")) for c in command]
        name = f"{JOB['metadata']['name']}-{k}"
        inside = (
            f'mount --bind "{self.folder}/run" /run && mount --bind "{self.folder}/hosts" /etc/hosts && '
            f'hostname {name} && exec "$@"'
        )
        kept = {n: v for n, v in os.environ.items() if not n.startswith("DMLC_")}
        env = {
            **kept, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "HOSTNAME": name,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.server.server_port),
            "JOB_COMPLETION_INDEX": str(k), **variables,
        }  # fmt: skip
        return subprocess.Popen(
            ["unshare", "--mount", "--uts", "sh", "-c", inside, "sh", *command, *map(str, arguments)], env=env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[Kubernetes]:
    try:
        subprocess.run(["unshare", "--mount", "--uts", "true"], check=True, capture_output=True)
        subprocess.run(["openssl", "version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(
            f"pods are made of namespaces of Linux, as root, and their API's certificate by openssl: {error}"
        )
    made = Kubernetes(tmp_path)
    yield made
    made.server.shutdown()
    made.server.server_close()


SCRIPT = """
import mxjax as mx
kv = mx.kv.create("dist_sync")
kv.init("a", mx.np.zeros(3))
out = mx.np.zeros(3)
kv.pushpull("a", mx.np.full(3, kv.rank + 1.0), out=out)
print("sum", kv.rank, kv.num_workers, out.tolist())
"""


@pytest.mark.slow
def test_the_pods_of_the_job_find_each_other(kubernetes, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    pods = [kubernetes.pod(k, script) for k in range(SIZE)]
    ends = [(p.communicate(timeout=LONG)[0], p.returncode) for p in pods]
    for k, (output, status) in enumerate(ends):
        assert status == 0 and f"sum {k} {SIZE} {[SIZE * (SIZE + 1) / 2] * 3}" in output, output
    assert {path.rsplit("/", 1)[1] for path in kubernetes.asked} == {
        "pods",
        JOB["metadata"]["name"],
    }


@pytest.mark.slow
def test_pods_hear_of_one_that_is_killed(kubernetes):
    faults = ROOT / "tests" / "kvstore" / "processes" / "faults.py"
    pods = [kubernetes.pod(k, faults, "kill", 1, MXJAX_TIMEOUT_HEARTBEAT="60") for k in range(SIZE)]
    ends = [(p.communicate(timeout=LONG)[0], p.returncode) for p in pods]
    assert [status for _, status in ends] == [7, 137, 7, 7], ends
    for k in (0, 2, 3):
        assert re.search(r"^heard: rank 1 of 4 has ended", ends[k][0], re.M), ends[k][0]


@pytest.mark.slow
def test_an_account_without_the_role_is_told_so(kubernetes, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    kubernetes.answer = lambda path: None
    output = kubernetes.pod(0, script).communicate(timeout=LONG)[0]
    assert "403" in output and "started by k8s's launcher" in output, output
