"""Cache tiers: prefixes that the cache evicts come back, also in another process."""
import subprocess
import sys

import weft
from conftest import GOLDEN

LLAMA = GOLDEN / "llama/model.gguf"
PROGRAM = """
import sys
import weft

with weft.Model(sys.argv[1], n_ctx=1024, pack_cache="", n_threads=1, cache_disk=sys.argv[2]) as model:
    answer = model.generate([3 + (i * 7 + 7) % 500 for i in range(400)], max_tokens=8, ignore_end=True, temperature=0)
    print(answer.stats["n_cached"], answer.tokens, model.notes)
"""


def test_evicted_prefixes_come_back_from_memory():
    prompts = {name: [3 + (i * step + step) % 500 for i in range(n)] for name, n, step in (("A", 400, 7), ("B", 500, 11), ("C", 500, 13))}
    with weft.Model(LLAMA, n_ctx=1024, pack_cache="", n_threads=1, cache_ram_bytes=1 << 30) as model:
        answers = [model.generate(prompts[name], max_tokens=8, ignore_end=True, temperature=0) for name in "AABCA"]
        assert [answer.stats["n_cached"] for answer in answers] == [0, 399, 0, 0, 399]
        assert answers[0].tokens == answers[1].tokens == answers[4].tokens
        stats = model.stats()
        assert stats["n_ram_tokens"] == 399 and stats["n_disk_tokens"] == 0
        assert 0 < stats["cache_ram_bytes"] <= stats["cache_ram_limit"] == 1 << 30 and stats["n_stored_tokens"] > 400


def test_files_survive_the_process(tmp_path):
    folder = tmp_path / "prefixes"

    def run():
        return subprocess.run([sys.executable, "-I", "-c", PROGRAM, LLAMA, folder], check=True, capture_output=True, text=True).stdout

    first, second = run(), run()
    assert first.startswith("0 [") and first.endswith(" []\n")
    assert second == first.replace("0 [", "399 [", 1)
    for file in folder.iterdir():
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 0x55
        file.write_bytes(data)
    damaged = run()
    assert damaged.startswith(first[: first.index("]")]) and "damaged" in damaged


def test_the_folder_and_the_limits_are_checked(tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    with weft.Model(LLAMA, n_ctx=256, pack_cache="", n_threads=1, cache_disk=file) as model:
        assert len(model.generate([5] * 40, max_tokens=2).tokens) > 0
    assert any(str(file) in note for note in model.notes)
