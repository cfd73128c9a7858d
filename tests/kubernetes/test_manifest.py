#!/usr/bin/env python3
"""The Kubernetes manifest. It is valid by Kubernetes' schemas, and its parts fit each other and the image. The server
that its arguments start responds to its probes.

test_manifest.py FOLDER [WORDS...]: runs in a virtual environment in FOLDER that has the schemas
(kubernetes-validate)."""
import copy
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
MANIFEST = SOURCE / "packaging" / "kubernetes" / "weft.yaml"

if __name__ == "__main__" and len(sys.argv) > 1:
    sys.path.insert(0, str(SOURCE / "scripts"))
    from make_wheel import make_environment

    python = make_environment(Path(sys.argv[1]).resolve(), "kubernetes-validate")
    sys.exit(subprocess.run([python, "-I", __file__]).returncode)

import kubernetes_validate  # noqa: E402
import yaml  # noqa: E402

DOCUMENTS = list(yaml.safe_load_all(MANIFEST.read_text()))


def find(kind: str) -> dict:
    (found,) = [document for document in DOCUMENTS if document["kind"] == kind]
    return found


DEPLOYMENT = find("Deployment")
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
PROBES = {name: CONTAINER[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}


def validate(document: dict) -> None:
    kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


class Manifest(unittest.TestCase):
    def test_it_holds_to_the_schemas(self) -> None:
        for document in DOCUMENTS:
            validate(document)
        for change in ({"selector": "weft"}, {"replicas": "two"}, {"replica": 2}):
            broken = copy.deepcopy(DEPLOYMENT)
            broken["spec"].update(change)
            with self.assertRaises(kubernetes_validate.ValidationError, msg=str(change)):
                validate(broken)

    def test_its_parts_fit_each_other(self) -> None:
        labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
        for selector in (DEPLOYMENT["spec"]["selector"]["matchLabels"], find("Service")["spec"]["selector"],
                         find("PodDisruptionBudget")["spec"]["selector"]["matchLabels"]):  # fmt: skip
            self.assertEqual(selector, labels)
        target = find("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
        self.assertEqual([target[key] for key in ("apiVersion", "kind", "name")],
                         [DEPLOYMENT["apiVersion"], "Deployment", DEPLOYMENT["metadata"]["name"]])  # fmt: skip
        ports = {port["name"] for port in CONTAINER["ports"]}
        self.assertLessEqual({probe["port"] for probe in PROBES.values()}, ports)
        self.assertIn(find("Service")["spec"]["ports"][0]["targetPort"], ports)
        volumes = {volume["name"]: volume for volume in POD["volumes"]}
        self.assertEqual({mount["name"] for mount in CONTAINER["volumeMounts"]}, set(volumes))
        claim = volumes["models"]["persistentVolumeClaim"]["claimName"]
        self.assertEqual(claim, find("PersistentVolumeClaim")["metadata"]["name"])
        (keys,) = [mount["mountPath"] for mount in CONTAINER["volumeMounts"] if mount["name"] == "keys"]
        words = CONTAINER["args"]
        self.assertTrue(words[words.index("--api-key-file") + 1].startswith(keys + "/"))
        policy = find("NetworkPolicy")["spec"]
        self.assertEqual(policy["podSelector"]["matchLabels"], labels)
        self.assertIn(policy["ingress"][0]["ports"][0]["port"], ports)
        delays = [int(words[words.index(name) + 1]) for name in ("--drain-delay", "--shutdown-timeout")]
        self.assertGreater(POD["terminationGracePeriodSeconds"], sum(delays))

    def test_it_fits_the_image(self) -> None:
        image = (SOURCE / "Dockerfile").read_text()
        self.assertEqual(re.findall(r"EXPOSE (\d+)", image), [str(port["containerPort"]) for port in CONTAINER["ports"]])
        self.assertIn(f"--uid {POD['securityContext']['runAsUser']} ", image)
        mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
        self.assertIn(f'VOLUME ["{mounts["models"]}"]', image)
        (cache,) = re.findall(r"WEFT_CACHE=(\S+)", image)
        self.assertEqual(mounts["packed"], f"{cache}/packed")
        # An image that other machines reach has keys.
        (keys,) = re.findall(r"WEFT_ARG_API_KEY_FILE=(\S+)", image)
        self.assertEqual(CONTAINER["args"][CONTAINER["args"].index("--api-key-file") + 1], keys)
        self.assertIn('ENTRYPOINT ["weft"]', image)

    def test_its_server_answers_its_probes(self) -> None:
        words = list(CONTAINER["args"])
        words[words.index("-m") + 1] = str(SOURCE / "tests/data/golden/llama/model.gguf")
        words[words.index("-c") + 1] = "512"
        words[words.index("--drain-delay") + 1] = "0"
        with tempfile.NamedTemporaryFile("w", delete=False) as keys:
            keys.write("secret alice\n")
        self.addCleanup(os.unlink, keys.name)
        words[words.index("--api-key-file") + 1] = keys.name
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen([os.environ["WEFT_PROGRAM"], *words, "-t", "1", "--no-pack-cache", "--port", str(port)])
        try:
            for name, probe in PROBES.items():
                deadline = time.monotonic() + 120
                while (status := self.status(port, probe["path"])) != 200:
                    self.assertIsNone(server.poll(), "the server ended")
                    self.assertLess(time.monotonic(), deadline, f"{name}: {status}")
                    time.sleep(0.1)
        finally:
            server.terminate()
            self.assertEqual(server.wait(timeout=120), 0)

    @staticmethod
    def status(port: int, path: str) -> object:
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30).status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError as error:
            return error


if __name__ == "__main__":
    unittest.main(verbosity=2)
