#!/usr/bin/env python3
"""Files of packaging/: the example of a configuration file, systemd units, scripts of the Debian package."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PACKAGING, WEFT = Path(sys.argv[1]), sys.argv[2]


class Packaging(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_tool(self, *words, **options):
        if shutil.which(words[0]) is None:
            self.skipTest(f"no {words[0]}")
        result = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, **options)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout

    def test_the_example_is_taken_as_it_is_and_with_all_its_options(self):
        text = (PACKAGING / "config.toml").read_text()
        options = re.sub(r"^#(?=[a-z-]+ = )", "", text, flags=re.MULTILINE)
        self.assertGreater(len(re.findall(r"^[a-z-]+ = ", options, re.MULTILINE)), 8)
        for number, content in enumerate((text, options)):
            file = self.folder / f"{number}.toml"
            file.write_text(content)
            self.run_tool(WEFT, "version", "--config", file, env={"PATH": os.environ["PATH"]})

    def test_units(self):
        for name in ("weft.service", "weft.socket"):
            # The program need not be installed here.
            text = (PACKAGING / name).read_text().replace("ExecStart=weft ", "ExecStart=/bin/true ")
            (self.folder / name).write_text(text)
        units = [self.folder / "weft.service", self.folder / "weft.socket"]
        self.run_tool("systemd-analyze", "verify", "--man=no", *units)
        exposure = self.run_tool("systemd-analyze", "security", "--offline=yes", units[0])
        self.assertLess(float(re.search(r"exposure level for weft.service: ([\d.]+)", exposure)[1]), 2.0)

    def test_scripts(self):
        for name in ("postinst", "prerm", "postrm"):
            self.assertTrue(os.access(PACKAGING / name, os.X_OK), name)
            self.run_tool("sh", "-n", PACKAGING / name)
            self.run_tool("shellcheck", PACKAGING / name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
