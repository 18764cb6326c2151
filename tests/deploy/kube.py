"""The Kubernetes API server that ``.ci/deploy`` starts, and helm on it."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from house.chart import helm_program
from house.machine import run as run_program


class Cluster:
    """The API server that KUBECONFIG names, and helm on it."""

    def __init__(self) -> None:
        config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
        self._server = config["clusters"][0]["cluster"]["server"]
        self._token = config["users"][0]["user"]["token"]
        self._helm = helm_program()
        # The server made its certificate itself, at its start.
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """Return the status and the object that the server answers."""
        request = urllib.request.Request(
            f"{self._server}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def namespace(self) -> str:
        """Make a namespace that accepts only pods without privileges."""
        name = f"t-{uuid.uuid4().hex[:10]}"
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        status, answer = self.ask(
            "POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}
        )
        assert status == 201, answer
        # Without a node, the controller that makes it is not there.
        account = {"metadata": {"name": "default"}}
        assert self.ask("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)[0] in (201, 409)
        return name

    def helm(self, *arguments: str) -> tuple[int, str]:
        """Return the exit code of helm and what it wrote."""
        done = run_program(self._helm, *arguments)
        return done.returncode, done.stdout + done.stderr

    def pods(self, namespace: str) -> Iterator[dict[str, Any]]:
        """Yield the pods that controllers would make of the deployments and jobs."""
        for path in ("apps/v1/{}/deployments", "batch/v1/{}/jobs"):
            status, found = self.ask("GET", f"/apis/{path.format(f'namespaces/{namespace}')}")
            assert status == 200
            for each in found["items"]:
                template = each["spec"]["template"]
                metadata = {**template["metadata"], "generateName": "pod-"}
                yield {"metadata": metadata, "spec": template["spec"]}

    def names(self, namespace: str, path: str) -> list[str]:
        _, found = self.ask("GET", f"/{path.format(f'namespaces/{namespace}')}")
        return [each["metadata"]["name"] for each in found["items"]]
