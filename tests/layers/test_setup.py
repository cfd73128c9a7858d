#!/usr/bin/env python3
"""scripts/setup.sh with an apt-get that fails at one of its steps: the exit status is 77 only if packages cannot be
fetched."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SETUP = Path(__file__).resolve().parent.parent.parent / "scripts" / "setup.sh"

# Fails at the steps that FAILS names, and notes the steps.
APT_GET = """#!/bin/sh
step=$2
for word; do case "$word" in --simulate|--download-only) step=${word#--};; esac; done
echo "$step" >> "$STEPS"
case " $FAILS " in *" $step "*) exit 100;; esac
"""


class Setup(unittest.TestCase):
    def run_setup(self, fails: str) -> tuple[int, list[str], str]:
        """The exit status, the steps of apt-get and the messages."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            scripts = {"apt-get": APT_GET, "dpkg-query": "#!/bin/sh\nexit 1\n", "sudo": '#!/bin/sh\nexec "$@"\n'}
            for program, text in scripts.items():
                (folder / program).write_text(text)
                (folder / program).chmod(0o755)
            shutil.copy(SETUP, folder)
            (folder / "packages.txt").write_text("build  one two\n")
            environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "STEPS": str(folder / "steps"), "FAILS": fails}
            done = subprocess.run([folder / "setup.sh"], env=environment, capture_output=True, text=True, check=False)
            return done.returncode, (folder / "steps").read_text().split(), done.stderr

    def test_packages_are_checked_fetched_and_installed(self):
        self.assertEqual(self.run_setup("")[:2], (0, ["update", "simulate", "download-only", "install"]))

    def test_without_a_network_the_work_is_skipped(self):
        for fails in ("update simulate", "download-only", "update download-only"):
            status, _, message = self.run_setup(fails)
            self.assertEqual(status, 77, fails)
            self.assertIn("cannot be fetched: one two", message)

    def test_a_source_that_fails_does_not_matter_if_others_have_the_packages(self):
        self.assertEqual(self.run_setup("update")[0], 0)

    def test_unknown_packages_and_broken_installations_are_errors(self):
        status, steps, message = self.run_setup("simulate")
        self.assertEqual((status, steps), (1, ["update", "simulate"]))
        self.assertIn("cannot be installed on this system: one two", message)
        self.assertEqual(self.run_setup("install")[0], 1)


if __name__ == "__main__":
    unittest.main()
